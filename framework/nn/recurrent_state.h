// Recurrent states that continue from one segment of a stream to the next.
#pragma once

#include <cstdint>
#include <string>

#include "framework/core/range.h"
#include "framework/core/tensor.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

// One tensor of the recurrent state of a layer.
struct RecurrentStateSpec {
  std::string name;  // "layers/0/attention/state"
  Shape shape;       // [1, ...]: of one stream, over all ranks
  DType dtype;
  int axis;               // axis that ranks split
  ShardRange part;        // this rank's part of the axis
  bool is_primary_owner;  // this rank saves its part, of which others may have a copy

  // Returns the shape of this rank's part for `rows` streams.
  Shape local_shape(std::int64_t rows) const { return shape.with(0, rows).with(axis, part.count); }
};

// Ranks that split a state; the others have a copy.
enum class StateSplit : std::uint8_t { none, tensor, tensor_and_context };

// Returns the specification of a state on this rank. shape, axis: as in RecurrentStateSpec.
RecurrentStateSpec recurrent_state_spec(const ProcessMesh& mesh,
                                        const std::string& name,
                                        const Shape& shape,
                                        DType dtype,
                                        StateSplit split,
                                        int axis = 1);

}  // namespace longspan
