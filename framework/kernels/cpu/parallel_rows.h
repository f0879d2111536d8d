// Work that is one function a row.
#pragma once

#include "framework/kernels/cpu/loops.h"

namespace longspan {

// f(row) for every row, shared among threads. `cost`: elements that a row stands for.
template <typename F>
void parallel_rows(Cpu, std::int64_t rows, std::int64_t cost, const F& f) {
  for_rows(rows, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) f(row);
  });
}

}  // namespace longspan
