// Parallel loops that call one function for each row.
#pragma once

#include "framework/kernels/cuda/launch.h"

namespace longspan {

// Calls f(row) for every row, one thread each.
template <typename F>
void parallel_rows(Cuda cuda, std::int64_t rows, std::int64_t /*cost*/, const F& f) {
  for_each_element(cuda, rows, f);
}

}  // namespace longspan
