// The readout of tags whose neighbours depend on each other: a linear-chain conditional random
// field (kernels/crf.h).
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// start, end: [tags]; transitions: [tags, tags], from and to. Parameters, or of the accumulator
// dtype. -inf forbids.
struct CrfWeights {
  Variable start;
  Variable transitions;
  Variable end;
};

// -log p(tags) of each row, [rows] in the accumulator dtype; 0 where it is empty. emissions: [rows,
// time, tags]; tags: [rows, time] i64; lengths: [rows] i64, or undefined where all rows are whole.
// What lies after a row's length is not read and has the gradient 0.
Variable crf_losses(const Variable& emissions,
                    const CrfWeights& weights,
                    const Tensor& tags,
                    const Tensor& lengths = {});

// The tags with the highest score and that score. tags: [rows, time] i64, -1 after a row's length;
// scores: [rows], accumulator dtype. Nothing is recorded.
struct ViterbiPaths {
  Tensor tags;
  Tensor scores;
};
ViterbiPaths viterbi_decode(const Tensor& emissions,
                            const CrfWeights& weights,
                            const Tensor& lengths = {});

}  // namespace longspan
