// Sequence-to-sequence output head, with optional copying (pointer-generator) and losses on
// cross-attention.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// Loss terms: "loss"; in training also "coverage" and "guided_attention" as OutputHeadSpec::source
// configures.
// Fields in addition to those of the LM head: `source`, `source_length` and `length`. With
// alignment guidance also `links` [rows, n, 2], pairs of a source and a target position, -1 where a
// row has fewer. Counts: "tokens"; "cells", source length times target length, for the diagonal
// guide; "linked", targets with a link, for alignments. The monotonic guide uses "tokens".
//
// With OutputHeadSpec::masked also "length", over "rows", in passes that return
// BackboneOutput::encoder_outputs. Predictions are then length classes (non_autoregressive.h).
// Parameters "length/weight" and "length/bias".
//
// With copying, parameters "copy/hidden" and "copy/embedding" form the gate. Scores are then
// log-probabilities. Throws ConfigurationError for copying with label smoothing.
OutputHeadFactory seq2seq_head();

}  // namespace longspan
