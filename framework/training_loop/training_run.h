// Runs training from the first step, or the newest checkpoint, to the last step or a stop request.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/distributed/session.h"
#include "framework/planning/plan.h"
#include "framework/tasks/user_document_source.h"
#include "framework/training_loop/profiler.h"

namespace longspan {

// Differences between a checkpoint's configuration and this run's.
struct ConfigurationChange {
  std::vector<std::string> differences;  // a message for each key that differs, for the log
  std::vector<std::string> refused;      // those that change the meaning of the weights
  std::map<std::string, std::string> saved = {};  // the checkpoint's keys, as written
};

struct TrainingRunText {
  std::string configuration;  // resolved; written to the run's directory and to each checkpoint
  std::vector<std::string> warnings;  // of the configuration
  // Compares the resolved configuration of a checkpoint with this one.
  std::function<ConfigurationChange(const std::string& saved)> compare;
  Reconfigure reconfigure;
};

struct StepMetrics;  // framework/training_loop/step_metrics.h

// Hooks of a program that embeds training, on each of its ranks.
struct TrainingHooks {
  DocumentStreamFactory documents = {};  // replaces data.train; empty: data.train is read
  // Called after each step, before it is saved, with the step's metrics.jsonl record without
  // measured time and memory. Must not throw.
  std::function<void(const StepMetrics&)> after_step = {};
  // Called at the end of each step; true requests to save and stop, as a signal does.
  std::function<bool()> should_stop = {};
  std::optional<ProfiledSteps> profiled = {};  // steps to profile
  bool is_quiet = false;  // nothing goes to standard output: the log is only in its file
};

// Trains a model. Returns `ok` after the last step, or `stopped` if a signal requested a stop and a
// checkpoint was saved. Collective. Throws Error with the exit code of the failure.
ExitCode run_training(Session& session,
                      const RunConfig& settings,
                      const TrainingRunText& text,
                      const TrainingHooks& hooks = {});

}  // namespace longspan
