// Linear-chain conditional random fields (Lafferty et al. 2001), as pytorch-crf has them:
//   score(y) = start[y_1] + sum_i emissions[i, y_i] + sum_i transitions[y_(i-1), y_i] + end[y_n]
//   log p(y) = score(y) - log_partition, log_partition = log sum over all y' of exp score(y')
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// What a row's scores are made of. emissions: [rows, time, tags], any floating dtype. start, end:
// [tags] and transitions: [tags, tags], from and to, in its accumulator dtype. A score of -inf
// forbids what it is of. lengths: [rows] i64, each at least 0 and at most `time`; undefined where
// every row is as long as that.
struct Crf {
  Tensor emissions;
  Tensor lengths;
  Tensor start;
  Tensor transitions;
  Tensor end;
};

// losses[r] = -log p(tags of row r): infinity where that is forbidden or everything is, 0 for an
// empty row. tags: [rows, time] i64, read within a row's length only; a tag that there is not makes
// the loss NaN, where some path is allowed. losses, log_partition: [rows], accumulator dtype,
// written, summed in double.
//
// Kept for the backward pass, in the accumulator dtype and written within a row's length; sums are
// taken relative to what came before, so that they do not grow with time and lose digits:
//   arrival[r, i, y] = log sum over y' of p(y_(i-1) = y' | emissions up to i - 1)
//                      exp transitions[y', y], and start[y] at 0; [rows, time, tags]
//   growth[r, i] = log sum over y of exp(arrival[r, i, y] + emissions[r, i, y]), and at the row's
//                  length that of its end; [rows, time + 1]. The partition is their sum.
struct CrfLosses {
  Crf chain;
  Tensor tags;
  Tensor losses;
  Tensor log_partition;
  Tensor arrival;
  Tensor growth;
};
void crf_losses(Cpu, const CrfLosses&);
void crf_losses(Cuda, const CrfLosses&);

// The gradients of sum_r dlosses[r] losses[r]: expected minus observed counts of tags and of pairs
// of neighbours. dlosses: [rows], accumulator dtype. demissions, of the emissions' dtype, is
// written, with zeros after a row's length; dstart, dtransitions and dend, in the accumulator
// dtype, are added to, in an order that depends on the sizes alone.
struct CrfGradient {
  Crf chain;
  Tensor tags;
  Tensor arrival;
  Tensor growth;
  Tensor dlosses;
  Tensor demissions;
  Tensor dstart;
  Tensor dtransitions;
  Tensor dend;
};
void crf_backward(Cpu, const CrfGradient&);
void crf_backward(Cuda, const CrfGradient&);

// The tags with the highest score (Viterbi 1967); of several the path whose last tag has the lowest
// id, and so on backwards. tags: [rows, time] i64, written, -1 after a row's length. scores:
// [rows], accumulator dtype, written: the score, 0 for an empty row.
struct CrfViterbi {
  Crf chain;
  Tensor tags;
  Tensor scores;
};
void crf_viterbi(Cpu, const CrfViterbi&);
void crf_viterbi(Cuda, const CrfViterbi&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const CrfLosses&);
void check(const CrfGradient&);
void check(const CrfViterbi&);

}  // namespace longspan
