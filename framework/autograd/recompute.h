// Functions that are computed again in the backward pass, instead of keeping what that needs of
// them (Chen et al. 2016).
//
// The functions given here must be functions of their arguments' values: random numbers are drawn
// by place, so dropout repeats itself. They may read leaves, which get their gradients: they are
// found as the function runs and are announced by the walk that is under way. Collectives are
// called again in the backward pass, in the order of the function. What a function captures lives
// until then.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "framework/autograd/variable.h"

namespace longspan {

using RecomputedFunction = std::function<Variable(const std::vector<Variable>& inputs)>;

// y = function(inputs), of which only the inputs are kept. `again`, where given, stands for the
// function in the backward pass. An input may be undefined. Without recording it is
// function(inputs). Throws Failure when the function reads a variable that was computed with a
// gradient and is not an input.
Variable recompute(const RecomputedFunction& function,
                   const std::vector<Variable>& inputs,
                   RecomputedFunction again = {});

// A block of x [outer, middle, width]: whole outer rows, or a part of one.
struct RowChunk {
  std::int64_t outer_begin = 0;
  std::int64_t outer = 0;
  std::int64_t middle_begin = 0;
  std::int64_t middle = 0;
  std::int64_t begin = 0;  // the first of its rows among all

  std::int64_t rows() const { return outer * middle; }
};

// At least `pieces` that follow one another, of about equal size, as far as there are rows; without
// any, one piece that is empty.
std::vector<RowChunk> split_rows(std::int64_t outer, std::int64_t middle, std::int64_t pieces);

// `rows`: [piece.outer, piece.middle, width]. The result has as many rows, of n elements in its
// last axis, or is one element a row.
using ChunkFunction = std::function<Variable(const Variable& rows, const RowChunk& piece)>;

// y = function(x) for a function of x [outer, middle, width] that treats each row alike, one piece
// after another; the backward pass computes each piece again, by `again` where that is given. There
// is never more of the function's inside than that of one piece. Result: [outer * middle, n], n
// elements of each row.
Variable recompute_chunked(const ChunkFunction& function,
                           const Variable& x,
                           std::int64_t pieces,
                           ChunkFunction again = {});

// A function's value, and the leaves that it read. Nothing is recorded.
struct NoGradResult {
  Tensor value;
  std::vector<Variable> leaves;
};
NoGradResult run_no_grad(const std::function<Variable()>& function);

// Within a closure: the function computed with its tape, and that walked back from the gradient of
// its result.
void run_nested_backward(const std::function<Variable()>& function, Tensor seed);

}  // namespace longspan
