#include "framework/autograd/recompute.h"

#include <algorithm>

#include "framework/autograd/kept.h"
#include "framework/autograd/ops.h"
#include "framework/core/error.h"

namespace longspan {

Unrecorded run_unrecorded(const std::function<Variable()>& function) {
  const LeafWatch watch;
  const NoGradient no_gradient;
  Tensor value = function().value();
  return {std::move(value), watch.leaves()};
}

void run_back(const std::function<Variable()>& function, Tensor seed) {
  Variable y;
  {
    const WithGradient with_gradient;
    y = function();
  }
  std::vector<Tensor> seeds;
  seeds.push_back(std::move(seed));
  backward({std::move(y)}, std::move(seeds), {.announce_leaves = false});
}

Variable recompute(const Recomputed& function,
                   const std::vector<Variable>& inputs,
                   Recomputed again) {
  if (!is_recording()) return function(inputs);
  std::vector<Tensor> kept;
  std::vector<Variable> constants;
  for (const Variable& input : inputs) {
    kept.push_back(input.value());
    constants.push_back(input.detach());
  }
  Unrecorded result = run_unrecorded([&] { return function(constants); });
  std::vector<Variable> all = inputs;
  all.insert(all.end(), result.leaves.begin(), result.leaves.end());
  if (!again) again = function;
  return record(std::move(result.value), all, [kept, again](Gradients& gradients) {
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < kept.size(); ++i)
      variables.push_back(gradients.wanted(i) ? Variable::leaf(kept[i]) : Variable(kept[i]));
    run_back([&] { return again(variables); }, gradients.take_output());
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (gradients.wanted(i) && variables[i].gradient().defined())
        gradients.give(i, variables[i].gradient());
  });
}

std::vector<RowPiece> cut_rows(std::int64_t outer, std::int64_t middle, std::int64_t pieces) {
  if (outer * middle == 0) return {{0, outer, 0, middle, 0}};
  std::vector<RowPiece> result;
  if (pieces <= outer) {
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t begin = outer * i / pieces;
      const std::int64_t count = outer * (i + 1) / pieces - begin;
      result.push_back({begin, count, 0, middle, begin * middle});
    }
    return result;
  }
  const std::int64_t parts = std::min(middle, (pieces + outer - 1) / outer);
  for (std::int64_t row = 0; row < outer; ++row) {
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t begin = middle * i / parts;
      const std::int64_t count = middle * (i + 1) / parts - begin;
      result.push_back({row, 1, begin, count, row * middle + begin});
    }
  }
  return result;
}

Variable recompute_pieces(const PieceFunction& function,
                          const Variable& x,
                          std::int64_t pieces,
                          PieceFunction again) {
  const Shape shape = x.shape();
  require(shape.dimensions() == 3,
          "what is computed in pieces needs three axes, found shape {}",
          shape);
  const std::int64_t rows = shape.rows();
  const std::vector<RowPiece> all = cut_rows(shape[0], shape[1], pieces);
  // A step of the tape like the one below: gradients of leaves arrive in the order in which they do
  // on a rank with rows, and so the reductions they start meet.
  if (rows == 0) {
    const auto of_none = [&](const PieceFunction& of_piece) -> Recomputed {
      if (!of_piece) return {};
      return [=, piece = all.front()](const std::vector<Variable>& in) {
        return of_piece(in.front(), piece);
      };
    };
    const Variable none = recompute(of_none(function), {x}, of_none(again));
    return reshape(none, {0, none.shape().dimensions() > 1 ? none.shape().width() : 1});
  }
  // The rows of a piece in a tensor with as many elements for each row of x.
  const auto rows_of = [rows](const Tensor& whole, const RowPiece& piece) {
    return whole.reshape({rows, whole.elements() / rows})
        .slice(piece.begin, piece.begin + piece.rows());
  };
  const auto block_of = [rows_of, width = shape[2]](const Tensor& whole, const RowPiece& piece) {
    return rows_of(whole, piece).reshape({piece.outer, piece.middle, width});
  };
  Tensor y;
  std::vector<Variable> inputs = {x};
  for (const RowPiece& piece : all) {
    const Unrecorded part =
        run_unrecorded([&] { return function(Variable(block_of(x.value(), piece)), piece); });
    if (!y.defined()) {
      const Shape whole = {rows, part.value.elements() / piece.rows()};
      y = Tensor::empty(whole, part.value.dtype(), part.value.device());
      inputs.insert(inputs.end(), part.leaves.begin(), part.leaves.end());
    }
    rows_of(y, piece).copy_from(part.value);
  }
  if (!again) again = function;
  return record(std::move(y), inputs, [=, kept = keep(x)](Gradients& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor value = kept.get();
    const Tensor dx = gradients.wanted(0) ? value.like() : Tensor();
    for (const RowPiece& piece : all) {
      const Tensor block = block_of(value, piece);
      Variable part(block);
      if (dx.defined()) part = Variable::leaf(block, block.dtype(), block_of(dx, piece));
      run_back([&] { return again(part, piece); }, rows_of(dy, piece));
      if (dx.defined() && !part.gradient().defined()) part.zero_gradient();
    }
    if (dx.defined()) gradients.give(0, dx);
  });
}

}  // namespace longspan
