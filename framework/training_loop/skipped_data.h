// Batches that a run skips because training diverged on them. They are stored in the run's
// directory, and in each checkpoint for a run in another directory.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "framework/training_loop/run_directory.h"

namespace longspan {

// Checkpoint scalar that holds the JSON.
inline constexpr const char* skipped_data_scalar = "run/skipped_batches";

// Indexed by steps, which are the same on every layout. The steps of a run therefore read the same
// data regardless of the checkpoint that it resumes from.
struct SkippedData {
  std::int64_t times = 0;                       // number of rollbacks
  std::map<std::int64_t, std::int64_t> before;  // by step: number of batches to skip before it

  // Adds the data that the steps from `first` to `last` have read and skipped, to be skipped before
  // step `first`.
  void add(std::int64_t first, std::int64_t last);

  std::int64_t before_step(std::int64_t step) const;
  // Returns the number of batches skipped until a step is done.
  std::int64_t until(std::int64_t step) const;
  std::int64_t batches() const;  // of all steps

  // {"times": 1, "before": {"12": 4}}
  std::string to_json() const;
  // Throws DataError, prefixed by `place`, for invalid text.
  static SkippedData of_json(const std::string& text, const std::string& place);
};

// Reads the file of a run's directory; returns an empty value if it does not exist. Collective.
// Throws DataError if it cannot be read.
SkippedData read_skipped_data(const RunDirectory& directory, const Communicator& world);

}  // namespace longspan
