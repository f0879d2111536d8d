#include "framework/kernels/attention/block_weights.h"

#include "framework/kernels/element.h"

namespace longspan {

void check(const SinkhornWeights& sinkhorn) {
  const Shape& shape = sinkhorn.scores.shape();
  const DType dtype = sinkhorn.scores.dtype();
  const char* const kernel = "sinkhorn_weights";
  require(shape.dimensions() == 3 && shape[1] == shape[2] && dtype == accumulator_of(dtype) &&
              sinkhorn.temperature > 0,
          "{}: expected scores f32 or f64 [count, blocks, blocks], found {} {}",
          kernel,
          name_of(dtype),
          shape);
  if (sinkhorn.uniform.defined()) require_tensor(kernel, "uniform", sinkhorn.uniform, shape, dtype);
  require_tensor(kernel, "weights", sinkhorn.weights, shape, dtype);
  require_tensor(kernel,
                 "normalizers",
                 sinkhorn.normalizers,
                 {shape[0], 2 * sinkhorn.iterations, shape[1]},
                 dtype);
}

void check(const SinkhornWeightsGradient& gradient) {
  check(gradient.forward);
  const Shape& shape = gradient.forward.scores.shape();
  const DType dtype = gradient.forward.scores.dtype();
  const char* const kernel = "sinkhorn_weights_backward";
  require_tensor(kernel, "dweights", gradient.dweights, shape, dtype);
  require_tensor(kernel, "dscores", gradient.dscores, shape, dtype);
  require_tensor(kernel, "totals", gradient.totals, {shape[0], 2, shape[1]}, dtype);
}

void check(const TopWeights& top) {
  const Shape& scores = top.scores.shape();
  const Shape& choice = top.choice.shape();
  const DType dtype = top.scores.dtype();
  require(scores.dimensions() == 3 && choice.dimensions() == 3 && dtype == accumulator_of(dtype) &&
              top.choice.dtype() == DType::i32 && choice == Shape{scores[0], scores[1], choice[2]},
          "top_weights: scores {} {} do not match choices {} {}",
          name_of(dtype),
          scores,
          name_of(top.choice.dtype()),
          choice);
  require(choice[2] <= (top.causal ? top.before : scores[2]),
          "top_weights: cannot choose {} of {} blocks",
          choice[2],
          top.causal ? top.before : scores[2]);
  require(!top.real.defined() || (top.real.dtype() == DType::i64 && top.real.elements() > 0 &&
                                  scores[0] % top.real.elements() == 0),
          "top_weights: the counts of real blocks do not match scores {}",
          scores);
  if (top.weights.defined())
    require_tensor("top_weights",
                   "weights",
                   top.weights,
                   {scores[0], scores[1] * choice[2], scores[2]},
                   dtype);
}

void check(const TopWeightsGradient& gradient) {
  const TopWeights& forward = gradient.forward;
  check(forward);
  const Shape& scores = forward.scores.shape();
  const DType dtype = forward.scores.dtype();
  require_tensor("top_weights_backward",
                 "dweights",
                 gradient.dweights,
                 {scores[0], scores[1] * forward.choice.shape()[2], scores[2]},
                 dtype);
  require_tensor("top_weights_backward", "dscores", gradient.dscores, scores, dtype);
}

void check(const MixedPadding& mixed) {
  const Shape& weights = mixed.weights.shape();
  const Shape& position = mixed.position.shape();
  require(weights.dimensions() == 3 && position.dimensions() == 3 && weights[1] % weights[2] == 0 &&
              mixed.position.dtype() == DType::i32 &&
              position[0] * position[1] == weights[0] * weights[2] &&
              position[2] % (weights[1] / weights[2] + 1) == 0,
          "mixed_padding: weights {} do not match positions {} {}",
          weights,
          name_of(mixed.position.dtype()),
          position);
  const std::int64_t batch = position[0] / weights[2];
  const std::int64_t size = position[2] / (weights[1] / weights[2] + 1);
  if (mixed.padding.defined())
    require_tensor(
        "mixed_padding", "padding", mixed.padding, {batch, weights[2] * size}, DType::u8);
  if (mixed.length.defined())
    require_tensor("mixed_padding", "length", mixed.length, {batch}, DType::i64);
}

}  // namespace longspan
