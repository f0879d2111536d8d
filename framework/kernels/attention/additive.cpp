#include "framework/kernels/attention/additive.h"

#include "framework/kernels/require_tensor.h"

namespace longspan {
namespace {

constexpr const char* kernel = "additive attention";

void check_read(const AdditiveAttention& call) {
  const Shape &query = call.query.shape(), &key = call.key.shape(), &value = call.value.shape();
  require(query.dimensions() == 4 && key.dimensions() == 4 && value.dimensions() == 4 &&
              is_floating(call.query.dtype()) && query[0] == key[0] && query[2] == key[2] &&
              query[3] == key[3] && query[3] <= widest_additive_head &&
              value[3] <= widest_additive_head,
          "{}: query is {} and key {}, wanted [batch, time, heads, dim] and [batch, keys, heads, "
          "dim] with at most {} features",
          kernel,
          query.to_string(),
          key.to_string(),
          widest_additive_head);
  const DType dtype = call.query.dtype(), sum = accumulator_of(dtype);
  require_tensor(kernel, "key", call.key, key, dtype);
  require_tensor(kernel, "value", call.value, {key[0], key[1], key[2], value[3]}, dtype);
  require_tensor(kernel, "weight", call.weight, {query[2], query[3]}, sum);
  if (call.length.defined()) require_tensor(kernel, "length", call.length, {query[0]}, DType::i64);
  if (call.padding.defined())
    require_tensor(kernel, "padding", call.padding, {key[0], key[1]}, DType::u8);
  require_tensor(kernel, "out", call.out, query.with(3, value[3]), dtype);
  if (!call.taps.defined()) {
    require_tensor(kernel, "log_sum_exp", call.log_sum_exp, {query[0], query[2], query[1]}, sum);
    return;
  }
  require(call.taps.shape().dimensions() == 3,
          "{}: taps are {}, wanted [heads, taps, dim]",
          kernel,
          call.taps.shape().to_string());
  require_tensor(kernel, "taps", call.taps, {query[2], call.taps.shape()[1], query[3]}, sum);
  require_tensor(
      kernel, "probabilities", call.probabilities, {query[0], query[2], query[1], key[1]}, sum);
  if (call.before.defined())
    require_tensor(kernel, "before", call.before, {query[0], query[2], key[1]}, sum);
}

}  // namespace

void check(const AdditiveAttention& call) { check_read(call); }

void check(const AdditiveAttentionGradient& call) {
  const AdditiveAttention& forward = call.forward;
  check_read(forward);
  const Shape &query = forward.query.shape(), &key = forward.key.shape();
  const DType sum = accumulator_of(forward.query.dtype());
  require_tensor(kernel, "dout", call.dout, forward.out.shape(), forward.query.dtype());
  require_tensor(kernel, "dquery", call.dquery, query, sum);
  require_tensor(kernel, "dkey", call.dkey, key, sum);
  require_tensor(kernel, "dvalue", call.dvalue, forward.value.shape(), sum);
  const std::int64_t batch = query[0], heads = query[2], dim = query[3];
  if (!forward.taps.defined()) {
    require_tensor(kernel, "scratch", call.scratch, {batch, heads, query[1]}, sum);
    require_tensor(kernel, "dweight", call.dweight, {batch * query[1], heads, dim}, sum);
    return;
  }
  require_tensor(kernel, "scratch", call.scratch, {batch, heads, 2, key[1]}, sum);
  require_tensor(kernel, "dweight", call.dweight, {batch, heads, dim}, sum);
  require_tensor(kernel, "dtaps", call.dtaps, {batch, heads, forward.taps.shape()[1], dim}, sum);
}

}  // namespace longspan
