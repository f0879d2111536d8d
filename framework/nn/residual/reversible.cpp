#include "framework/nn/residual/reversible.h"

#include "framework/autograd/recompute.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/residual/sublayer.h"

namespace longspan {
namespace {

// Returns (a + b) / 2 in another dtype.
Variable mean(const Variable& a, const Variable& b, DType dtype) {
  const Tensor sum = a.value().empty_like(MemoryTag::workspace);
  const Tensor y = Tensor::empty(a.shape(), dtype, sum.device());
  on(sum.device(), [&](auto backend) {
    add(backend, a.value(), b.value(), sum);
    scale(backend, 0.5, sum, y);
  });
  return record(y, {a, b}, [wide = sum.dtype()](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor half = Tensor::empty(dy.shape(), wide, dy.device());
    on(dy.device(), [&](auto backend) { scale(backend, 0.5, dy, half); });
    for (const std::size_t input : {0u, 1u})
      if (gradients.needs_gradient(input)) gradients.set(input, half);
  });
}

// Returns [a; b] along the features.
Variable concatenate(const Variable& a, const Variable& b, DType dtype) {
  const Shape shape = a.shape();
  const Shape rows = {shape.rows(), 1, shape.width()};
  const Variable both = concat_time(reshape(a, rows), reshape(b, rows));
  return cast(reshape(both, shape.with(-1, 2 * shape.width())), dtype);
}

}  // namespace

Variable ReversibleResidual::run_layers(std::span<const Layer> layers,
                                        const Variable& x,
                                        const StackInputs& reads,
                                        const ForwardContext& pass,
                                        const LayerRecorder& watch) const {
  check_memories(layers, reads.memories);
  const DType compute = x.value().dtype();
  const auto streams = std::make_shared<ReversibleStreams>();
  if (const auto error = pass.reconstruction)
    streams->measure = [error, stack = pass.random.place()](auto... found) {
      error->add(stack, found...);
    };
  // `read`: input of the next sublayer. `other`: stream that it adds to.
  Variable read = cast(x, accumulator_of(compute));
  Variable other = read;
  const auto joined = [&] {
    return join_ == StreamMerge::mean ? mean(other, read, compute)
                                      : concatenate(other, read, compute);
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (watch.input) watch.input(i, cast(read.detach(), compute).value());
    const ForwardContext layer_pass = pass.child(i);
    const auto& sublayers = layers[i].sublayers;
    for (std::size_t j = 0; j < sublayers.size(); ++j) {
      SublayerInputs own = shard_range(reads, sublayers[j], i);
      own.memory = own.memory.detach();
      std::vector<Variable> extra;
      append_rows(own.encoder_outputs, extra);
      own.encoder_outputs = without_rows(std::move(own.encoder_outputs));
      const ForwardContext deciding = recomputed(layer_pass.child(j));
      const ReversibleFunction f = [sublayer = sublayers[j],
                                    enter = j == 0 ? layers[i].enter : nullptr,
                                    own,
                                    compute,
                                    rate = dropout_,
                                    again = deciding](const Variable& in,
                                                      const std::vector<Variable>& rows) {
        SublayerInputs given = own;
        given.encoder_outputs = with_rows(std::move(given.encoder_outputs), rows);
        if (given.memory.defined()) given.memory = sublayer.norm(given.memory);
        const Variable entered = enter ? enter(in, again) : in;
        const Variable normed =
            sublayer.norm(entered, again, given.context.mask.key_length, compute);
        const Variable change = run_sublayer(sublayer, normed, given, again);
        return drop(change, rate, again.child("residual"));
      };
      const Variable input = read;
      Variable sum = streams_ == Streams::rebuilt
                         ? reversible_add(std::move(other), read, f, streams, extra)
                         : add(other, cast(f(read, extra), other.value().dtype()));
      other = std::exchange(read, std::move(sum));
      if (const CrossAttentionRecorder* side = shown_of(watch, i, sublayers[j]))
        show(*side,
             sublayers[j],
             sublayers[j].norm.second_read(input, deciding, reads.context.mask.key_length, compute),
             shard_range(reads, sublayers[j], i),
             deciding);
    }
    if (watch.output) watch.output(i, joined());
  }
  return joined();
}

Variable ReversibleResidual::prepared(const Sublayer& sublayer,
                                      const Variable& x,
                                      const AttentionContext& context,
                                      const ForwardContext& pass) const {
  const DType compute = x.value().dtype();
  return sublayer.norm.second_read(
      cast(x, accumulator_of(compute)), pass, context.mask.key_length, compute);
}

}  // namespace longspan
