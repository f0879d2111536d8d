// Softmax cross-entropy over a vocabulary that may be sharded over ranks. The gradient overwrites
// the logits, so there is no second copy of them.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Local statistics of one rank's shard of the logits, to be combined over ranks:
//   maximum = max_v l_v; sum = sum_v exp(l_v - maximum); target = l_y when y lies in
//   [vocabulary_begin, vocabulary_begin + width), else 0; total = sum_v l_v (for label smoothing).
// logits: [rows, width], any floating dtype. targets: [rows] i64, global ids; a negative id is
// ignored (target 0). The statistics are [rows] in the accumulator dtype and overwritten; `total`
// may be undefined. Only the first `valid_width` columns count, because a vocabulary that is not
// divisible by the number of ranks is padded. If a rank owns no valid column, its maximum is -inf
// and its sum 0.
struct CrossEntropyStatistics {
  Tensor logits;
  Tensor targets;
  std::int64_t vocabulary_begin = 0;
  std::int64_t valid_width = 0;
  Tensor maximum;
  Tensor sum;
  Tensor target;
  Tensor total = {};
};
void cross_entropy_statistics(Cpu, const CrossEntropyStatistics&);
void cross_entropy_statistics(Cuda, const CrossEntropyStatistics&);

// sum *= exp(local_maximum - maximum): rescales one rank's sums to the maximum over all ranks.
// [rows], accumulator dtype. A sum of 0 stays 0.
void rescale_sums(Cpu, const Tensor& local_maximum, const Tensor& maximum, const Tensor& sum);
void rescale_sums(Cuda, const Tensor& local_maximum, const Tensor& maximum, const Tensor& sum);

// Computes the loss of each row from the statistics over all ranks:
//   log_sum_exp = log(sum) + maximum
//   loss = mass * log_sum_exp - on_target * target - off_target * total
// `mass` is the sum of the weights of all classes. The loss of a negative target is 0. All tensors
// are [rows], targets i64, the others accumulator dtype. Overwrites log_sum_exp and losses. total
// may be undefined if off_target is 0.
struct CrossEntropyLosses {
  Tensor targets;
  Tensor maximum;
  Tensor sum;
  Tensor target;
  Tensor total = {};
  double mass = 1;
  double on_target = 1;
  double off_target = 0;
  Tensor log_sum_exp;
  Tensor losses;
};
void cross_entropy_losses(Cpu, const CrossEntropyLosses&);
void cross_entropy_losses(Cuda, const CrossEntropyLosses&);

// Overwrites the logits with their gradient:
//   scale[row] * (softmax_v - on_target * [v == y] - off_target),
//   softmax_v = exp(l_v - log_sum_exp[row]).
// Rows with a negative target and columns from valid_width on become 0. log_sum_exp, scale: [rows],
// accumulator dtype. Plain cross-entropy has on_target 1 and off_target 0.
struct CrossEntropyGradient {
  Tensor logits;
  Tensor targets;
  std::int64_t vocabulary_begin = 0;
  std::int64_t valid_width = 0;
  Tensor log_sum_exp;
  Tensor scale;
  double on_target = 1;
  double off_target = 0;
};
void cross_entropy_backward(Cpu, const CrossEntropyGradient&);
void cross_entropy_backward(Cuda, const CrossEntropyGradient&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const CrossEntropyStatistics&);
void check(const CrossEntropyLosses&);
void check(const CrossEntropyGradient&);

}  // namespace longspan
