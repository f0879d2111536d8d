#include "framework/runs/threads.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>

namespace longspan {

std::int64_t even_share(int local_ranks) { return std::max(1, omp_get_num_procs() / local_ranks); }

void set_threads(std::int64_t wanted, int local_ranks) {
  if (wanted == 0 && std::getenv("OMP_NUM_THREADS") == nullptr) wanted = even_share(local_ranks);
  if (wanted > 0) omp_set_num_threads(static_cast<int>(wanted));
}

}  // namespace longspan
