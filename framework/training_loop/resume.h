// Resumes a run: resolves the checkpoint, validates that it belongs to this run, and handles files
// that the run's directory already contains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoints/checkpoint.h"
#include "framework/config/run_config.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/tasks/task.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/run_directory.h"
#include "framework/training_loop/skipped_data.h"
#include "framework/training_loop/stop_request.h"
#include "framework/training_loop/training_run.h"

namespace longspan {

// Checkpoint tensor with each stream's position in the data, and checkpoint scalars with the run's
// layout.
inline constexpr const char* cursor_name = "data/cursor";
inline constexpr const char* threads_scalar = "run/num_threads";
inline constexpr const char* zero_scalar = "run/zero_stage";
inline constexpr const char* device_scalar = "run/device";

// Determines whether a run resumes bit for bit or only to rounding.
struct RunLayout {
  MeshShape mesh;
  std::int64_t threads = 1;  // of the rank with the most threads
  std::int64_t zero = 0;
  std::string device = "cpu";  // or "cuda", "cuda with NCCL"

  friend bool operator==(const RunLayout&, const RunLayout&) = default;
};

// The run to resume.
struct ResumeContext {
  const RunConfig& settings;
  const TrainingRunText& text;
  const RunDirectory& directory;
  const Communicator& world;
  const Log& log;
  const StopRequest& stop;
};

// Returns the checkpoint that checkpoint.resume_from resolves to (see loading.h), or
// nothing for a new run. Logs progress while it reads long files. A stop request ends it with an
// Error of ExitCode::stopped. Collective. Throws ConfigurationError if resume_from is `never` and
// there are checkpoints. Throws DataError if none can be read.
std::optional<std::filesystem::path> resolve_resume_checkpoint(const ResumeContext& run);

// Returns checkpoint.resume_from for a run that rolls back: the newest step of its own directory if
// it has saved one since it started, otherwise its starting point.
ConfigPath resume_after_divergence(const ConfigPath& resume_from, bool has_saved);

// Returns the step that a run rolls back to, expected to be `step`: its last save or its starting
// point. Returns an older step if that one is no longer in its directory, or 0 if there is none.
// Collective.
std::int64_t rollback_step(const ResumeContext& run, std::int64_t step, bool has_saved);

// Returns how a user must set checkpoint.resume_from to resume from the steps in the run's
// directory, as a clause that follows a verb. Empty if the current value already does.
std::string resume_instructions(const ConfigPath& resume_from);

// Returns what has changed since the checkpoint was saved. Throws DataError, with the checkpoint's
// location, if the checkpoint's configuration cannot be read.
ConfigurationChange change_since(
    const Checkpoint& checkpoint,
    const std::function<ConfigurationChange(const std::string& saved)>& compare);

// Returns a callback that logs the progress of reading checkpoints of the run, or files at `place`,
// and stops on a stop request. The members of `run` must outlive it.
ReadProgress progress_logger(const ResumeContext& run, const std::string& place = "");

// Throws ConfigurationError if changes since the checkpoint result in a different model. The
// last argument is the error's hint, as a clause.
void require_same_model(const Checkpoint& checkpoint,
                        const ConfigurationChange& change,
                        const std::string& hint);

// Throws ConfigurationError if the run cannot resume from the checkpoint. Throws DataError, naming
// the difference if possible, if the checkpoint has a different tokenizer. Collective.
void check_resumable(const ResumeContext& run,
                     const Checkpoint& checkpoint,
                     const Task& task,
                     const CursorRows& rows);

// Adds the layout that `warn_layout_change` compares to the scalars of a checkpoint.
void save_layout(Scalars& scalars, const RunLayout& layout);
// Warns if the run resumes only to rounding.
void warn_layout_change(const Log& log, const Checkpoint& checkpoint, const RunLayout& layout);

// Returns the data to skip for a run that starts at a checkpoint, or a new run if `path` is empty.
// `saved`: the checkpoint's skipped-data scalar, or empty. The file in the run's directory applies
// only to the steps there. With any other starting point it is moved aside, and the checkpoint's
// value is written. Collective.
SkippedData skipped_data_from(const ResumeContext& run,
                              const std::filesystem::path& path,
                              const std::string& saved,
                              const std::string& run_id);

// Moves the metrics and samples files of an earlier run aside, for a new run that finds no
// checkpoint. Collective. Throws DataError if a checkpoint must have existed.
void archive_metrics(const ResumeContext& run, const std::string& run_id);

}  // namespace longspan
