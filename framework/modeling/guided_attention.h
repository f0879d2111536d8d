// Targets of the guided attention loss, for each source position.
#pragma once

#include "framework/modeling/cross_attention_weights.h"
#include "framework/modeling/model_input.h"

namespace longspan {

// Returns the attention cost 1 - exp(-(s / S - t / T)^2 / (2 width^2)) (Tachibana et al. 2018,
// equation 12). S and T are the source and target lengths of each row. Fields: `source`,
// `source_length`, `length`.
//
// Result: [rows, positions, source positions] f64 on the host, for `positions` of the target; 0
// where either position is padding.
Tensor diagonal_guide(const Fields& fields, const Ranges& positions, double width);

// Returns target attention weights: uniform over the source positions linked to a target position,
// with sum 1. Fields: `source`, `links` (seq2seq_head.h). Shape as above.
Tensor alignment_guide(const Fields& fields, const Ranges& positions);

// Returns the monotonic expectation of attention [rows, time, source positions] over all target
// positions (kernels/monotonic_attention.h), at `positions`. A constant on the device of
// `attention`. Fields: `source_length`, `length`.
Tensor monotonic_guide(const Fields& fields, const Ranges& positions, const Tensor& attention);

}  // namespace longspan
