// Gathers a sequence that is sharded over time ranks.
#pragma once

#include <vector>

#include "framework/autograd/collectives.h"

namespace longspan {

// Returns the positions of all ranks in time order, [batch, all rows, width]. x: [batch, own rows,
// width]. `positions`: the positions of each rank. Backward: sums the gradients of this rank's rows
// over the ranks. Collective over `ranks`.
Variable all_gather_sequence(const Variable& x,
                             const std::vector<Ranges>& positions,
                             const Communicator& ranks);

}  // namespace longspan
