// Mapping between tensor names of Hugging Face `transformers` and Longspan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

// Orientation of the Hugging Face matrix: [out, in] as here, or [in, out].
enum class Orientation : std::uint8_t { same, transposed };

struct TensorPair {
  std::string hf_name;
  // One tensor, or several that are concatenated along their first axis (before transposition),
  // such as queries, keys and values.
  std::vector<std::string> longspan_names;
  Orientation orientation = Orientation::same;
  std::vector<std::int64_t> shape = {};  // of the Hugging Face tensor; empty: as here
  bool optional = false;                 // some models lack it
};

// Returns the Hugging Face shape for the shapes here, which may differ only in their first axis. A
// transposed tensor is a matrix. A pair with a different `shape` has one tensor here, with as many
// elements.
Shape hf_shape(const TensorPair& pair, const std::vector<Shape>& here);

// Extracts tensor number `index` here from a Hugging Face tensor of the required shape.
Tensor shard_range(const TensorPair& pair,
                   const Tensor& there,
                   const std::vector<Shape>& here,
                   std::size_t index);

// Inverse of shard_range: copies tensor number `index` here into its part of `there`. Both are f32
// or f64 on the host.
void put_part(const TensorPair& pair,
              const Tensor& part,
              const std::vector<Shape>& here,
              std::size_t index,
              const Tensor& there);

}  // namespace longspan
