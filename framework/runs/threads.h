// How many threads a rank computes with.
#pragma once

#include <cstdint>

namespace longspan {

// An even share of the cores that this process may use among the `local_ranks` of its machine.
std::int64_t even_share(int local_ranks);

// Sets the threads of this rank's parallel loops: `wanted` of them (run.threads), or for 0 what
// OMP_NUM_THREADS says, or where that is not set either an even share of the machine's cores among
// its `local_ranks`.
void set_threads(std::int64_t wanted, int local_ranks);

}  // namespace longspan
