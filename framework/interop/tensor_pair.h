// The same weights under two names: those that the package transformers gives them, and ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

// How the matrix of a layer lies there: as here, [out, in], or [in, out].
enum class Orientation : std::uint8_t { same, transposed };

struct TensorPair {
  std::string hf_name;
  // One tensor, or several of which that one is made, one behind the other along their first axis
  // (before it is transposed): queries, keys and values in one.
  std::vector<std::string> longspan_names;
  Orientation orientation = Orientation::same;
  std::vector<std::int64_t> shape = {};  // there; empty: as here
  bool optional = false;                 // a model of the kind may lack it
};

// The shape of the tensor there, from those of the ones here, which are alike but for their first
// axis. A transposed one is a matrix; what has another shape there is one tensor here, of as many
// elements.
Shape hf_shape(const TensorPair& pair, const std::vector<Shape>& here);

// Of a tensor there, of the shape that it has to have, the one that is number `index` here.
Tensor shard_range(const TensorPair& pair,
                   const Tensor& there,
                   const std::vector<Shape>& here,
                   std::size_t index);

// The inverse: puts what is number `index` here in its place there. Both are of f32 or of f64, on
// the host.
void put_part(const TensorPair& pair,
              const Tensor& part,
              const std::vector<Shape>& here,
              std::size_t index,
              const Tensor& there);

}  // namespace longspan
