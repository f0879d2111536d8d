// Recurrent state of the rows between batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

struct RecurrentStateTensor {
  std::string name;  // in a checkpoint: "mems/3"
  Tensor tensor;     // [rows, n, ...]
};

// Immutable value; empty if the model has no recurrent state or has read nothing yet. Ranks that
// shard the time of a row shard its state along axis 1 (shard_memory). Checkpoints save it.
struct RecurrentState {
  std::vector<RecurrentStateTensor> tensors = {};
  std::optional<std::int64_t> all = {};  // n over the ranks; unset: this rank has all of it

  std::int64_t length() const {
    return tensors.empty() ? 0 : all.value_or(tensors.front().tensor.shape()[1]);
  }
};

// Returns rows [begin, end).
inline RecurrentState rows_of(const RecurrentState& carried, std::int64_t begin, std::int64_t end) {
  RecurrentState result = {.tensors = {}, .all = carried.all};
  for (const RecurrentStateTensor& piece : carried.tensors)
    result.tensors.push_back({piece.name, piece.tensor.slice(begin, end)});
  return result;
}

// Returns the selected rows, in that order.
inline RecurrentState select_rows(const RecurrentState& carried,
                                  const std::vector<std::int64_t>& rows) {
  RecurrentState result = {.tensors = {}, .all = carried.all};
  for (const RecurrentStateTensor& piece : carried.tensors) {
    const Tensor& from = piece.tensor;
    const Tensor chosen = Tensor::empty(from.shape().with(0, std::ssize(rows)),
                                        from.dtype(),
                                        from.device(),
                                        MemoryTag::recurrent_state);
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
      const std::int64_t row = rows[static_cast<std::size_t>(i)];
      chosen.slice(i, i + 1).copy_from(from.slice(row, row + 1));
    }
    result.tensors.push_back({piece.name, chosen});
  }
  return result;
}

}  // namespace longspan
