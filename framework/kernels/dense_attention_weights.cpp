#include "framework/kernels/dense_attention_weights.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

void check_inputs(const DenseAttentionWeights& call) {
  const Shape &query = call.query.shape(), &key = call.key.shape();
  require(query.dimensions() == 4 && key.dimensions() == 4 && query[0] == key[0] &&
              query[2] == key[2] && query[3] == key[3] && is_floating(call.query.dtype()) &&
              call.key.dtype() == call.query.dtype(),
          "dense attention weights: expected query [batch, time, heads, dim] and key [batch, "
          "positions, heads, dim] of one floating-point dtype, found {} {} and {} {}",
          name_of(call.query.dtype()),
          query.to_string(),
          name_of(call.key.dtype()),
          key.to_string());
  require(call.begin >= 0 && call.begin < call.end && call.end <= query[2],
          "dense attention weights: heads [{}, {}) are out of range ({} heads)",
          call.begin,
          call.end,
          query[2]);
  if (call.lengths.defined())
    require_tensor("dense attention weights", "lengths", call.lengths, {query[0]}, DType::i64);
  require_tensor("dense attention weights",
                 "each",
                 call.each,
                 {query[0], call.end - call.begin, query[1], key[1]},
                 accumulator_of(call.query.dtype()));
}

Shape mean_shape(const DenseAttentionWeights& call) {
  return {call.query.shape()[0], call.query.shape()[1], call.key.shape()[1]};
}

}  // namespace

void check(const DenseAttentionWeights& call) {
  check_inputs(call);
  require_tensor("dense attention weights",
                 "mean",
                 call.mean,
                 mean_shape(call),
                 accumulator_of(call.query.dtype()));
}

void check(const HeadAttentionGradient& call) {
  const DenseAttentionWeights& forward = call.forward;
  check_inputs(forward);
  const DType dtype = accumulator_of(forward.query.dtype());
  require_tensor("dense attention weights", "dmean", call.dmean, mean_shape(forward), dtype);
  require_tensor("dense attention weights", "dscores", call.dscores, forward.each.shape(), dtype);
  require_tensor("dense attention weights", "dquery", call.dquery, forward.query.shape(), dtype);
  require_tensor("dense attention weights", "dkey", call.dkey, forward.key.shape(), dtype);
}

}  // namespace longspan
