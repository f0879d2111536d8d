// Status of a run from its directory: whether it is training, has ended or is damaged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/cli/metrics_reader.h"
#include "launch/cli/saved_config.h"

namespace longspan {

// Files of a run's directory.
inline constexpr const char* metrics_file = "metrics.jsonl";
inline constexpr const char* log_file = "log.txt";

enum class RunState : std::uint8_t {
  never_started,  // no step is complete
  running,        // a process trains in the directory, as far as locks are supported
  finished,       // at training.max_steps
  stopped,        // before training.max_steps, on request
  killed,         // did not end by itself, and no rank has logged an error
  diverged,       // log.txt ends with a divergence
  failed          // log.txt ends with another error
};
// Returns "never started", "running", ...
std::string name_of(RunState state);

struct RunRecord {
  std::filesystem::path path;
  RunState state = RunState::never_started;
  SavedConfiguration configuration;
  std::int64_t step = 0;              // last step logged or saved
  std::optional<std::int64_t> steps;  // training.max_steps
  MetricsLine last;                   // last logged step; null if none
  MetricsLine validation;             // last step with a validation; null if none
  // Ranks by axis: of the last process that trained there, else of the newest checkpoint, else of
  // the configuration; empty if unknown.
  std::optional<std::int64_t> data, context, tensor;
  std::int64_t changed_at = 0;      // last activity, in seconds since 1970; 0: none
  std::string ended_by;             // reason, if killed, diverged or failed
  std::vector<std::string> errors;  // a message for each part that cannot be read
};

// Returns whether the directory resembles a run's directory.
bool is_run(const std::filesystem::path& directory);

struct RunsBelow {
  std::vector<std::filesystem::path> runs;  // sorted by path
  std::vector<std::string> errors;          // a message for each unreadable folder
};
// Returns the runs in the directory and its subdirectories, including the directory itself. Does
// not follow links. Throws DataError if it is not a directory or cannot be read.
RunsBelow runs_below(const std::filesystem::path& directory);

// Reads a run's record. Errors of the run are stored in the record; does not throw for them.
RunRecord read_run_record(const std::filesystem::path& run);
// Reads a run that the user named. Throws DataError if it is not a directory, or not a run.
RunRecord read_run(const std::filesystem::path& run);

// Returns, for example, "120 of 2000", "120", or "0 of 2000".
std::string step_text(const RunRecord& run);
// Returns the last validation metric, with its step if that is not the last one: "3.21 at 100".
std::string validation_text(const RunRecord& run);
// Returns, for example, "2 x 1 x 2": data, context, tensor; "?" for unknown.
std::string layout_text(const RunRecord& run);
// Returns, for example, "2026-01-31 12:00", in UTC; "" for 0.
std::string time_text(std::int64_t seconds);

// Returns the record as JSON: the output of --json for a run.
nlohmann::ordered_json to_json(const RunRecord& run);
// Formats JSON as the program prints it: indented, and valid UTF-8 for any file name.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace longspan
