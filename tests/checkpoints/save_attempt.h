// Attempts to save a step, and to start from one, of which one call fails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "checkpoints/training_state.h"
#include "framework/distributed/communicator.h"
#include "tests/support/faulty_files/faulty_files.h"

namespace longspan::testing {

// Who saves, how, and what.
struct Saver {
  Communicator world;
  bool beside = false;    // the training
  std::int64_t rows = 0;  // of a larger tensor, beside the small ones

  TrainingState whole(std::int64_t step) const;
  // What this rank holds of a step; each step has elements of its own.
  TrainingState state(std::int64_t step) const;
  // The directory of the run, in which that of the steps is made.
  void make_run(const std::filesystem::path& steps) const;
  void save(const std::filesystem::path& steps, std::int64_t step) const;
  void save(const std::filesystem::path& steps, std::int64_t step, const TrainingState& held) const;
  // All but the newest two.
  void remove_older(const std::filesystem::path& steps, std::int64_t step) const;
};

struct Attempt {
  bool saved = false;
  bool documented = true;  // the kind of its error is
  bool ended = false;      // the process, by a signal or with another code
  std::string error;
  CallsSeen seen = {};
};

// As a run does it: saves the step, and then removes what is older.
Attempt attempt(const Saver& saver,
                const std::filesystem::path& steps,
                std::int64_t step,
                const Fault& fault);

// As a run does it that starts: finds the newest step, or says why not.
Attempt attempt_to_start(const Saver& saver,
                         const std::filesystem::path& steps,
                         std::int64_t step,
                         const Fault& fault);

// An attempt as a text of which it can be made again.
std::string text_of(const Attempt& attempt);
Attempt attempt_of(const std::string& text);

// In a process of its own, which may end otherwise than it should.
Attempt in_a_child(const std::function<Attempt()>& f);

}  // namespace longspan::testing
