// Linear-chain conditional random fields (Lafferty et al. 2001), with the conventions of
// pytorch-crf:
//   score(y) = start[y_1] + sum_i emissions[i, y_i] + sum_i transitions[y_(i-1), y_i] + end[y_n]
//   log p(y) = score(y) - log_partition, log_partition = log sum over all y' of exp score(y')
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Score tensors of a batch of rows. emissions: [rows, time, tags], any floating dtype. start, end:
// [tags] and transitions: [tags (from), tags (to)], in the accumulator dtype. A score of -inf
// forbids that tag or transition. lengths: [rows] i64 in [0, time]; if undefined, every row has
// length `time`.
struct Crf {
  Tensor emissions;
  Tensor lengths;
  Tensor start;
  Tensor transitions;
  Tensor end;
};

// losses[r] = -log p(tags of row r). The loss is infinite if that path, or every path, is
// forbidden. It is 0 for an empty row. tags: [rows, time] i64, read only within a row's length. A
// tag out of range gives a NaN loss if any path is allowed. losses, log_partition: [rows],
// accumulator dtype, overwritten; sums are computed in double.
//
// The tensors below are saved for the backward pass in the accumulator dtype and written only
// within a row's length. Each sum is relative to the preceding one, so that values do not grow with
// time and lose precision:
//   arrival[r, i, y] = log sum over y' of p(y_(i-1) = y' | emissions up to i - 1)
//                      exp transitions[y', y]; start[y] at i = 0; [rows, time, tags]
//   growth[r, i] = log sum over y of exp(arrival[r, i, y] + emissions[r, i, y]); at the row's
//                  length, that of the end scores; [rows, time + 1]. log_partition is their sum.
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

// Gradients of sum_r dlosses[r] losses[r]: expected minus observed counts of tags and of adjacent
// tag pairs. dlosses: [rows], accumulator dtype. Overwrites demissions, in the dtype of the
// emissions, with zeros after a row's length. Adds to dstart, dtransitions and dend, in the
// accumulator dtype. The summation order depends only on the sizes.
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

// Highest-scoring tags (Viterbi 1967). Ties go to the path whose last tag has the lowest id, then
// the second to last, and so on. tags: [rows, time] i64, overwritten, -1 after a row's length.
// scores: [rows], accumulator dtype, overwritten, 0 for an empty row.
struct CrfViterbi {
  Crf chain;
  Tensor tags;
  Tensor scores;
};
void crf_viterbi(Cpu, const CrfViterbi&);
void crf_viterbi(Cuda, const CrfViterbi&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const CrfLosses&);
void check(const CrfGradient&);
void check(const CrfViterbi&);

}  // namespace longspan
