// Batches that a run passes over, since training diverged on them: kept in the run's directory, and
// in each of its checkpoints for a run in another one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "framework/training_loop/run_directory.h"

namespace longspan {

// The scalar of a checkpoint that has the JSON.
inline constexpr const char* skipped_data_scalar = "run/skipped_data";

// It is told by steps, which are the same on every layout, so whatever checkpoint a run goes on
// from, its steps read the same data.
struct SkippedData {
  std::int64_t times = 0;                       // that the run has gone back
  std::map<std::int64_t, std::int64_t> before;  // by step: the batches to pass over before it

  // What the steps from `first` to `last` have read, and passed over, is to be passed over before
  // the first of them.
  void add(std::int64_t first, std::int64_t last);

  std::int64_t before_step(std::int64_t step) const;
  // Batches that are passed over until a step is done.
  std::int64_t until(std::int64_t step) const;
  std::int64_t batches() const;  // of all steps

  // {"times": 1, "before": {"12": 4}}
  std::string to_json() const;
  // Throws DataError, with `place`, for what is none.
  static SkippedData of_json(const std::string& text, const std::string& place);
};

// Collective. Of the directory of a run; nothing is skipped where there is no file. Throws
// DataError where it cannot be read.
SkippedData read_skipped_data(const RunDirectory& directory, const Communicator& world);

}  // namespace longspan
