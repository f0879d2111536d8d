// Parallel loops that call one function for each row.
#pragma once

#include "framework/kernels/cpu/loops.h"

namespace longspan {

// Calls f(row) for every row, split among threads. `cost`: the number of elements that a row
// represents.
template <typename F>
void parallel_rows(Cpu, std::int64_t rows, std::int64_t cost, const F& f) {
  for_rows(rows, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) f(row);
  });
}

}  // namespace longspan
