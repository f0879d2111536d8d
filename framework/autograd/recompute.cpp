#include "framework/autograd/recompute.h"

#include <algorithm>

#include "framework/autograd/ops.h"
#include "framework/autograd/saved_tensor.h"
#include "framework/core/dispatch.h"
#include "framework/core/error.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

void add_to(const Tensor& stream, double factor, const Tensor& change) {
  on(stream.device(), [&](auto backend) { accumulate(backend, factor, change, stream); });
}

double squared_norm(const Tensor& x) {
  const Tensor total = Tensor::zeros({1}, DType::f64, x.device(), MemoryTag::workspace);
  on(x.device(), [&](auto backend) { sum_of_squares(backend, {x}, total); });
  return total.item();
}

double squared_difference(const Tensor& rebuilt, const Tensor& truth) {
  const Tensor difference = rebuilt.clone(MemoryTag::workspace);
  add_to(difference, -1, truth);
  return squared_norm(difference);
}

}  // namespace

NoGradResult run_no_grad(const std::function<Variable()>& function) {
  const LeafRecorder watch;
  const NoGradGuard no_gradient;
  Tensor value = function().value();
  return {std::move(value), watch.leaves()};
}

void run_nested_backward(const std::function<Variable()>& function, Tensor seed) {
  Variable y;
  {
    const EnableGradGuard with_gradient;
    y = function();
  }
  std::vector<Tensor> seeds;
  seeds.push_back(std::move(seed));
  backward({std::move(y)}, std::move(seeds), {.announce_leaves = false});
}

Variable recompute(const RecomputedFunction& function,
                   const std::vector<Variable>& inputs,
                   RecomputedFunction again) {
  if (!is_recording()) return function(inputs);
  std::vector<Tensor> kept;
  std::vector<Variable> constants;
  for (const Variable& input : inputs) {
    kept.push_back(input.value());
    constants.push_back(input.detach());
  }
  NoGradResult result = run_no_grad([&] { return function(constants); });
  std::vector<Variable> all = inputs;
  all.insert(all.end(), result.leaves.begin(), result.leaves.end());
  if (!again) again = function;
  return record(std::move(result.value), all, [kept, again](BackwardContext& gradients) {
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < kept.size(); ++i)
      variables.push_back(gradients.needs_gradient(i) ? Variable::leaf(kept[i])
                                                      : Variable(kept[i]));
    run_nested_backward([&] { return again(variables); }, gradients.release_output());
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (gradients.needs_gradient(i) && variables[i].gradient().defined())
        gradients.set(i, variables[i].gradient());
  });
}

