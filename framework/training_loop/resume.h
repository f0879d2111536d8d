// What a run goes on from: the checkpoint that is meant, whether it is of this run, and what the
// run's directory holds already.
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

// The tensor by which a checkpoint tells the place of each stream in the text, and the scalars by
// which it tells how its run was made.
inline constexpr const char* cursor_name = "data/cursor";
inline constexpr const char* threads_scalar = "run/threads";
inline constexpr const char* zero_scalar = "run/zero";
inline constexpr const char* device_scalar = "run/device";

// What decides whether a run goes on bit for bit or to rounding.
struct RunLayout {
  MeshShape mesh;
  std::int64_t threads = 1;  // of the rank that has most
  std::int64_t zero = 0;
  std::string device = "cpu";  // or "cuda", "cuda with NCCL"

  friend bool operator==(const RunLayout&, const RunLayout&) = default;
};

// The run that asks.
struct ResumeContext {
  const RunConfig& settings;
  const TrainingRunText& text;
  const RunDirectory& directory;
  const Communicator& world;
  const Log& log;
  const StopRequest& stop;
};

// Collective. The checkpoint that checkpoint.resume_from means (named_checkpoint.h says how);
// nothing for a new run. Throws ConfigurationError where it is never and there are checkpoints,
// DataError where none can be read. While it reads long files the log says how far it is, and a
// request to stop ends it with an Error of ExitCode::stopped.
std::optional<std::filesystem::path> resolve_resume_checkpoint(const ResumeContext& run);

// checkpoint.resume_from for a run that goes back: to the newest step of its own directory, if it
// has saved one since it began, and else to what it began from.
ConfigPath resume_after_divergence(const ConfigPath& wish, bool has_saved);

// Collective. The step that a run goes back to, of which it knows that it was `step`, saved by
// itself or what it began from: an older one where that is no longer in its directory, 0 where none
// is.
std::int64_t rollback_step(const ResumeContext& run, std::int64_t step, bool has_saved);

// Where who starts the run again has to set another checkpoint.resume_from to go on from the steps
// in its directory: how, behind a verb.
std::string resume_instructions(const ConfigPath& wish);

// What has changed since the checkpoint was saved. Throws DataError, with its place, where the
// configuration that it has cannot be read.
ConfigurationChange change_since(
    const Checkpoint& checkpoint,
    const std::function<ConfigurationChange(const std::string& saved)>& compare);

// For whoever reads checkpoints of the run, or of what is at `place`: says how far it is, and ends
// with the request to stop.
// What the run is made of must outlive it.
ReadProgress watch_of(const ResumeContext& run, const std::string& place = "");

// Throws ConfigurationError where what has changed since the checkpoint makes another model of it.
// `remedy` is a clause.
void require_same_model(const Checkpoint& checkpoint,
                        const ConfigurationChange& change,
                        const std::string& remedy);

// Collective. Throws ConfigurationError when the run cannot go on from the checkpoint, DataError
// when that was made with another tokenizer, and says what differs where it can.
void check_resumable(const ResumeContext& run,
                     const Checkpoint& checkpoint,
                     const Task& task,
                     const CursorRows& rows);

// Adds to a state to be saved what `warn_layout_change` compares.
void save_layout(Scalars& scalars, const RunLayout& layout);
// Says when the run goes on to rounding only.
void warn_layout_change(const Log& log, const Checkpoint& checkpoint, const RunLayout& layout);

// Collective. What a run passes over that begins at a checkpoint, or, where `path` is empty, anew.
// `saved`: the checkpoint's scalar of it, empty where it has none. The file in the run's directory
// goes with the steps there: any other beginning puts it aside, and writes what the checkpoint has.
SkippedData skipped_data_from(const ResumeContext& run,
                              const std::filesystem::path& path,
                              const std::string& saved,
                              const std::string& run_id);

// Collective. Puts the files of metrics and of samples of an earlier run aside, for a new run that
// finds no checkpoint. Throws DataError when there must have been one.
void archive_metrics(const ResumeContext& run, const std::string& run_id);

}  // namespace longspan
