// State that a chunk of a sequence receives from the previous chunk and passes to the next one,
// with its gradient (chunked backpropagation through time).
//
// The chunks run forward in order, and backward in reverse order. The state before a chunk is a
// constant of its tape: the backward pass writes the gradient of that state, and the previous chunk
// adds it to the gradient of what it computed.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/autograd/variable.h"

namespace longspan {

// One tensor of the state between two chunks.
struct BoundaryTensor {
  Tensor value = {};         // undefined: not known yet
  Tensor gradient = {};      // accumulator dtype; undefined: zero
  bool is_constant = false;  // no op writes a gradient
};

// The states at both ends of a chunk. Value type that shares the tensors.
struct ChunkBoundaries {
  std::shared_ptr<BoundaryTensor> before = {};  // null: the chunk is the first one
  std::shared_ptr<BoundaryTensor> after = {};   // null: no chunk continues from it

  Tensor initial() const { return before ? before->value : Tensor(); }
  bool needs_initial_gradient() const { return before && !before->is_constant; }
  // Whether the op must compute the state after the chunk.
  bool needs_final() const { return after && !after->value.defined(); }
  Tensor final_gradient() const { return after ? after->gradient : Tensor(); }
};

// Rows of all chunks of a sequence: keys or values that any later chunk attends to. `gradient` is
// in the accumulator dtype, and undefined until the first backward pass.
struct SequenceRows {
  Tensor value = {};  // [batch, all rows, heads, dim]
  Tensor gradient = {};
};

// Returns [before; x] along time. x and the state: [batch, rows, heads, dim], of one dtype. The
// state after the chunk is the last `retained` rows of the result. Throws Failure if there are
// fewer.
Variable append_to_state(const Variable& x, const ChunkBoundaries& ends, std::int64_t retained);

// Writes x [batch, time, heads, dim] to the rows of `all` from `first` on, and returns all rows up
// to its end: a view of a single sequence, a copy of several. Requires backward passes in reverse
// order of the rows. Throws Failure if `all` has too few rows.
Variable append_to_rows(const Variable& x,
                        const std::shared_ptr<SequenceRows>& all,
                        std::int64_t first);

}  // namespace longspan
