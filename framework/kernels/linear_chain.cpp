#include "framework/kernels/linear_chain.h"

namespace longspan {
namespace {

// What is called `name` has that shape and dtype.
void require_tensor(const char* name, const Tensor& found, const Shape& shape, DType dtype) {
  require(found.defined() && found.shape() == shape && found.dtype() == dtype,
          "linear chain: {} is {} {}, wanted {} {}",
          name,
          found.defined() ? name_of(found.dtype()) : "nothing",
          found.shape().to_string(),
          name_of(dtype),
          shape.to_string());
}

void check(const LinearChain& chain) {
  const Shape& shape = chain.emissions.shape();
  require(shape.dimensions() == 3 && is_floating(chain.emissions.dtype()) && shape[2] > 0,
          "linear chain: emissions are {} {}, wanted rows, time and tags of a floating dtype",
          name_of(chain.emissions.dtype()),
          shape.to_string());
  const DType accumulator = accumulator_of(chain.emissions.dtype());
  if (chain.lengths.defined()) require_tensor("lengths", chain.lengths, {shape[0]}, DType::i64);
  require_tensor("start", chain.start, {shape[2]}, accumulator);
  require_tensor("transitions", chain.transitions, {shape[2], shape[2]}, accumulator);
  require_tensor("end", chain.end, {shape[2]}, accumulator);
}

void check_kept(const LinearChain& chain,
                const Tensor& tags,
                const Tensor& arrival,
                const Tensor& growth) {
  const Shape& shape = chain.emissions.shape();
  const DType accumulator = accumulator_of(chain.emissions.dtype());
  require_tensor("tags", tags, {shape[0], shape[1]}, DType::i64);
  require_tensor("arrival", arrival, shape, accumulator);
  require_tensor("growth", growth, {shape[0], shape[1] + 1}, accumulator);
}

}  // namespace

void check(const LinearChainLosses& call) {
  check(call.chain);
  check_kept(call.chain, call.tags, call.arrival, call.growth);
  const std::int64_t rows = call.chain.emissions.shape()[0];
  const DType accumulator = accumulator_of(call.chain.emissions.dtype());
  require_tensor("losses", call.losses, {rows}, accumulator);
  require_tensor("log_partition", call.log_partition, {rows}, accumulator);
}

void check(const LinearChainGradient& call) {
  check(call.chain);
  check_kept(call.chain, call.tags, call.arrival, call.growth);
  const Shape& shape = call.chain.emissions.shape();
  const DType accumulator = accumulator_of(call.chain.emissions.dtype());
  require_tensor("dlosses", call.dlosses, {shape[0]}, accumulator);
  require_tensor("demissions", call.demissions, shape, call.chain.emissions.dtype());
  require_tensor("dstart", call.dstart, {shape[2]}, accumulator);
  require_tensor("dtransitions", call.dtransitions, {shape[2], shape[2]}, accumulator);
  require_tensor("dend", call.dend, {shape[2]}, accumulator);
}

void check(const LinearChainPath& call) {
  check(call.chain);
  const Shape& shape = call.chain.emissions.shape();
  require_tensor("tags", call.tags, {shape[0], shape[1]}, DType::i64);
  require_tensor("scores", call.scores, {shape[0]}, accumulator_of(call.chain.emissions.dtype()));
}

}  // namespace longspan
