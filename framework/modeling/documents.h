// Several documents in a row that do not look at each other: by the field `document_position`
// [rows, time], the place of each token in its document, which may have begun in an earlier
// segment.
#pragma once

#include "framework/modeling/model_input.h"

namespace longspan {

// How far back each position that `time` gives this rank inside split regions sees
// (AttentionMask::reach), on the device. Undefined where there is no such field.
Tensor document_lookback(const ModelInput& reading,
                         const SequenceShard& time,
                         const Device& device);

// Of these positions of the segment the places in the parts of documents that the segment has: as
// if each were a sequence of its own. [rows, positions] i64, on the device; undefined where there
// is no such field.
Tensor document_positions(const ModelInput& reading, const Ranges& positions, const Device& device);

}  // namespace longspan
