#include "framework/kernels/attention/gated_recurrence.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

constexpr const char* recurrence_kernel = "gated recurrence";

void require_optional(const char* name, const Tensor& found, const Shape& shape, DType dtype) {
  if (found.defined()) require_tensor(recurrence_kernel, name, found, shape, dtype);
}

// Multiply-adds of one product of every token with the state.
double products(const GatedRecurrence& call) {
  const Shape& key = call.key.shape();
  return static_cast<double>(key.elements()) * static_cast<double>(call.value.shape()[3]);
}

}  // namespace

RecurrenceFlops gated_recurrence_flops(const GatedRecurrence& call) {
  // The output and the written pair; by the delta rule, what is read; with a and b, what is read
  // and written back.
  const double flops = (call.a.defined() ? 8 : call.beta.defined() ? 6 : 4) * products(call);
  return {flops, flops};
}

RecurrenceFlops gated_recurrence_backward_flops(const GatedRecurrence& call) {
  const double forward = gated_recurrence_flops(call).needed;
  // On a CPU the states before each chunk are computed once more, without outputs. The CUDA kernel
  // also computes those inside a chunk, which is not counted.
  return {2 * forward, 3 * forward - 2 * products(call)};
}

void check(const GatedRecurrence& call) {
  const Shape& key = call.key.shape();
  const DType dtype = call.query.dtype();
  require(key.dimensions() == 4 && is_floating(dtype) && call.value.shape().dimensions() == 4,
          "{}: expected key and value [batch, time, heads, dim], found {} {} and {}",
          recurrence_kernel,
          name_of(dtype),
          key,
          call.value.shape());
  require_tensor(recurrence_kernel, "query", call.query, key, dtype);
  require_tensor(recurrence_kernel, "key", call.key, key, dtype);
  const std::int64_t values = call.value.shape()[3];
  require_tensor(recurrence_kernel, "value", call.value, key.with(3, values), dtype);
  const DType sums = accumulator_of(dtype);
  const Shape by_head = {key[0], key[1], key[2]};
  require_optional("log_decay", call.log_decay, call.has_channel_gates() ? key : by_head, sums);
  require_optional("beta", call.beta, by_head, sums);
  require_optional("a", call.a, key, dtype);
  require_optional("b", call.b, key, dtype);
  require(call.a.defined() == call.b.defined() && !(call.a.defined() && call.beta.defined()),
          "{}: expected a and b, beta, or none of them",
          recurrence_kernel);
  require_optional("document_position", call.document_position, {key[0], key[1]}, DType::i64);
  const Shape state = {key[0], key[2], key[3], values};
  require_optional("initial", call.initial, state, sums);
  require_optional("final_state", call.final_state, state, sums);
  require_optional("checkpoints",
                   call.checkpoints,
                   {call.segments(), state[0], state[1], state[2], state[3]},
                   sums);
  require_optional("out", call.out, call.value.shape(), dtype);
}

void check_forward(const GatedRecurrence& call) {
  check(call);
  require(call.out.defined(), "{}: expected a tensor for the output", recurrence_kernel);
}

void check(const GatedRecurrenceGradient& call) {
  const GatedRecurrence& forward = call.forward;
  check(forward);
  require(forward.checkpoints.defined() || forward.query.shape()[1] == 0,
          "{}: the backward pass requires checkpoints",
          recurrence_kernel);
  const auto require_gradient = [](const char* name, const Tensor& found, const Tensor& of) {
    if (!found.defined()) return;
    require(of.defined(), "{}: {} is the gradient of an undefined tensor", recurrence_kernel, name);
    require_tensor(recurrence_kernel, name, found, of.shape(), of.dtype());
  };
  require_tensor(
      recurrence_kernel, "dout", call.dout, forward.value.shape(), forward.value.dtype());
  require_gradient("dquery", call.dquery, forward.query);
  require_gradient("dkey", call.dkey, forward.key);
  require_gradient("dvalue", call.dvalue, forward.value);
  require_gradient("dlog_decay", call.dlog_decay, forward.log_decay);
  require_gradient("dbeta", call.dbeta, forward.beta);
  require_gradient("da", call.da, forward.a);
  require_gradient("db", call.db, forward.b);
  const Shape& key = forward.key.shape();
  const Shape state = {key[0], key[2], key[3], forward.value.shape()[3]};
  const DType sums = accumulator_of(forward.query.dtype());
  require_optional("dfinal", call.dfinal, state, sums);
  require_optional("dinitial", call.dinitial, state, sums);
}

}  // namespace longspan
