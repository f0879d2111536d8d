// A whole training run: from the first step, or the newest checkpoint, to the last step or a
// request to stop.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/corpus/user_documents.h"
#include "framework/distributed/session.h"
#include "framework/planning/plan.h"
#include "framework/training_loop/profiler.h"

namespace longspan {

// What the configuration of a checkpoint means for this run.
struct ConfigurationChange {
  std::vector<std::string> differences;  // a sentence for each key that differs, for the log
  std::vector<std::string> refused;      // those that change the meaning of the weights
  std::map<std::string, std::string> saved = {};  // the checkpoint's keys, as they are written
};

struct TrainingRunText {
  std::string configuration;  // the resolved configuration: it is written beside the run and into
                              // each checkpoint
  std::vector<std::string> warnings;  // of it
  // Compares the resolved configuration of a checkpoint with this one.
  std::function<ConfigurationChange(const std::string& saved)> compare;
  Reconfigure reconfigure;
};

struct StepMetrics;  // framework/training_loop/step_metrics.h

// What a program that trains adds of its own, on each of its ranks.
struct TrainingHooks {
  DocumentStreamFactory documents = {};  // to be learnt in place of data.train; empty: that is read
  // Told of each step after it, before it is saved: what metrics.jsonl says of one, but for what is
  // measured of time and memory. It throws nothing.
  std::function<void(const StepMetrics&)> after_step = {};
  // Asked at the end of each step whether to save and stop, as a signal asks.
  std::function<bool()> should_stop = {};
  std::optional<ProfiledSteps> profiled = {};  // steps whose time is recorded
  bool is_quiet = false;  // nothing goes to standard output: the log is in its file
};

// Collective. Returns `ok` when the last step is done, `stopped` when a signal asked to stop and a
// checkpoint was saved. Throws what goes wrong, with its exit code.
ExitCode run_training(Session& session,
                      const RunConfig& settings,
                      const TrainingRunText& text,
                      const TrainingHooks& hooks = {});

}  // namespace longspan
