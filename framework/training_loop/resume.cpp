#include "framework/training_loop/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "framework/core/byte_text.h"
#include "framework/core/stopwatch.h"
#include "framework/training_loop/checkpoint_values.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/named_checkpoint.h"
#include "framework/training_loop/step_metrics.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

constexpr const char* newest_wish = "auto";
constexpr const char* new_run_wish = "never";

constexpr const char* new_run_with_its_weights =
    "begin a new run with its weights alone: another run.output_dir and training.init_from.path";

// In the run's directory; -1 where there is none. Decided by rank 0: another node may see the
// directory later.
std::int64_t newest_step(const ResumeContext& run) {
  std::int64_t newest = -1;
  if (run.world.rank() == 0) {
    const std::vector<std::int64_t> there = steps_in(run.directory.checkpoints());
    if (!there.empty()) newest = there.back();
  }
  return run.world.all_reduce(newest, Reduction::maximum);
}

// A run that was killed in its first save has a line of that step, and none of a later one. One
// that has diverged goes on without a loss, and saves nothing of that: its first save may be that
// of the first step with a loss after the one that was due.
bool must_have_saved(const MetricsEnd& end, std::int64_t every) {
  return every > 0 && end.with_loss > every &&
         (end.with_loss_before >= every || end.with_loss >= 2 * every);
}

