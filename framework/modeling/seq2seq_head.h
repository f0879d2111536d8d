// The readout of a target that is said from a source: the ids of a vocabulary, of which some may be
// copied, and what its attention to the source is taught.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// Terms: "loss", and in training "coverage" and "guide" where OutputHeadSpec::source asks for them.
// Fields beside those of the vocabulary's readout: `source`, `source_length` and `length`; with a
// guide of alignments `links` [rows, n, 2], pairs of a position of the source and one of the
// targets, -1 where a row has fewer. Counts: "tokens"; "cells", of a row's source length times its
// length, for the diagonal; "linked", targets with a link, for alignments; "tokens" where attention
// is to move on.
//
// With OutputHeadSpec::masked also "length", by the count "rows", of a pass that shows
// States::sides; choices are then the classes of the lengths (non_autoregressive.h). Parameters
// "length/weight" and "length/bias".
//
// With copying, parameters "copy/hidden" and "copy/embedding": the gate. Scores are then
// log-probabilities. Throws ConfigurationError for copying with smoothed targets.
OutputHeadFactory seq2seq_head();

}  // namespace longspan
