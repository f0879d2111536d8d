// Packed documents that do not attend to each other. The field `document_position` [rows, time] is
// the position of each token in its document. A document may start in an earlier segment.
#pragma once

#include <optional>

#include "framework/kernels/attention/attention.h"
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

// Returns 1 for keys of the recurrent state from before the start of the row's current sequence,
// given by the field `earlier`. u8 [rows, state length + time], on the device, equal on all ranks
// that share the rows. Undefined where rows attend to the whole state, or where separate_episodes
// applies.
Tensor expired_keys(const ModelInput& reading, const Device& device);

// Returns the episode mask of all positions for `heads` heads, on the device, equal on all ranks
// that share the rows. The field `episodes` [rows, time] counts the episodes of a row from 0;
// positions attend only to their own episode. Recurrent state belongs to episode 0, which attends
// to at most `earlier` of its positions. nullopt where the field is absent.
std::optional<SortedSequence> separate_episodes(const ModelInput& reading,
                                                std::int64_t heads,
                                                const Device& device);

}  // namespace longspan
