// Differentiable collectives over the ranks of a mesh axis.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/core/range.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Entry to a split region: identity forward, sum over the ranks backward (f in Shoeybi et al.
// 2019).
Variable copy_to_tensor_parallel_region(const Variable& x, const Communicator& communicator);

// Exit from a split region: sum over the ranks forward, identity backward (g). Writes over x's
// value if it has no other owner.
Variable reduce_from_tensor_parallel_region(Variable&& x, const Communicator& communicator);

// As above, if activations outside the split region are sharded over the ranks by time (g and its
// conjugate in Korthikanti et al. 2022). `rows`: rows of each rank's shard.
//
// Returns all ranks' shards, concatenated along time. Backward: sum over the ranks of the gradients
// of this rank's shard. x: [batch, rows[rank], width].
Variable gather_from_sequence_parallel_region(const Variable& x,
                                              const std::vector<std::int64_t>& rows,
                                              const Communicator& communicator);
// Returns this rank's shard of the sum over the ranks. Backward: all ranks' shards. x: [batch, sum
// of rows, width].
Variable reduce_scatter_to_sequence_parallel_region(const Variable& x,
                                                    const std::vector<std::int64_t>& rows,
                                                    const Communicator& communicator);

// Exchanges sharding of time for sharding of heads, for ops that need the full sequence
// (all-to-all; DeepSpeed-Ulysses, Jacobs et al. 2023). x: [batch, own rows, heads, dim]. Returns
// [batch, all rows, heads / ranks, dim] in time order, for the heads from rank * heads / ranks.
// `positions`: positions of each rank's rows, together 0, 1, ... Throws ConfigurationError if the
// heads are not divisible by the ranks.
Variable sequence_to_heads(const Variable& x,
                           const std::vector<Ranges>& positions,
                           const Communicator& communicator);
// Inverse. x: [batch, all rows, heads / ranks, dim]. Returns [batch, own rows, heads, dim].
Variable heads_to_sequence(const Variable& x,
                           const std::vector<Ranges>& positions,
                           const Communicator& communicator);

// Classes that receive the smoothed mass: the wrong ones (fairseq) or all (PyTorch).
enum class LabelSmoothingStyle : std::uint8_t { wrong_classes, all_classes };

struct CrossEntropyOptions {
  std::int64_t vocabulary = 0;               // full vocabulary size
  std::int64_t vocabulary_begin = 0;         // first id of this rank's logits
  std::optional<std::int64_t> classes = {};  // classes of this rank; later columns are ignored
  double smoothing = 0;
  LabelSmoothingStyle kind = LabelSmoothingStyle::all_classes;
};

// Returns the loss of each row, [rows] in the accumulator dtype; 0 where the target is negative.
// logits: [..., width], this rank's shard of the vocabulary; targets: [rows] i64. Consumes the
// logits: the backward pass writes their gradient over them, which avoids a second buffer. Copies
// only if they have another owner.
Variable cross_entropy(Variable&& logits,
                       const Tensor& targets,
                       const CrossEntropyOptions& options,
                       const Communicator& communicator);

}  // namespace longspan
