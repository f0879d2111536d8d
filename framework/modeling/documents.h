// Packed documents that do not attend to each other. The field `document_position` [rows, time] is
// the position of each token in its document. A document may start in an earlier segment.
#pragma once

#include "framework/modeling/model_input.h"

namespace longspan {

// Returns the lookback (AttentionMask::reach) of this rank's positions of `time` inside split
// regions, on the device. Undefined where the field is absent.
Tensor document_lookback(const ModelInput& reading,
                         const SequenceShard& time,
                         const Device& device);

// Returns the position of each token within the part of its document inside this segment. [rows,
// positions] i64, on the device; undefined where the field is absent.
Tensor document_positions(const ModelInput& reading, const Ranges& positions, const Device& device);

}  // namespace longspan
