#include "framework/training_loop/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "framework/core/format.h"
#include "framework/core/span.h"
#include "framework/training_loop/checkpoint_values.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/step_metrics.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

constexpr const char* auto_value = "auto";
constexpr const char* new_run_value = "never";

constexpr const char* new_run_with_its_weights =
    "start a new run from its weights: set another run.output_dir and training.init_from.path";

// In the run's directory; -1 if there is none. Rank 0 decides, as another node may see the
// directory later.
std::int64_t newest_step(const ResumeContext& run) {
  std::int64_t newest = -1;
  if (run.world.rank() == 0) {
    const std::vector<std::int64_t> there = steps_in(run.directory.checkpoints());
    if (!there.empty()) newest = there.back();
  }
  return run.world.all_reduce(newest, Reduction::maximum);
}

// A run killed during its first save has logged that step and no later one. A diverged run
// continues without a loss and does not save such states. Its first save may then be at the first
// step with a loss after the scheduled one.
bool must_have_saved(const MetricsEnd& end, std::int64_t every) {
  return every > 0 && end.with_loss > every &&
         (end.with_loss_before >= every || end.with_loss >= 2 * every);
}

// Returns the problems that prevent resuming with a checkpoint's values, other than a different
// configuration.
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

// Moves files of a run that saved nothing aside.
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

ReadProgress progress_logger(const ResumeContext& run, const std::string& place) {
  constexpr double seconds_between = 10;
  // Copies the context, as the checkpoint stores the callback.
  return [run, place, since = Stopwatch(), read = std::int64_t{0}, told = 0.0](
             std::int64_t bytes) mutable {
    if (run.stop.requested())
      throw Error(ExitCode::stopped,
                  "stopped as requested before the first step, while reading a checkpoint: nothing "
                  "to save; run the same command to resume");
    read += bytes;
    if (since.seconds() < told + seconds_between) return;
    told = since.seconds();
    run.log.info("Verifying checkpoints in {}: {} read by this rank",
                 place.empty() ? run.directory.checkpoints().string() : place,
                 format_bytes(static_cast<double>(read)));
  };
}

std::optional<fs::path> resolve_resume_checkpoint(const ResumeContext& run) {
  const ConfigPath& resume_from = run.settings.checkpoint.resume;
  const fs::path checkpoints = run.directory.checkpoints();
  if (resume_from == new_run_value) {
    if (const std::int64_t newest = newest_step(run); newest >= 0)
      throw ConfigurationError(
          "checkpoint.resume_from is never, but {} already contains {}; "
          "choose another run.output_dir or delete it",
          checkpoints.string(),
          step_name(newest));
    return std::nullopt;
  }
  const CheckpointValidator judge = [&](const Checkpoint& checkpoint) {
    return problems_of(run, checkpoint);
  };
  if (resume_from != auto_value) {
    NamedCheckpoint named =
        find_checkpoint(resume_from, run.directory.path(), run.world, judge, progress_logger(run));
    for (const std::string& sentence : named.skipped) run.log.warning("{}", sentence);
    return named.path;
  }
  CheckpointSearch search =
      latest_valid_checkpoint(checkpoints, run.world, judge, progress_logger(run));
  for (const std::string& sentence : search.skipped) run.log.warning("{}", sentence);
  if (!search.found) {
    if (!search.skipped.empty())
      throw DataError(
          "{}: no valid checkpoint; the newest: {}", checkpoints.string(), search.skipped.front());
    return std::nullopt;
  }
  // The newest valid step may be older than a step that was moved aside.
  if (search.rolls_back)
    run.log.warning("Rolling back to step {}, the newest valid checkpoint", search.found->step);
  return search.found->path;
}

ConfigPath resume_after_divergence(const ConfigPath& resume_from, bool has_saved) {
  // A new run restarts in its own directory.
  return has_saved || resume_from == new_run_value ? ConfigPath(auto_value) : resume_from;
}

std::int64_t rollback_step(const ResumeContext& run, std::int64_t step, bool has_saved) {
  const bool is_own =
      resume_after_divergence(run.settings.checkpoint.resume, has_saved) == auto_value;
  return is_own ? std::clamp<std::int64_t>(newest_step(run), 0, step) : step;
}

