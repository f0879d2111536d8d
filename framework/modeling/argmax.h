// Most probable class and token ids over vocabulary shards.
#pragma once

#include <cstdint>
#include <span>

#include "framework/core/tensor.h"
#include "framework/distributed/process_mesh.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Returns the argmax of each row, [rows] i64 on the host; ties resolve to the lowest id. scores:
// [..., classes], f32 or f64, on any device.
Tensor argmax_classes(const Tensor& scores);

// On the host, equal on every rank that shares the rows' time or the vocabulary.
struct ArgmaxTokens {
  Tensor ids;                // [rows, time] i64
  Tensor log_probabilities;  // [rows, time] f64, in nats; NaN where a score is NaN
};

// Collective. scores: [rows, positions, part.count] on any device, for this context rank's
// positions of `time`. Ties resolve to the lowest id. Only ids below `size` that are not
// `forbidden` are candidates; at least one must exist. The log-probabilities normalize over all
// ids. The id is 0 where a score is NaN.
ArgmaxTokens argmax_tokens(const Tensor& scores,
                           std::int64_t time,
                           const ShardRange& part,
                           const ProcessMesh& mesh,
                           std::int64_t size,
                           std::span<const std::int64_t> forbidden = {});

}  // namespace longspan
