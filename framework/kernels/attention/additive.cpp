#include "framework/kernels/attention/additive.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

constexpr const char* additive_kernel = "additive attention";

void check_read(const AdditiveAttention& call) {
  const Shape &query = call.query.shape(), &key = call.key.shape(), &value = call.value.shape();
  require(query.dimensions() == 4 && key.dimensions() == 4 && value.dimensions() == 4 &&
              is_floating(call.query.dtype()) && query[0] == key[0] && query[2] == key[2] &&
              query[3] == key[3] && query[3] <= widest_additive_head &&
              value[3] <= widest_additive_head,
          "{}: expected query [batch, time, heads, dim] and key [batch, keys, heads, dim] with at "
          "most {} features, found {} and {}",
          additive_kernel,
          widest_additive_head,
          query.to_string(),
          key.to_string());
  const DType dtype = call.query.dtype(), sum = accumulator_of(dtype);
  require_tensor(additive_kernel, "key", call.key, key, dtype);
  require_tensor(additive_kernel, "value", call.value, {key[0], key[1], key[2], value[3]}, dtype);
  require_tensor(additive_kernel, "weight", call.weight, {query[2], query[3]}, sum);
  if (call.length.defined())
    require_tensor(additive_kernel, "length", call.length, {query[0]}, DType::i64);
  if (call.padding.defined())
    require_tensor(additive_kernel, "padding", call.padding, {key[0], key[1]}, DType::u8);
  require_tensor(additive_kernel, "out", call.out, query.with(3, value[3]), dtype);
  if (!call.kernel_size.defined()) {
    require_tensor(
        additive_kernel, "log_sum_exp", call.log_sum_exp, {query[0], query[2], query[1]}, sum);
    return;
  }
  require(call.kernel_size.shape().dimensions() == 3,
          "{}: expected taps [heads, taps, dim], found {}",
          additive_kernel,
          call.kernel_size.shape().to_string());
  require_tensor(additive_kernel,
                 "taps",
                 call.kernel_size,
                 {query[2], call.kernel_size.shape()[1], query[3]},
                 sum);
  require_tensor(additive_kernel,
                 "probabilities",
                 call.probabilities,
                 {query[0], query[2], query[1], key[1]},
                 sum);
  if (call.before.defined())
    require_tensor(additive_kernel, "before", call.before, {query[0], query[2], key[1]}, sum);
}

}  // namespace

void check(const AdditiveAttention& call) { check_read(call); }

void check(const AdditiveAttentionGradient& call) {
  const AdditiveAttention& forward = call.forward;
  check_read(forward);
  const Shape &query = forward.query.shape(), &key = forward.key.shape();
  const DType sum = accumulator_of(forward.query.dtype());
  require_tensor(additive_kernel, "dout", call.dout, forward.out.shape(), forward.query.dtype());
  require_tensor(additive_kernel, "dquery", call.dquery, query, sum);
  require_tensor(additive_kernel, "dkey", call.dkey, key, sum);
  require_tensor(additive_kernel, "dvalue", call.dvalue, forward.value.shape(), sum);
  const std::int64_t batch = query[0], heads = query[2], dim = query[3];
  if (!forward.kernel_size.defined()) {
    require_tensor(additive_kernel, "scratch", call.scratch, {batch, heads, query[1]}, sum);
    require_tensor(additive_kernel, "dweight", call.dweight, {batch * query[1], heads, dim}, sum);
    return;
  }
  require_tensor(additive_kernel, "scratch", call.scratch, {batch, heads, 2, key[1]}, sum);
  require_tensor(additive_kernel, "dweight", call.dweight, {batch, heads, dim}, sum);
  require_tensor(additive_kernel,
                 "dtaps",
                 call.dtaps,
                 {batch, heads, forward.kernel_size.shape()[1], dim},
                 sum);
}

}  // namespace longspan
