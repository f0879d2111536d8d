#include <algorithm>

#include "framework/autograd/attention.h"
#include "framework/autograd/dtypes.h"
#include "framework/autograd/ring_attention.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/key_weights.h"
#include "framework/kernels/attention/sequence_softmax.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"
#include "framework/kernels/rows.h"

namespace longspan {
namespace {

// Rows projected at once: the projections fit into the CPU cache.
std::int64_t rows_at_once(const Device& device, std::int64_t count) {
  const std::int64_t elements = device.on_gpu() ? std::int64_t{1} << 26 : std::int64_t{1} << 20;
  return std::max<std::int64_t>(64, elements / std::max<std::int64_t>(count, 1));
}

template <typename F>
void for_pieces(std::int64_t rows, std::int64_t most, const F& f) {
  for (std::int64_t begin = 0; begin < rows; begin += most) f(begin, std::min(begin + most, rows));
}

void write_features(const RandomFeatures& map,
                    const Tensor& x,
                    const Tensor& projection,
                    const Tensor& out,
                    const Tensor& shift) {
  const std::int64_t count = projection.shape()[0];
  for_pieces(
      x.shape()[0], rows_at_once(x.device(), count), [&](std::int64_t begin, std::int64_t end) {
        const Tensor product = Tensor::empty(
            {end - begin, count}, accumulator_of(x.dtype()), x.device(), MemoryTag::workspace);
        const Tensor rows = x.slice(begin, end);
        dispatch_or_meta(x.device(), [&](auto backend) {
          matmul(backend, {.a = rows, .b = projection, .c = product, .transpose_b = true});
        });
        on(x.device(), [&](auto backend) {
          random_features(backend,
                          {.map = map,
                           .x = rows,
                           .product = product,
                           .out = out.slice(begin, end),
                           .shift = shift.defined() ? shift.slice(begin, end) : Tensor()});
        });
      });
}

void write_gradient(const RandomFeatures& map,
                    const Tensor& x,
                    const Tensor& projection,
                    const Tensor& out,
                    const Tensor& dout,
                    const Tensor& dx) {
  const std::int64_t count = projection.shape()[0];
  for_pieces(
      x.shape()[0], rows_at_once(x.device(), count), [&](std::int64_t begin, std::int64_t end) {
        const Tensor dproduct =
            Tensor::empty({end - begin, count}, x.dtype(), x.device(), MemoryTag::workspace);
        on(x.device(), [&](auto backend) {
          random_features_backward(backend,
                                   {.map = map,
                                    .x = x.slice(begin, end),
                                    .out = out.slice(begin, end),
                                    .dout = dout.slice(begin, end),
                                    .dproduct = dproduct,
                                    .dx = dx.slice(begin, end)});
        });
        dispatch_or_meta(x.device(), [&](auto backend) {
          matmul(backend,
                 {.a = dproduct, .b = projection, .c = dx.slice(begin, end), .accumulate = true});
        });
      });
}

}  // namespace

StabilizedFeatures random_features(const Variable& x,
                                   const Tensor& projection,
                                   const RandomFeatures& map) {
  const Tensor& value = x.value();
  const Shape& shape = value.shape();
  require(shape.dimensions() == 4 && projection.shape().dimensions() == 2 &&
              projection.shape()[1] == shape[3],
          "random features: expected x [batch, time, heads, dim] and a projection [count, dim], "
          "found {} and {}",
          shape,
          projection.shape());
  const Tensor weights = to_dtype(projection, value.dtype());
  const Tensor out = Tensor::empty(
      shape.with(3, map.features(projection.shape()[0])), value.dtype(), value.device());
  Tensor shift;
  if (map.map == RandomMap::softmax)
    shift = empty_accumulator(value, {shape[0], shape[1], shape[2]});
  write_features(map,
                 matrix(value),
                 weights,
                 matrix(out),
                 shift.defined() ? shift.reshape({shift.elements()}) : shift);
  const Variable features =
      record(out, {x}, [map, value, weights, out](BackwardContext& gradients) {
        const Tensor dx = value.empty_like();
        write_gradient(
            map, matrix(value), weights, matrix(out), matrix(gradients.output()), matrix(dx));
        gradients.set(0, dx);
      });
  return {features, shift};
}

KeyWeights weights_of_stabilizers(const Tensor& shift,
                                  bool causal,
                                  const std::optional<SequenceShards>& shares,
                                  const Tensor& first,
                                  const Tensor& last) {
  const Shape& shape = shift.shape();
  const Device& device = shift.device();
  const bool gathers = causal && shares;
  const Ranges parts = gathers ? SequenceSlots::rows_of(shares->queries[shares->local_index()])
                               : Ranges{{0, shape[1]}};
  const SequenceSlots slots = gathers ? SequenceSlots(*shares) : SequenceSlots(1);
  const Tensor tops = Tensor::empty({slots.total(), shape[0], shape[2]}, shift.dtype(), device);
  Tensor top = last;
  if (!causal) top = Tensor::empty({shape[0], shape[2]}, shift.dtype(), device);
  on(device, [&](auto backend) {
    // Slots without rows are empty parts.
    if (gathers) max_shifts(backend, shift, Ranges(slots.order().size()), tops);
    max_shifts(backend, shift, parts, slots.local(tops));
  });
  slots.gather(tops);
  on(device, [&](auto backend) {
    scan_tops(backend, {.tops = tops, .order = slots.order(), .first = first, .last = top});
  });
  if (!causal && shares) shares->ranks.all_reduce(top, Reduction::maximum);
  KeyWeights result = {.log_weight = shift.empty_like(),
                       .decay = causal ? shift.empty_like() : Tensor()};
  on(device, [&](auto backend) {
    weigh_shifted(backend,
                  {.shift = shift,
                   .causal = causal,
                   .parts = parts,
                   .before = causal ? slots.local(tops) : top.reshape({1, shape[0], shape[2]}),
                   .log_weight = result.log_weight,
                   .decay = result.decay});
  });
  return result;
}

GatedWeights gated_weights(const Variable& gate) {
  const Tensor& value = gate.value();
  const DType sums = accumulator_of(value.dtype());
  const Tensor decay = Tensor::empty(value.shape(), sums, value.device());
  const Tensor log_weight = decay.empty_like();
  on(value.device(), [&](auto backend) {
    gate_logs(backend, {.gate = value, .decay = decay, .log_weight = log_weight});
  });
  const std::vector<Variable> both = record(
      std::vector<Tensor>{decay, log_weight}, {gate}, [value, sums](BackwardContext& gradients) {
        const auto of = [&](std::size_t output) {
          return gradients.has_output(output) ? gradients.output(output)
                                              : Tensor::zeros(value.shape(), sums, value.device());
        };
        const Tensor dgate = value.empty_like();
        const Tensor ddecay = of(0), dlog_weight = of(1);
        on(value.device(), [&](auto backend) {
          gate_logs_backward(
              backend,
              {.gate = value, .ddecay = ddecay, .dlog_weight = dlog_weight, .dgate = dgate});
        });
        gradients.set(0, dgate);
      });
  return {both[0], both[1]};
}

Variable softmax_of_features(const Variable& x) {
  const Tensor y = x.value().empty_like();
  on(y.device(), [&](auto backend) { softmax_rows(backend, x.value(), y); });
  return record(y, {x}, [y](BackwardContext& gradients) {
    const Tensor dx = y.empty_like();
    on(y.device(),
       [&](auto backend) { softmax_rows_backward(backend, y, gradients.output(), dx); });
    gradients.set(0, dx);
  });
}

Variable exponentials_of_positions(const Variable& x,
                                   const Tensor& log_weight,
                                   const std::optional<SequenceShards>& shares) {
  const Tensor& value = x.value();
  const Shape& shape = value.shape();
  const Device& device = value.device();
  const Tensor tops = Tensor::empty(
      {shape[0], shape[2], shape[3]}, accumulator_of(value.dtype()), device, MemoryTag::workspace);
  on(device, [&](auto backend) { max_over_positions(backend, value, log_weight, tops); });
  if (shares) shares->ranks.all_reduce(tops, Reduction::maximum);
  const Tensor y = value.empty_like();
  on(device, [&](auto backend) { exponentials_of_positions(backend, value, log_weight, tops, y); });
  return record(y, {x}, [y](BackwardContext& gradients) {
    const Tensor dx = y.empty_like();
    on(y.device(), [&](auto backend) { multiply(backend, y, gradients.output(), dx); });
    gradients.set(0, dx);
  });
}

Variable scale_features(const Variable& x, const Variable& weight) {
  const Tensor value = x.value(), factors = weight.value();
  const Tensor y = value.empty_like();
  on(value.device(), [&](auto backend) { scale_columns(backend, value, factors, y); });
  return record(y, {x, weight}, [value, factors](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    if (gradients.needs_gradient(1)) {
      const Tensor dweight = gradients.accumulate_target(1);
      const Tensor products = value.empty_like(MemoryTag::workspace);
      on(value.device(), [&](auto backend) {
        multiply(backend, value, dy, products);
        add_column_sums(
            backend,
            products.reshape({value.elements() / factors.elements(), factors.elements()}),
            dweight.reshape({factors.elements()}));
      });
    }
    if (!gradients.needs_gradient(0)) return;
    const Tensor dx = value.empty_like();
    on(value.device(), [&](auto backend) { scale_columns(backend, dy, factors, dx); });
    gradients.set(0, dx);
  });
}

}  // namespace longspan
