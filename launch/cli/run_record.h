// What the directory of a run tells of it, whether it trains now, has ended or is damaged.
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
  never_started,  // it has made no step
  running,        // a process trains into the directory, as far as the file system tells of locks
  finished,       // it is at training.max_steps
  stopped,        // before training.max_steps, on request
  killed,         // it did not end by itself, and no rank has logged an error
  diverged,       // log.txt ends with that
  failed          // log.txt ends with another error
};
// "never started", "running", ...
std::string name_of(RunState state);

struct RunRecord {
  std::filesystem::path path;
  RunState state = RunState::never_started;
  SavedConfiguration configuration;
  std::int64_t step = 0;              // the last that was logged or saved
  std::optional<std::int64_t> steps;  // training.max_steps
  MetricsLine last;                   // of the last logged step; null where there is none
  MetricsLine validation;             // of the last step with a validation, likewise
  // Ranks by axis: of the last process that trained there, else of the newest checkpoint, else of
  // the configuration; empty where unknown.
  std::optional<std::int64_t> data, context, tensor;
  std::int64_t changed_at = 0;      // seconds since 1970 of its last sign of life; 0: there is none
  std::string ended_by;             // why: of a run that was killed, diverged or failed
  std::vector<std::string> errors;  // what of it cannot be read, a sentence each
};

// Whether the directory looks like one that a run writes to.
bool is_run(const std::filesystem::path& directory);

struct RunsBelow {
  std::vector<std::filesystem::path> runs;  // in the order of their paths
  std::vector<std::string> errors;          // folders that cannot be looked into, a sentence each
};
// The runs in the directory and in those below it; the directory may be one itself. Links are not
// followed. Throws DataError when it is no directory, or cannot be read itself.
RunsBelow runs_below(const std::filesystem::path& directory);

// What is wrong with the run is in the record; throws nothing for that.
RunRecord read_run_record(const std::filesystem::path& run);
// The same of a directory that someone named: throws DataError when it is none, or no run.
RunRecord read_named_run(const std::filesystem::path& run);

// "120 of 2000", "120", or "0 of 2000".
std::string step_text(const RunRecord& run);
// The figure of the last validation with its step where that is not the last: "3.21 at 100".
std::string validation_text(const RunRecord& run);
// "2 x 1 x 2": data, context, tensor; "?" for what is not known.
std::string layout_text(const RunRecord& run);
// "2026-01-31 12:00", in UTC; "" for 0.
std::string time_text(std::int64_t seconds);

// The record for programs: what --json prints of a run.
nlohmann::ordered_json to_json(const RunRecord& run);
// JSON as the program prints it: indented, and UTF-8 whatever the names of files hold.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace longspan
