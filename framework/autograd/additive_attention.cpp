#include "framework/autograd/attention.h"
#include "framework/autograd/dtypes.h"
#include "framework/autograd/ops.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/additive.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

AdditiveAttention call_of(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const Variable& weight,
                          const AdditiveRules& rules,
                          const std::optional<AttentionDropout>& dropout) {
  const Tensor& asking = query.value();
  return {.query = asking,
          .key = key.value(),
          .value = value.value(),
          .weight = weight.value(),
          .length = rules.length,
          .padding = rules.padding,
          .causal = rules.causal,
          .query_begin = rules.query_begin,
          .key_begin = rules.key_begin,
          .dropout = dropout,
          .out = Tensor::empty(
              asking.shape().with(3, value.shape()[3]), asking.dtype(), asking.device())};
}

// Adds the sum of parts [n, ...] over their first axis to `to`.
void add_parts(const Tensor& parts, const Tensor& to) {
  const std::int64_t width = to.elements();
  if (width == 0) return;
  on(to.device(), [&](auto backend) {
    add_column_sums(backend, parts.reshape({parts.elements() / width, width}), to.reshape({width}));
  });
}

// Inputs 0 to 3 are query, key, value and weight; input 4 is the taps.
void backward_external(const AdditiveAttention& call, BackwardContext& gradients) {
  const Shape &query = call.query.shape(), &key = call.key.shape();
  const std::int64_t batch = query[0], heads = query[2], dim = query[3];
  const bool located = call.kernel_size.defined();
  AdditiveAttentionGradient backward = {.forward = call,
                                        .dout = gradients.output(),
                                        .scratch = {},
                                        .dquery = empty_accumulator(call.query, query),
                                        .dkey = empty_accumulator(call.query, key),
                                        .dvalue = empty_accumulator(call.query, call.value.shape()),
                                        .dweight = {}};
  if (located) {
    backward.scratch = empty_accumulator(call.query, {batch, heads, 2, key[1]});
    backward.dweight = empty_accumulator(call.query, {batch, heads, dim});
    backward.dtaps =
        empty_accumulator(call.query, {batch, heads, call.kernel_size.shape()[1], dim});
  } else {
    backward.scratch = empty_accumulator(call.query, {batch, heads, query[1]});
    backward.dweight = empty_accumulator(call.query, {batch * query[1], heads, dim});
  }
  on(call.query.device(), [&](auto backend) { additive_attention_backward(backend, backward); });
  const DType dtype = call.query.dtype();
  if (gradients.needs_gradient(0)) gradients.set(0, to_dtype(backward.dquery, dtype));
  if (gradients.needs_gradient(1)) gradients.set(1, to_dtype(backward.dkey, dtype));
  if (gradients.needs_gradient(2)) gradients.set(2, to_dtype(backward.dvalue, dtype));
  if (gradients.needs_gradient(3)) add_parts(backward.dweight, gradients.accumulate_target(3));
  if (located && gradients.needs_gradient(4))
    add_parts(backward.dtaps, gradients.accumulate_target(4));
}

}  // namespace

Variable additive_attention(const Variable& query,
                            const Variable& key,
                            const Variable& value,
                            const Variable& weight,
                            const AdditiveRules& rules,
                            const std::optional<AttentionDropout>& dropout) {
  const Variable scores = cast(weight, accumulator_of(query.value().dtype()));
  AdditiveAttention call = call_of(query, key, value, scores, rules, dropout);
  const Shape& shape = query.shape();
  call.log_sum_exp = empty_accumulator(call.query, {shape[0], shape[2], shape[1]});
  on(call.out.device(), [&](auto backend) { additive_attention(backend, call); });
  return record(call.out, {query, key, value, scores}, [call](BackwardContext& gradients) {
    backward_external(call, gradients);
  });
}

LocationAwareAttention location_aware_attention(const Variable& query,
                                                const Variable& key,
                                                const Variable& value,
                                                const Variable& weight,
                                                const Variable& taps,
                                                const AdditiveRules& rules,
                                                const Tensor& before,
                                                const std::optional<AttentionDropout>& dropout) {
  const DType sum = accumulator_of(query.value().dtype());
  const Variable scores = cast(weight, sum), heard = cast(taps, sum);
  AdditiveAttention call = call_of(query, key, value, scores, rules, dropout);
  const Shape& shape = query.shape();
  const std::int64_t batch = shape[0], time = shape[1], heads = shape[2], keys = key.shape()[1];
  call.kernel_size = heard.value();
  call.before = before;
  call.probabilities = empty_accumulator(call.query, {batch, heads, time, keys});
  on(call.out.device(), [&](auto backend) { additive_attention(backend, call); });
  LocationAwareAttention result;
  if (!is_recording() && time > 0) {
    result.last = empty_accumulator(call.query, {batch, heads, keys});
    on(call.out.device(), [&](auto backend) {
      copy_rows(backend,
                call.probabilities.reshape({batch * heads, time, keys}),
                time - 1,
                result.last.reshape({batch * heads, 1, keys}),
                0,
                1,
                false);
    });
  }
  result.out = record(call.out,
                      {query, key, value, scores, heard},
                      [call](BackwardContext& gradients) { backward_external(call, gradients); });
  return result;
}

}  // namespace longspan
