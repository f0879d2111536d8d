// What rows carry from one batch to the next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

struct RecurrentStateTensor {
  std::string name;  // in a checkpoint: "memory/3"
  Tensor tensor;     // [rows, n, ...]
};

// A value, never changed in place; empty where the model carries nothing or nothing was seen yet.
// Ranks that share the time of a row share what it carries along axis 1 (shard_memory). It is what
// a checkpoint saves of the rows.
struct RecurrentState {
  std::vector<RecurrentStateTensor> tensors = {};
  std::optional<std::int64_t> all = {};  // n over the ranks; none: this rank has all of it

  std::int64_t length() const {
    return tensors.empty() ? 0 : all.value_or(tensors.front().tensor.shape()[1]);
  }
};

// The rows [begin, end).
inline RecurrentState rows_of(const RecurrentState& carried, std::int64_t begin, std::int64_t end) {
  RecurrentState result = {.tensors = {}, .all = carried.all};
  for (const RecurrentStateTensor& piece : carried.tensors)
    result.tensors.push_back({piece.name, piece.tensor.slice(begin, end)});
  return result;
}

// Those rows, in that order.
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
