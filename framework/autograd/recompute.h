// Activation checkpointing: functions that are recomputed in the backward pass instead of storing
// their activations (Chen et al. 2016).
//
// Requires functions that depend only on the values of their arguments. Random numbers are drawn by
// path, so dropout repeats. A function may read leaves, which receive their gradients: they are
// recorded as the function runs, and announced by the outer backward pass. Collectives are called
// again in the backward pass, in the function's order. Captured state lives until then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "framework/autograd/variable.h"

namespace longspan {

using RecomputedFunction = std::function<Variable(const std::vector<Variable>& inputs)>;

// y = function(inputs), storing only the inputs. `again`, if given, replaces the function in the
// backward pass. An input may be undefined. Without recording, returns function(inputs). Throws
// Failure if the function reads a non-leaf variable with a gradient that is not an input.
Variable recompute(const RecomputedFunction& function,
                   const std::vector<Variable>& inputs,
                   RecomputedFunction again = {});

// Chunk of x [outer, middle, width]: full outer rows, or part of one.
struct RowChunk {
  std::int64_t outer_begin = 0;
  std::int64_t outer = 0;
  std::int64_t middle_begin = 0;
  std::int64_t middle = 0;
  std::int64_t begin = 0;  // index of its first row

  std::int64_t rows() const { return outer * middle; }
};

// Returns at least `pieces` consecutive chunks of about equal size, limited by the number of rows.
// Without rows, returns one empty chunk.
std::vector<RowChunk> split_rows(std::int64_t outer, std::int64_t middle, std::int64_t pieces);

// `rows`: [piece.outer, piece.middle, width]. Returns equally many rows with n elements on the last
// axis, or one element per row.
using ChunkFunction = std::function<Variable(const Variable& rows, const RowChunk& piece)>;

// y = function(x), chunk by chunk, for a row-wise function of x [outer, middle, width]. The
// backward pass recomputes each chunk, with `again` if given. Only one chunk's activations exist at
// a time. Returns [outer * middle, n].
Variable recompute_chunked(const ChunkFunction& function,
                           const Variable& x,
                           std::int64_t pieces,
                           ChunkFunction again = {});

// Value of a function, and the leaves it read. Records no gradient.
struct NoGradResult {
  Tensor value;
  std::vector<Variable> leaves;
};
NoGradResult run_no_grad(const std::function<Variable()>& function);

// For backward closures: computes the function with its own tape, and propagates the gradient
// `seed` of its result.
void run_nested_backward(const std::function<Variable()>& function, Tensor seed);

// Reversible sublayers (Gomez et al. 2017; Kitaev et al. 2020, section 3). Their inputs are
// reconstructed from their outputs, so that a stack of any depth stores two tensors.

// The two streams of a stack in the backward pass. Each stack has one: `reversible_add` sets it in
// the forward pass and updates it in the backward pass.
struct ReversibleStreams {
  // If set, each sublayer also stores the true stream. Called in the backward pass with the
  // sublayer index from 1, the squared norm of the reconstruction error, and that of the true
  // stream.
  std::function<void(std::int64_t sublayer, double squared_error, double squared_norm)> measure =
      {};

  std::int64_t sublayers = 0;  // recorded, with backward still pending
  Tensor read;                 // b of the last of them
  Tensor written;              // c of the last of them
};

using ReversibleFunction =
    std::function<Variable(const Variable& b, const std::vector<Variable>& extra)>;

// One sublayer: c = a + f(b, y), where f is `function` and y the inputs other than the streams.
// These are stored and receive gradients. The next sublayer reads b as a and c as b. Stores only
// the last b and c: the backward pass recomputes f, which must satisfy the same requirements, and a
// = c - f(b, y). a and b: equal shape, f32 (f64 in float64). The result of f may be narrower.
// Writes c over a if it has no other owner. Throws Failure if backward runs in another order.
Variable reversible_add(Variable&& a,
                        const Variable& b,
                        const ReversibleFunction& function,
                        const std::shared_ptr<ReversibleStreams>& streams,
                        const std::vector<Variable>& extra = {});

}  // namespace longspan
