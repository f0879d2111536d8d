// What rows carry from one batch to the next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

struct CarriedTensor {
  std::string name;  // in a checkpoint: "memory/3"
  Tensor tensor;     // [rows, n, ...]
};

// A value, never changed in place; empty where the model carries nothing or nothing was seen yet.
// Ranks that share the time of a row share what it carries along axis 1 (divide_memory). It is what
// a checkpoint saves of the rows.
struct Carried {
  std::vector<CarriedTensor> tensors = {};
  std::optional<std::int64_t> all = {};  // n over the ranks; none: this rank has all of it

  std::int64_t length() const {
    return tensors.empty() ? 0 : all.value_or(tensors.front().tensor.shape()[1]);
  }
};

}  // namespace longspan