std::vector<RowChunk> split_rows(std::int64_t outer, std::int64_t middle, std::int64_t pieces) {
  if (outer * middle == 0) return {{0, outer, 0, middle, 0}};
  std::vector<RowChunk> result;
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

Variable recompute_chunked(const ChunkFunction& function,
                           const Variable& x,
                           std::int64_t pieces,
                           ChunkFunction again) {
  const Shape shape = x.shape();
  require(shape.dimensions() == 3, "chunked computation requires 3 axes, found shape {}", shape);
  const std::int64_t rows = shape.rows();
  const std::vector<RowChunk> all = split_rows(shape[0], shape[1], pieces);
  // Records a node as below. Gradients of leaves then arrive in the same order as on a rank with
  // rows, and the reductions they start match.
  if (rows == 0) {
    const auto of_none = [&](const ChunkFunction& of_piece) -> RecomputedFunction {
      if (!of_piece) return {};
      return [=, piece = all.front()](const std::vector<Variable>& in) {
        return of_piece(in.front(), piece);
      };
    };
    const Variable none = recompute(of_none(function), {x}, of_none(again));
    return reshape(none, {0, none.shape().dimensions() > 1 ? none.shape().width() : 1});
  }
  // Returns the rows of a chunk in a tensor with equally many elements per row of x.
  const auto rows_of = [rows](const Tensor& whole, const RowChunk& piece) {
    return whole.reshape({rows, whole.elements() / rows})
        .slice(piece.begin, piece.begin + piece.rows());
  };
  const auto block_of = [rows_of, width = shape[2]](const Tensor& whole, const RowChunk& piece) {
    return rows_of(whole, piece).reshape({piece.outer, piece.middle, width});
  };
  Tensor y;
  std::vector<Variable> inputs = {x};
  for (const RowChunk& piece : all) {
    const NoGradResult part =
        run_no_grad([&] { return function(Variable(block_of(x.value(), piece)), piece); });
    if (!y.defined()) {
      const Shape whole = {rows, part.value.elements() / piece.rows()};
      y = Tensor::empty(whole, part.value.dtype(), part.value.device());
      inputs.insert(inputs.end(), part.leaves.begin(), part.leaves.end());
    }
    rows_of(y, piece).copy_from(part.value);
  }
  if (!again) again = function;
  return record(std::move(y), inputs, [=, kept = save_for_backward(x)](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor value = kept.get();
    const Tensor dx = gradients.needs_gradient(0) ? value.empty_like() : Tensor();
    for (const RowChunk& piece : all) {
      const Tensor block = block_of(value, piece);
      Variable part(block);
      if (dx.defined()) part = Variable::leaf(block, block.dtype(), block_of(dx, piece));
      run_nested_backward([&] { return again(part, piece); }, rows_of(dy, piece));
      if (dx.defined() && !part.gradient().defined()) part.zero_gradient();
    }
    if (dx.defined()) gradients.set(0, dx);
  });
}

Variable reversible_add(Variable&& a,
                        const Variable& b,
                        const ReversibleFunction& function,
                        const std::shared_ptr<ReversibleStreams>& streams,
                        const std::vector<Variable>& extra) {
  require(a.shape() == b.shape() && a.value().dtype() == b.value().dtype(),
          "reversible streams: expected equal shapes and dtypes, found {} {} and {} {}",
          name_of(a.value().dtype()),
          a.shape(),
          name_of(b.value().dtype()),
          b.shape());
  std::vector<Tensor> kept;
  std::vector<Variable> constants;
  for (const Variable& variable : extra) {
    kept.push_back(variable.value());
    constants.push_back(variable.detach());
  }
  const NoGradResult change = run_no_grad([&] { return function(b.detach(), constants); });
  streams->read = {};
  streams->written = {};
  std::vector<Variable> inputs = {std::move(a), b};
  inputs.insert(inputs.end(), extra.begin(), extra.end());
  inputs.insert(inputs.end(), change.leaves.begin(), change.leaves.end());
  Tensor c = inputs[0].value();
  const Tensor truth = streams->measure ? c : Tensor();
  // `inputs[0]` and `c` are owners.
  if (!c.has_use_count(2)) c = c.clone();
  add_to(c, 1, change.value);
  if (!is_recording()) return Variable(c);
  streams->read = b.value();
  streams->written = c;
  const std::int64_t place = ++streams->sublayers;
  return record(std::move(c), inputs, [=](BackwardContext& gradients) {
    require(streams->sublayers-- == place,
            "reversible stack: backward pass of sublayer {} out of order",
            place);
    const Tensor dc = gradients.release_output();
    Tensor stream = std::exchange(streams->read, {});
    const Variable read = gradients.needs_gradient(1) ? Variable::leaf(std::move(stream))
                                                      : Variable(std::move(stream));
    Tensor rebuilt = std::exchange(streams->written, {});
    constexpr std::size_t streams_read = 2;
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < kept.size(); ++i)
      variables.push_back(gradients.needs_gradient(streams_read + i) ? Variable::leaf(kept[i])
                                                                     : Variable(kept[i]));
    run_nested_backward(
        [&] {
          Variable again = function(read, variables);
          if (!rebuilt.is_unique()) rebuilt = rebuilt.clone();
          add_to(rebuilt, -1, again.value());
          return again;
        },
        dc);
    if (truth.defined())
      streams->measure(place, squared_difference(rebuilt, truth), squared_norm(truth));
    streams->read = std::move(rebuilt);
    streams->written = read.value();
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (gradients.needs_gradient(streams_read + i) && variables[i].gradient().defined())
        gradients.set(streams_read + i, variables[i].gradient());
    if (gradients.needs_gradient(1) && read.gradient().defined()) gradients.set(1, read.gradient());
    if (gradients.needs_gradient(0)) gradients.set(0, dc);
  });
}

}  // namespace longspan
