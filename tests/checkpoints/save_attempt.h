// Attempts to save a step or to start from one, in which one call fails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "checkpoints/training_state.h"
#include "framework/distributed/communicator.h"
#include "tests/support/faulty_files/faulty_files.h"

namespace longspan::testing {

// Ranks that save, mode of the save, and size of the state.
struct Saver {
  Communicator world;
  bool in_background = false;  // whether saves run during training
  std::int64_t rows = 0;       // of an additional, larger tensor

  TrainingState whole(std::int64_t step) const;
  // Returns this rank's state of a step. Each step has different elements.
  TrainingState state(std::int64_t step) const;
  // Creates the run directory, the parent of `steps`. Only rank 0 does so.
  void make_run(const std::filesystem::path& steps) const;
  void save(const std::filesystem::path& steps, std::int64_t step) const;
  void save(const std::filesystem::path& steps, std::int64_t step, const TrainingState& held) const;
  // Removes all but the newest two steps.
  void remove_older(const std::filesystem::path& steps, std::int64_t step) const;
};

struct Attempt {
  bool saved = false;
  bool documented = true;  // whether its error type is documented
  bool ended = false;      // whether a signal or an exit code ended the process
  std::string error;
  CallsSeen seen = {};
};

// Saves the step and then removes older ones, as a run does.
Attempt attempt(const Saver& saver,
                const std::filesystem::path& steps,
                std::int64_t step,
                const Fault& fault);

// Finds the newest step, as a starting run does. `error` is the first reason for a skipped step.
Attempt attempt_to_start(const Saver& saver,
                         const std::filesystem::path& steps,
                         std::int64_t step,
                         const Fault& fault);

// Converts an attempt to text and back.
std::string text_of(const Attempt& attempt);
Attempt attempt_of(const std::string& text);

// Runs f in a child process, which may end unexpectedly.
Attempt in_a_child(const std::function<Attempt()>& f);

}  // namespace longspan::testing
