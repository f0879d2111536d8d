// Work that is one function a row.
#pragma once

#include "framework/kernels/cuda/launch.h"

namespace longspan {

// f(row) for every row, a thread each.
template <typename F>
void parallel_rows(Cuda cuda, std::int64_t rows, std::int64_t /*cost*/, const F& f) {
  for_each_element(cuda, rows, f);
}

}  // namespace longspan
