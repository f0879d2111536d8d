// Operations that join the ranks of an axis, with their gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/autograd/variable.h"
#include "framework/core/range.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Entering a split region: identity forward, sum over the ranks backward (Shoeybi et al. 2019, f).
Variable copy_to_tensor_parallel_region(const Variable& x, const Communicator& communicator);

// Leaving it: sum over the ranks forward, identity backward (g). Writes over x's value where nobody
// else holds it.
Variable reduce_from_tensor_parallel_region(Variable&& x, const Communicator& communicator);

// The same two where the activations outside of the split region are divided over the ranks by time
// (Korthikanti et al. 2022, g and its conjugate). `rows`: of each rank's share.
//
// All ranks' shares, one after another along time; backward the sum over the ranks of what belongs
// to this rank's share. x: [batch, rows[rank], width].
Variable gather_from_sequence_parallel_region(const Variable& x,
                                              const std::vector<std::int64_t>& rows,
                                              const Communicator& communicator);
// This rank's share of the sum over the ranks; backward all ranks' shares. x: [batch, sum of rows,
// width].
Variable reduce_scatter_to_sequence_parallel_region(const Variable& x,
                                                    const std::vector<std::int64_t>& rows,
                                                    const Communicator& communicator);

// For what needs the whole sequence where ranks share its time: this rank's rows of all heads
// become all rows, in the order of time, of this rank's part of the heads (all-to-all; Jacobs et
// al. 2023). x: [batch, own rows, heads, dim]; result: [batch, all rows, heads / ranks, dim], of
// the heads from rank * heads / ranks. `positions`: those of each rank's rows, which together are
// 0, 1, ... Throws ConfigurationError when the heads do not divide by the ranks.
Variable sequence_to_heads(const Variable& x,
                           const std::vector<Ranges>& positions,
                           const Communicator& communicator);
// The way back. x: [batch, all rows, heads / ranks, dim]; result: [batch, own rows, heads, dim].
Variable heads_to_sequence(const Variable& x,
                           const std::vector<Ranges>& positions,
                           const Communicator& communicator);

// How label smoothing spreads its share: over the wrong classes (fairseq) or over all (PyTorch).
enum class LabelSmoothingStyle : std::uint8_t { wrong_classes, all_classes };

struct CrossEntropyOptions {
  std::int64_t vocabulary = 0;               // the whole vocabulary
  std::int64_t vocabulary_begin = 0;         // the first id of this rank's logits
  std::optional<std::int64_t> classes = {};  // of this rank's; columns after them do not count
  double smoothing = 0;
  LabelSmoothingStyle kind = LabelSmoothingStyle::all_classes;
};

// The loss of each row, [rows] in the accumulator dtype; 0 where the target is negative. logits:
// [..., width], this rank's part of the vocabulary; targets: [rows] i64. Takes the logits: the
// backward pass writes their gradient over them, so that they are never held twice; only where
// somebody else holds them a copy is made.
Variable cross_entropy(Variable&& logits,
                       const Tensor& targets,
                       const CrossEntropyOptions& options,
                       const Communicator& communicator);

}  // namespace longspan