// What keeps a run from going on with a checkpoint's values. Another configuration is not among it.
std::vector<std::string> problems_of(const ResumeContext& run, const Checkpoint& checkpoint) {
  std::vector<std::string> problems = value_problems(checkpoint);
  if (!problems.empty()) return problems;
  try {
    change_since(checkpoint, run.text.compare);
  } catch (const DataError& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

// Renames what a run wrote that saved nothing.
fs::path put_aside(const fs::path& path, const std::string& run_id) {
  const fs::path aside = path.string() + ".before-" + run_id;
  std::error_code error;
  fs::rename(path, aside, error);
  if (error)
    throw Failure(
        "{}: cannot be renamed to {}: {}", path.string(), aside.string(), error.message());
  return aside;
}

}  // namespace

ReadProgress watch_of(const ResumeContext& run, const std::string& place) {
  constexpr double seconds_between = 10;
  // What the run is made of by value: a checkpoint keeps the watch.
  return [run, place, since = Stopwatch(), read = std::int64_t{0}, told = 0.0](
             std::int64_t bytes) mutable {
    if (run.stop.requested())
      throw Error(ExitCode::stopped,
                  "stopped on request before the first step, while a checkpoint was read; "
                  "nothing is lost: start again to go on");
    read += bytes;
    if (since.seconds() < told + seconds_between) return;
    told = since.seconds();
    run.log.info("{}: {} read by this rank to verify checkpoints, which goes on",
                 place.empty() ? run.directory.checkpoints().string() : place,
                 format_bytes(static_cast<double>(read)));
  };
}

std::optional<fs::path> resolve_resume_checkpoint(const ResumeContext& run) {
  const ConfigPath& wish = run.settings.checkpoint.resume;
  const fs::path checkpoints = run.directory.checkpoints();
  if (wish == new_run_wish) {
    if (const std::int64_t newest = newest_step(run); newest >= 0)
      throw ConfigurationError(
          "checkpoint.resume_from is never, but {} already holds {}; choose another run.output_dir "
          "or "
          "remove it",
          checkpoints.string(),
          step_name(newest));
    return std::nullopt;
  }
  const CheckpointValidator judge = [&](const Checkpoint& checkpoint) {
    return problems_of(run, checkpoint);
  };
  if (wish != newest_wish) {
    NamedCheckpoint named =
        find_checkpoint(wish, run.directory.path(), run.world, judge, watch_of(run));
    for (const std::string& sentence : named.skipped) run.log.warning("{}", sentence);
    return named.path;
  }
  CheckpointSearch search = latest_valid_checkpoint(checkpoints, run.world, judge, watch_of(run));
  for (const std::string& sentence : search.skipped) run.log.warning("{}", sentence);
  if (!search.found) {
    if (!search.skipped.empty())
      throw DataError("{}: no checkpoint can be read; the newest: {}",
                      checkpoints.string(),
                      search.skipped.front());
    return std::nullopt;
  }
  // What was moved aside may be an older step.
  if (search.goes_back)
    run.log.warning("going back to step {}, the newest that verifies", search.found->step);
  return search.found->path;
}

ConfigPath resume_after_divergence(const ConfigPath& wish, bool has_saved) {
  // A new run begins anew in its own directory.
  return has_saved || wish == new_run_wish ? ConfigPath(newest_wish) : wish;
}

std::int64_t rollback_step(const ResumeContext& run, std::int64_t step, bool has_saved) {
  const bool is_own =
      resume_after_divergence(run.settings.checkpoint.resume, has_saved) == newest_wish;
  return is_own ? std::clamp<std::int64_t>(newest_step(run), 0, step) : step;
}

std::string resume_instructions(const ConfigPath& wish) {
  return wish == newest_wish ? "" : " with checkpoint.resume_from: auto";
}

SkippedData skipped_data_from(const ResumeContext& run,
                              const fs::path& path,
                              const std::string& saved,
                              const std::string& run_id) {
  const fs::path skipped = run.directory.skipped();
  std::int64_t is_own = 0;
  if (run.world.rank() == 0 && !path.empty()) {
    std::error_code unused;
    is_own = fs::equivalent(path / "..", run.directory.checkpoints(), unused) ? 1 : 0;
  }
  if (run.world.all_reduce(is_own, Reduction::maximum) == 1)
    return read_skipped_data(run.directory, run.world);
  const SkippedData data =
      saved.empty() ? SkippedData() : SkippedData::of_json(saved, path.string());
  if (run.world.rank() != 0) return data;
  std::error_code unused;
  if (fs::exists(fs::symlink_status(skipped, unused)))
    run.log.warning("{} is of an earlier run: it is now {}",
                    skipped.string(),
                    put_aside(skipped, run_id).filename().string());
  if (!saved.empty()) run.directory.write(skipped.filename(), data.to_json());
  return data;
}

ConfigurationChange change_since(
    const Checkpoint& checkpoint,
    const std::function<ConfigurationChange(const std::string& saved)>& compare) {
  try {
    return compare(checkpoint.info().configuration);
  } catch (const DataError& error) {
    throw DataError("{}: its configuration cannot be read: {}",
                    (checkpoint.path() / "manifest.json").string(),
                    error.what());
  }
}

void require_same_model(const Checkpoint& checkpoint,
                        const ConfigurationChange& change,
                        const std::string& remedy) {
  if (!change.refused.empty())
    throw ConfigurationError("{}: was made with another model: {}; {}",
                             checkpoint.path().string(),
                             fmt::join(change.refused, "; "),
                             remedy);
}

void check_resumable(const ResumeContext& run,
                     const Checkpoint& checkpoint,
                     const Task& task,
                     const CursorRows& rows) {
  const Tokenizer& tokenizer = task.tokenizer();
  const RunConfig& settings = run.settings;
  const std::string path = checkpoint.path().string();
  if (!checkpoint.has(cursor_name))
    throw ConfigurationError(
        "{} holds weights that were imported, and no training to go on with; begin a new run with "
        "training.init_from.path: {} and another run.output_dir",
        path,
        settings.run.directory.text());
  // Newer steps than the one named would be taken for this run's when it next goes on from its own.
  const bool is_named = settings.checkpoint.resume != newest_wish;
  if (const std::int64_t newest = newest_step(run); is_named && newest > checkpoint.info().step)
    throw ConfigurationError(
        "checkpoint.resume_from is {}, but {} already holds {}; set checkpoint.resume_from to auto "
        "to go on "
        "from there, or choose another run.output_dir",
        path,
        run.directory.checkpoints().string(),
        step_name(newest));
  const ConfigurationChange change = change_since(checkpoint, run.text.compare);
  require_same_model(checkpoint,
                     change,
                     "set what the checkpoint has, or another run.output_dir to begin a new run");
  for (const std::string& difference : change.differences)
    run.log.info("differs from the checkpoint: {}", difference);
  // Such checkpoints do not say when they were saved.
  if (checkpoint.info().saved_at == 0)
    run.log.info(
        "{} is of a version whose schedules reached their end rate at the last update; now they do "
        "after it: learning rates differ a little from what that version would have taken",
        path);
  const std::int64_t streams = rows.total;
  if (const std::int64_t saved = checkpoint.shape_of(cursor_name)[0]; saved != streams)
    throw ConfigurationError(
        "data.global_batch_size is {}, but {} holds the memory and place of {} streams; set it to "
        "{}, or {}",
        streams,
        path,
        saved,
        saved,
        new_run_with_its_weights);
  if (tokenizer_of(checkpoint, settings.data) != tokenizer)
    throw DataError(
        "{}: was made with another tokenizer than data.train and data.tokenizer.type give; set "
        "them as "
        "they were{}, or {}",
        path,
        trains_tokenizer(settings.data)
            ? " (data.tokenizer.model can name the model that the run made)"
        : tokenizer.needs_token_file()
            ? ", or leave out data.tokenizer.model to use the tokenizer of the checkpoint"
        : tokenizer.kind() == TokenizerKind::ids ? " (data.tokenizer.vocab_size too)"
                                                 : "",
        new_run_with_its_weights);
  task.check_compatible(checkpoint.scalars(), path);
  if (const std::string other =
          describe_data_change(checkpoint.scalars(), task.identity(), settings.data.train);
      !other.empty())
    run.log.warning("{}", other);
}

void save_layout(Scalars& scalars, const RunLayout& layout) {
  scalars.set(threads_scalar, layout.threads);
  scalars.set(zero_scalar, layout.zero);
  scalars.set(device_scalar, layout.device);
}

void warn_layout_change(const Log& log, const Checkpoint& checkpoint, const RunLayout& layout) {
  const Scalars& scalars = checkpoint.scalars();
  const RunLayout saved = {checkpoint.info().layout,
                           scalars.get<std::int64_t>(threads_scalar),
                           scalars.get_or<std::int64_t>(zero_scalar, 0),
                           // Of an older checkpoint it is not known.
                           scalars.get_or<std::string>(device_scalar, layout.device)};
  if (saved == layout) return;
  log.info(
      "the checkpoint was made on data {} x context {} x tensor {} with {} threads a rank and ZeRO "
      "{} on {}: the run goes on to rounding, not bit for bit",
      saved.mesh.data,
      saved.mesh.context,
      saved.mesh.tensor,
      saved.threads,
      saved.zero,
      saved.device);
}

void archive_metrics(const ResumeContext& run, const std::string& run_id) {
  const fs::path path = run.directory.metrics();
  const bool speaks = run.world.rank() == 0;
  const MetricsEnd found = speaks ? end_of_metrics(path) : MetricsEnd{};
  const std::int64_t steps = run.world.all_reduce(found.step, Reduction::maximum);
  const bool has_saved =
      run.world.all_reduce(std::int64_t{must_have_saved(found, run.settings.checkpoint.every)},
                           Reduction::maximum) != 0;
  if (steps == 0) return;
  // With never the user has asked for a new run.
  const CheckpointOptions& checkpoint = run.settings.checkpoint;
  if (checkpoint.resume == newest_wish && has_saved)
    throw DataError(
        "{} goes to step {}, but {} holds no checkpoint; put it back, choose another "
        "run.output_dir, or set checkpoint.resume_from to never to begin anew",
        path.string(),
        steps,
        run.directory.checkpoints().string());
  if (!speaks) return;
  const fs::path aside = put_aside(path, run_id);
  run.log.warning("{} went to step {}, of which there is no checkpoint: it is now {}",
                  path.string(),
                  steps,
                  aside.filename().string());
  for (const fs::path& other :
       {run.directory.samples(), run.directory.tensorboard(), run.directory.exports()})
    if (fs::exists(other))
      run.log.warning("{} is now {}", other.string(), put_aside(other, run_id).filename().string());
}

}  // namespace longspan
