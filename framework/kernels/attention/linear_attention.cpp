#include "framework/kernels/attention/linear_attention.h"

#include <omp.h>

#include <algorithm>

#include "framework/kernels/element.h"

namespace longspan {
namespace {

void require_if_defined(const char* name, const Tensor& found, const Shape& shape, DType dtype) {
  if (found.defined()) require_tensor("linear attention", name, found, shape, dtype);
}

void require_parts(const char* name, const Ranges& parts, std::int64_t rows) {
  for (const Range& part : parts)
    require(part.begin >= 0 && part.begin <= part.end && part.end <= rows,
            "linear attention: rows [{}, {}) of {} are out of range ({} rows)",
            part.begin,
            part.end,
            name,
            rows);
}

Shape state_shape(const LinearAttention& call, std::int64_t parts) {
  const Shape& key = call.key.shape();
  return {parts, key[0], key[2], key[3], call.value.shape()[3] + 1};
}

// Number of multiply-add products: rows with the state, and pairs of rows in chunks.
struct Work {
  double rows;
  double pairs;
  double both;  // query rows and key rows

  explicit Work(const LinearAttention& call) : pairs(0) {
    const Shape& query = call.query.shape();
    const auto heads = static_cast<double>(query[0] * query[2]);
    rows = heads * static_cast<double>(query[1] + call.key.shape()[1]) / 2;
    both = static_cast<double>(query[3]) + static_cast<double>(call.value.shape()[3]);
    if (!call.causal) return;
    for (const Range& part : call.parts)
      for (std::int64_t left = part.count(); left > 0; left -= linear_chunk) {
        const auto n = static_cast<double>(std::min(left, linear_chunk));
        pairs += heads * n * (n + 1) / 2;
      }
  }
  double state(const LinearAttention& call) const {
    return rows * static_cast<double>(call.query.shape()[3] * call.value.shape()[3]);
  }
};

}  // namespace

LinearFlops linear_attention_flops(const LinearAttention& call) {
  const Work work(call);
  const double needed = 4 * work.state(call);
  // the states of the parts are computed first
  const bool twice = call.causal && call.parts.size() > 1;
  return {needed, needed + (twice ? needed / 2 : 0) + 2 * work.pairs * work.both};
}

LinearFlops linear_attention_backward_flops(const LinearAttention& call) {
  const Work work(call);
  const double state = work.state(call);
  const bool twice = call.causal && call.parts.size() > 1;
  const double again = call.causal ? 2 * state : 0;
  return {8 * state, 8 * state + again + (twice ? 2 * state : 0) + 6 * work.pairs * work.both};
}

Ranges linear_parts(const Device& device, std::int64_t pairs, std::int64_t rows) {
  // A GPU has one block for each part of a head.
  constexpr std::int64_t blocks = 512, min_rows = 4 * linear_chunk;
  std::int64_t parts = 1;
  if (pairs > 0 && device.on_gpu()) {
    parts = (blocks + pairs - 1) / pairs;
  } else if (pairs > 0) {
    const std::int64_t threads = omp_get_max_threads();
    if (pairs % threads != 0 && pairs < 4 * threads) parts = (4 * threads + pairs - 1) / pairs;
  }
  parts = std::clamp<std::int64_t>(rows / min_rows, 1, parts);
  const std::int64_t chunks = (rows + linear_chunk - 1) / linear_chunk;
  Ranges result;
  for (std::int64_t part = 0; part < parts; ++part)
    result.push_back({std::min(chunks * part / parts * linear_chunk, rows),
                      std::min(chunks * (part + 1) / parts * linear_chunk, rows)});
  return result;
}

void check(const LinearAttention& call) {
  const Shape& query = call.query.shape();
  const Shape& key = call.key.shape();
  const DType dtype = call.query.dtype();
  require(query.dimensions() == 4 && key.dimensions() == 4 && is_floating(dtype) &&
              call.value.shape().dimensions() == 4,
          "linear attention: expected query, key and value [batch, time, heads, dim], found {} {}, "
          "{} and {}",
          name_of(dtype),
          query,
          key,
          call.value.shape());
  require_tensor("linear attention", "key", call.key, query.with(1, key[1]), dtype);
  require_tensor(
      "linear attention", "value", call.value, key.with(3, call.value.shape()[3]), dtype);
  require(!call.causal || key[1] == query[1],
          "linear attention: causal attention requires as many keys as queries, found {} queries "
          "and {} keys",
          query[1],
          key[1]);
  require(call.causal || !call.decay.defined(),
          "linear attention: decay requires causal attention");
  require_parts("a part", call.parts, query[1]);
  require_parts("a part of the keys", call.key_parts, key[1]);
  const DType sums = accumulator_of(dtype);
  const Shape by_key = {key[0], key[1], key[2]};
  require_if_defined("log_weight", call.log_weight, by_key, sums);
  require_if_defined("decay", call.decay, by_key, sums);
  const std::int64_t parts = call.causal ? std::ssize(call.parts) : 1;
  require_if_defined("before", call.before, state_shape(call, parts), sums);
  require_if_defined("out", call.out, query.with(3, call.value.shape()[3]), dtype);
  require_if_defined("divisors", call.divisors, {query[0], query[1], query[2]}, sums);
}

void check(const LinearAttentionGradient& call) {
  const LinearAttention& forward = call.forward;
  check(forward);
  const DType dtype = forward.query.dtype(), sums = accumulator_of(dtype);
  require(forward.out.defined() && (forward.divisors.defined() || forward.divisor == Divisor::none),
          "linear attention: the backward pass requires the results of the forward pass");
  require_tensor("linear attention", "dout", call.dout, forward.out.shape(), dtype);
  const std::int64_t parts = forward.causal ? std::ssize(forward.parts) : 1;
  require_if_defined("after", call.after, state_shape(forward, parts), sums);
  require_if_defined("dquery", call.dquery, forward.query.shape(), dtype);
  require_if_defined("dkey", call.dkey, forward.key.shape(), dtype);
  require_if_defined("dvalue", call.dvalue, forward.value.shape(), dtype);
  const Shape& key = forward.key.shape();
  require_if_defined("dlog_weight", call.dlog_weight, {key[0], key[1], key[2]}, sums);
  require_if_defined("ddecay", call.ddecay, {key[0], key[1], key[2]}, sums);
}

void check(const StateScan& scan) {
  const Shape& states = scan.states.shape();
  const DType dtype = scan.states.dtype();
  require(states.dimensions() == 5 && (dtype == DType::f32 || dtype == DType::f64) &&
              std::ssize(scan.order) == states[0],
          "scan_states: states {} {} do not match an order of {}",
          name_of(dtype),
          states,
          scan.order.size());
  const Shape one = {states[1], states[2], states[3], states[4]};
  require_if_defined("decays", scan.decays, {states[0], states[1], states[2]}, dtype);
  require_if_defined("first", scan.first, one, dtype);
  require_if_defined("last", scan.last, one, dtype);
}

}  // namespace longspan
