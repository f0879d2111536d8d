// What stands most likely at each position of a target, by scores that ranks share.
#pragma once

#include <cstdint>
#include <span>

#include "framework/core/tensor.h"
#include "framework/distributed/process_mesh.h"
#include "framework/nn/parameters.h"

namespace longspan {

// For the host, the same on every rank that shares the rows' time or the vocabulary.
struct ArgmaxTokens {
  Tensor ids;                // [rows, time] i64
  Tensor log_probabilities;  // [rows, time] f64, in nats; not a number where a score is none
};

// scores: [rows, positions, part.count] on any device, of the positions that this context rank has
// of `time`. Of equal ones the lower id; only ids below `size` that are not `forbidden` are found,
// of which there is one at least, but all have a probability. Where a score is not a number the id
// is 0. Collective.
ArgmaxTokens argmax_tokens(const Tensor& scores,
                           std::int64_t time,
                           const ShardRange& part,
                           const ProcessMesh& mesh,
                           std::int64_t size,
                           std::span<const std::int64_t> forbidden = {});

}  // namespace longspan
