#include "framework/kernels/crf.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

void check(const Crf& chain) {
  const Shape& shape = chain.emissions.shape();
  require(
      shape.dimensions() == 3 && is_floating(chain.emissions.dtype()) && shape[2] > 0,
      "linear chain: expected emissions [rows, time, tags] of a floating-point dtype, found {} {}",
      name_of(chain.emissions.dtype()),
      shape.to_string());
  const DType accumulator = accumulator_of(chain.emissions.dtype());
  if (chain.lengths.defined())
    require_tensor("linear chain", "lengths", chain.lengths, {shape[0]}, DType::i64);
  require_tensor("linear chain", "start", chain.start, {shape[2]}, accumulator);
  require_tensor(
      "linear chain", "transitions", chain.transitions, {shape[2], shape[2]}, accumulator);
  require_tensor("linear chain", "end", chain.end, {shape[2]}, accumulator);
}

void check_kept(const Crf& chain, const Tensor& tags, const Tensor& arrival, const Tensor& growth) {
  const Shape& shape = chain.emissions.shape();
  const DType accumulator = accumulator_of(chain.emissions.dtype());
  require_tensor("linear chain", "tags", tags, {shape[0], shape[1]}, DType::i64);
  require_tensor("linear chain", "arrival", arrival, shape, accumulator);
  require_tensor("linear chain", "growth", growth, {shape[0], shape[1] + 1}, accumulator);
}

}  // namespace

void check(const CrfLosses& call) {
  check(call.chain);
  check_kept(call.chain, call.tags, call.arrival, call.growth);
  const std::int64_t rows = call.chain.emissions.shape()[0];
  const DType accumulator = accumulator_of(call.chain.emissions.dtype());
  require_tensor("linear chain", "losses", call.losses, {rows}, accumulator);
  require_tensor("linear chain", "log_partition", call.log_partition, {rows}, accumulator);
}

void check(const CrfGradient& call) {
  check(call.chain);
  check_kept(call.chain, call.tags, call.arrival, call.growth);
  const Shape& shape = call.chain.emissions.shape();
  const DType accumulator = accumulator_of(call.chain.emissions.dtype());
  require_tensor("linear chain", "dlosses", call.dlosses, {shape[0]}, accumulator);
  require_tensor(
      "linear chain", "demissions", call.demissions, shape, call.chain.emissions.dtype());
  require_tensor("linear chain", "dstart", call.dstart, {shape[2]}, accumulator);
  require_tensor(
      "linear chain", "dtransitions", call.dtransitions, {shape[2], shape[2]}, accumulator);
  require_tensor("linear chain", "dend", call.dend, {shape[2]}, accumulator);
}

void check(const CrfViterbi& call) {
  check(call.chain);
  const Shape& shape = call.chain.emissions.shape();
  require_tensor("linear chain", "tags", call.tags, {shape[0], shape[1]}, DType::i64);
  require_tensor("linear chain",
                 "scores",
                 call.scores,
                 {shape[0]},
                 accumulator_of(call.chain.emissions.dtype()));
}

}  // namespace longspan
