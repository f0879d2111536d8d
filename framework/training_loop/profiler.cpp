#include "framework/training_loop/profiler.h"

#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "framework/core/format.h"
#include "framework/core/system.h"
#include "framework/data/atomic_file.h"
#include "framework/profiling/profile_summary.h"
#include "framework/profiling/trace_text.h"

namespace longspan {
namespace {

std::string title_of(const ProcessMesh& mesh) {
  return fmt::format("rank {} (data {}, context {}, tensor {}) on {}",
                     mesh.world.rank(),
                     mesh.data_coordinate(),
                     mesh.context_coordinate(),
                     mesh.tensor_coordinate(),
                     host_name());
}

// Output files of the first rank. Stores the first error and then stops writing, as the other ranks
// must not wait.
class ProfileFiles {
 public:
  explicit ProfileFiles(std::filesystem::path stem) : stem_(std::move(stem)) {}

  // Nothing is written unless this is called.
  void begin() {
    attempt([&] {
      std::filesystem::create_directories(stem_.parent_path());
      trace_.emplace(trace());
    });
  }
  void write(std::string_view text) {
    if (trace_) attempt([&] { trace_->write(text); });
  }
  void finish(const std::vector<std::string>& table) {
    attempt([&] {
      trace_->finish();
      AtomicFile file(stem_.string() + ".txt");
      for (const std::string& line : table) file.write(line + "\n");
      file.finish();
    });
    trace_.reset();
  }

  std::filesystem::path trace() const { return stem_.string() + ".json"; }
  // The first error, or empty.
  const std::string& trouble() const { return error_; }

 private:
  template <typename F>
  void attempt(const F& f) {
    if (!error_.empty()) return;
    try {
      f();
    } catch (const std::exception& error) {
      error_ = error.what();
    }
  }

  std::filesystem::path stem_;
  std::optional<AtomicFile> trace_;
  std::string error_;
};

std::int64_t dropped_of(const TraceOfRank& trace) {
  std::int64_t dropped = 0;
  for (const ThreadSpans& thread : trace.threads) dropped += thread.recorded.dropped;
  return dropped;
}

}  // namespace

std::optional<ProfiledSteps> profiled_steps(std::string_view text) {
  ProfiledSteps steps;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, steps.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') return std::nullopt;
  const auto last = std::from_chars(first.ptr + 1, end, steps.last);
  if (last.ec != std::errc() || last.ptr != end) return std::nullopt;
  if (steps.first < 1 || steps.last < steps.first) return std::nullopt;
  return steps;
}

std::string problem_of(const ProfiledSteps& steps, std::int64_t steps_of_run) {
  if (steps.last <= steps_of_run) return "";
  return fmt::format("--profile-steps: expected steps from 1 to training.max_steps = {}, found {}",
                     steps_of_run,
                     steps.text());
}

Profiler::Profiler(const std::optional<ProfiledSteps>& steps,
                   const ProcessMesh& mesh,
                   const RunDirectory& directory,
                   const Log& log)
    : steps_(steps),
      mesh_(mesh),
      directory_(directory),
      log_(log),
      clock_(steady_clock_of_machine()) {}

void Profiler::warn_missed_steps(std::int64_t done) const {
  if (!steps_ || done < steps_->first) return;
  if (done >= steps_->last)
    log_.warning("--profile-steps {}: nothing recorded: the run resumes after step {}",
                 steps_->text(),
                 done);
  else
    log_.warning("--profile-steps {}: recording from step {}: the run resumes after step {}",
                 steps_->text(),
                 done + 1,
                 done);
}

void Profiler::start_step(std::int64_t step) {
  if (!steps_ || step < steps_->first || step > steps_->last) return;
  if (!has_recorded()) {
    begin();
    recorded_.first = step;
  }
  recorded_.last = step;
  here_.emplace(&main_);
  step_.emplace(SpanInfo{.kind = ActivityKind::step, .number = static_cast<std::uint64_t>(step)});
}

void Profiler::begin() {
  const ClockOffset offset = clock_offset(mesh_.world, clock_);
  line_.begin_offset = offset.offset;
  line_.uncertainty = offset.uncertainty;
  line_.begin = clock_.now();
  zero_ = mesh_.world.all_reduce(is_root() ? line_.begin : std::int64_t{0}, Reduction::sum);
  for (Timeline* timeline : {&main_, &reader_, &saver_}) timeline->start();
}

void Profiler::end_step() {
  step_.reset();
  here_.reset();
}

TraceOfRank Profiler::stop() {
  end_step();
  TraceOfRank trace = {.rank = mesh_.world.rank(), .title = title_of(mesh_), .zero = zero_};
  trace.threads.push_back({"main", main_.stop()});
  trace.threads.push_back({"reader", reader_.stop()});
  trace.threads.push_back({"saver", saver_.stop()});
  line_.end = clock_.now();
  const ClockOffset offset = clock_offset(mesh_.world, clock_);
  line_.end_offset = offset.offset;
  line_.uncertainty = std::max(line_.uncertainty, offset.uncertainty);
  trace.clock = line_;
  return trace;
}

void Profiler::write() {
  const TraceOfRank trace = stop();
  const ProfiledSteps steps = std::exchange(recorded_, {});
  ProfileFiles files(directory_.path() / "profile" /
                     fmt::format("trace-{:09}-{:09}", steps.first, steps.last));
  if (is_root()) files.begin();
  files.write(trace_head(
      nlohmann::json(
          {{"first_step", steps.first}, {"last_step", steps.last}, {"ranks", mesh_.world.size()}})
          .dump()));
  TraceText text(trace);
  gather_text(
      mesh_.world,
      [&] { return text.next(); },
      [&](std::string_view block) { files.write(block); });
  files.write(trace_tail());
  ProfileSummary lines;
  std::string mine = to_text(lines_of(trace.threads.front().recorded));
  gather_text(
      mesh_.world,
      [&] { return std::exchange(mine, {}); },
      [&](std::string_view block) { add_text(block, lines); });
  const std::int64_t last = mesh_.world.all_reduce(
      last_complete_step(trace.threads.front().recorded), Reduction::maximum);
  const std::int64_t dropped = mesh_.world.all_reduce(dropped_of(trace), Reduction::sum);
  if (!is_root()) return;
  const std::vector<std::string> table = table_of(lines, {steps.first, last, mesh_.world.size()});
  files.finish(table);
  for (const std::string& line : table) log_.info("{}", line);
  if (dropped > 0)
    log_.warning(
        "The profile lacks {} (limit of {} per thread), and its table lacks incomplete steps; "
        "profile fewer steps",
        pluralize(dropped, "span"),
        Timeline::default_capacity);
  if (!files.trouble().empty())
    log_.warning("Profile not written: {}", files.trouble());
  else
    log_.info("Wrote {}; open it in chrome://tracing or ui.perfetto.dev", files.trace().string());
}

}  // namespace longspan
