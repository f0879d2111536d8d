// A sequence whose time ranks share, whole on each of them.
#pragma once

#include <vector>

#include "framework/autograd/collectives.h"

namespace longspan {

// x [batch, own rows, width], of which each rank holds the positions that `positions` says: those
// of all ranks in the order of time, [batch, all rows, width]; backward the sum over the ranks of
// what belongs to this rank's rows. Collective over the ranks.
Variable all_gather_sequence(const Variable& x,
                             const std::vector<Ranges>& positions,
                             const Communicator& ranks);

}  // namespace longspan
