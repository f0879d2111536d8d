#include "framework/kernels/attention/attention_free.h"

#include <algorithm>

#include "framework/kernels/element.h"

namespace longspan {
namespace {

constexpr const char* aft_kernel = "attention-free mixing";

}  // namespace

void check(const AttentionFree& call) {
  const Shape& key = call.key.shape();
  require(key.dimensions() == 3 && is_floating(call.key.dtype()) && call.query_begin >= 0 &&
              call.query_begin <= key[1] && call.window >= 0,
          "{}: expected keys [batch, keys, channels], found {}",
          aft_kernel,
          key);
  require_tensor(aft_kernel, "value", call.value, key, call.key.dtype());
  require(call.causal || (call.query_begin == 0 && !call.max_lookback.defined()),
          "{}: documents and later queries require a causal mask",
          aft_kernel);
  const DType sums = accumulator_of(call.key.dtype());
  require(call.bias.defined() == (call.window > 0), "{}: biases require a window", aft_kernel);
  if (call.bias.defined()) {
    const Shape& bias = call.bias.shape();
    const std::int64_t columns =
        call.banded ? AttentionFree::band(call.window, call.causal) : bias[0];
    require(bias[0] >= key[1], "{}: {} positions of biases, {} keys", aft_kernel, bias[0], key[1]);
    require_tensor(aft_kernel, "bias", call.bias, {bias[0], columns}, sums);
  }
  const Shape queries = key.with(1, call.queries());
  if (call.max_lookback.defined())
    require_tensor(aft_kernel, "max_lookback", call.max_lookback, {key[0], queries[1]}, DType::i64);
  if (call.hidden.defined())
    require_tensor(aft_kernel, "hidden", call.hidden, {key[0], key[1]}, sums);
  const bool has_state = call.initial.defined() || call.final_state.defined();
  require(!has_state || (call.causal && call.window == 0 && call.query_begin == 0),
          "{}: a state requires a causal mask without biases",
          aft_kernel);
  const Shape state = {key[0], 3, key[2]};
  if (call.initial.defined()) require_tensor(aft_kernel, "initial", call.initial, state, sums);
  if (call.final_state.defined())
    require_tensor(aft_kernel, "final_state", call.final_state, state, sums);
  if (call.out.defined()) require_tensor(aft_kernel, "out", call.out, queries, call.key.dtype());
  require_tensor(aft_kernel, "log_sum", call.log_sum, queries, sums);
}

void check(const AttentionFreeGradient& call) {
  const AttentionFree& forward = call.forward;
  check(forward);
  require_tensor(aft_kernel, "out", forward.out, forward.log_sum.shape(), forward.key.dtype());
  require_tensor(aft_kernel, "dout", call.dout, forward.out.shape(), forward.key.dtype());
  for (const auto& [name, gradient] : {std::pair("dkey", &call.dkey), {"dvalue", &call.dvalue}})
    require_tensor(aft_kernel, name, *gradient, forward.key.shape(), forward.key.dtype());
  const DType sums = forward.log_sum.dtype();
  if (call.dbias.defined())
    require_tensor(aft_kernel, "dbias", call.dbias, forward.bias.shape(), sums);
  if (call.dinitial.defined())
    require_tensor(aft_kernel, "dinitial", call.dinitial, forward.initial.shape(), sums);
  if (call.dfinal.defined())
    require_tensor(aft_kernel, "dfinal", call.dfinal, forward.final_state.shape(), sums);
}

double attention_free_flops(const AttentionFree& call) {
  const Shape& key = call.key.shape();
  const auto keys = static_cast<double>(key[1]), begin = static_cast<double>(call.query_begin);
  const auto window = static_cast<double>(std::min(call.window, key[1]));
  // The pairs with fewer than `window` positions between them.
  const double triangle = window * (window - 1) / 2;
  double pairs = keys * window - triangle;
  if (!call.causal) pairs += keys * (window - 1) - triangle;
  if (begin > 0) pairs = std::min(pairs, (keys - begin) * window);
  return static_cast<double>(key[0] * key[2]) * (4 * pairs + 4 * keys);
}

}  // namespace longspan