std::string resume_instructions(const ConfigPath& resume_from) {
  return resume_from == auto_value ? "" : " with checkpoint.resume_from: auto";
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
    run.log.warning("{} belongs to an earlier run; renamed to {}",
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
    throw DataError("{}: cannot read its config: {}",
                    (checkpoint.path() / "manifest.json").string(),
                    error.what());
  }
}

void require_same_model(const Checkpoint& checkpoint,
                        const ConfigurationChange& change,
                        const std::string& hint) {
  if (!change.refused.empty())
    throw ConfigurationError("{}: the model differs: {}; {}",
                             checkpoint.path().string(),
                             fmt::join(change.refused, "; "),
                             hint);
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
        "{} contains imported weights without training state; start a new "
        "run: set training.init_from.path to {} and another run.output_dir",
        path,
        settings.run.directory.text());
  // Newer steps than the named one would be mistaken for this run's own on the next resume.
  const bool is_named = settings.checkpoint.resume != auto_value;
  if (const std::int64_t newest = newest_step(run); is_named && newest > checkpoint.info().step)
    throw ConfigurationError(
        "checkpoint.resume_from is {}, but {} already contains {}; set checkpoint.resume_from to "
        "auto to resume from it, or choose another run.output_dir",
        path,
        run.directory.checkpoints().string(),
        step_name(newest));
  const ConfigurationChange change = change_since(checkpoint, run.text.compare);
  require_same_model(
      checkpoint,
      change,
      "set these keys as in the checkpoint, or start a new run in another run.output_dir");
  for (const std::string& difference : change.differences)
    run.log.info("Config differs from the checkpoint: {}", difference);
  // Such checkpoints lack their time of saving.
  if (checkpoint.info().saved_at == 0)
    run.log.info(
        "{} was saved by an older version, whose schedules ended one update earlier; "
        "learning rates may differ slightly",
        path);
  const std::int64_t streams = rows.total;
  if (const std::int64_t saved = checkpoint.shape_of(cursor_name)[0]; saved != streams)
    throw ConfigurationError(
        "data.global_batch_size: expected {} as in {}, found {}; set it to {}, or {}",
        saved,
        path,
        streams,
        saved,
        new_run_with_its_weights);
  if (tokenizer_of(checkpoint, settings.data) != tokenizer)
    throw DataError(
        "{}: the tokenizer differs from that of data.train and data.tokenizer.type; "
        "set them as in the checkpoint{}, or {}",
        path,
        trains_tokenizer(settings.data)
            ? " (set data.tokenizer.model to the model that the run trained)"
        : tokenizer.needs_token_file()
            ? ", or omit data.tokenizer.model to use the tokenizer of the checkpoint"
        : tokenizer.kind() == TokenizerKind::ids ? " (including data.tokenizer.vocab_size)"
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
                           // Older checkpoints lack this scalar.
                           scalars.get_or<std::string>(device_scalar, layout.device)};
  if (saved == layout) return;
  log.info(
      "Checkpoint saved with data {} x context {} x tensor {}, {} per rank and ZeRO "
      "{} on {}: results match up to rounding, not bitwise",
      saved.mesh.data,
      saved.mesh.context,
      saved.mesh.tensor,
      pluralize(saved.threads, "thread"),
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
  // With never the user has requested a new run.
  const CheckpointOptions& checkpoint = run.settings.checkpoint;
  if (checkpoint.resume == auto_value && has_saved)
    throw DataError(
        "{} ends at step {}, but {} contains no checkpoint; restore it, choose another "
        "run.output_dir, or set checkpoint.resume_from to never to start over",
        path.string(),
        steps,
        run.directory.checkpoints().string());
  if (!speaks) return;
  const fs::path aside = put_aside(path, run_id);
  run.log.warning("{} ends at step {}, which has no checkpoint; renamed to {}",
                  path.string(),
                  steps,
                  aside.filename().string());
  for (const fs::path& other :
       {run.directory.samples(), run.directory.tensorboard(), run.directory.exports()})
    if (fs::exists(other))
      run.log.warning(
          "{} renamed to {}", other.string(), put_aside(other, run_id).filename().string());
}

}  // namespace longspan
