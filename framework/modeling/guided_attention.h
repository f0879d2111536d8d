// Where attention to a source is to lie, as numbers for each of its places.
#pragma once

#include "framework/modeling/cross_attention_weights.h"
#include "framework/modeling/model_input.h"

namespace longspan {

// [rows, positions, source positions] of f64 on the host, for these positions of the target; 0
// where one of the two is padding.
//
// What attention costs, 1 - exp(-(s / S - t / T)^2 / (2 width^2)), with the lengths S and T of each
// row (Tachibana et al. 2018, equation 12). Fields: `source`, `source_length`, `length`.
Tensor diagonal_guide(const Fields& fields, const Ranges& positions, double width);

// How much of a target's attention belongs to each source position: the same to each of its links,
// 1 in all. Fields: `source`, `links` (seq2seq_head.h).
Tensor alignment_guide(const Fields& fields, const Ranges& positions);

// How attention [rows, time, source positions] of all of a target's positions would lie if it only
// moved on (kernels/monotonic_attention.h): what of it stands at these positions. A constant. On
// its device. Fields: `source_length`, `length`.
Tensor monotonic_guide(const Fields& fields, const Ranges& positions, const Tensor& attention);

}  // namespace longspan
