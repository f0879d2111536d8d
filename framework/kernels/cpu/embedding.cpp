#include "framework/kernels/embedding.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

template <typename T>
void gather(const EmbeddingGather& gather) {
  using A = Accumulator<T>;
  const std::int64_t rows = gather.table.shape()[0], width = gather.table.shape()[1];
  const T* table = gather.table.data<T>();
  const std::int64_t* ids = gather.ids.data<std::int64_t>();
  T* out = gather.out.data<T>();
  const A factor = static_cast<A>(gather.scale);
  const std::int64_t first = gather.begin;
  for_rows(gather.ids.elements(), width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* to = out + i * width;
      const std::int64_t row = ids[i] - first;
      if (row < 0 || row >= rows) {
        std::fill(to, to + width, T(A{0}));
        continue;
      }
      const T* from = table + row * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) put(to[c], factor * static_cast<A>(from[c]));
    }
  });
}

// Each work item owns some columns of some table rows and scans all ids in order. A row's sum
// therefore does not depend on the threads. Columns are split first, because they stay balanced for
// any distribution of ids.
template <typename T, typename D>
void scatter(const EmbeddingScatter& scatter) {
  using A = Accumulator<T>;
  constexpr std::int64_t max_columns = 256;
  const std::int64_t rows = scatter.dtable.shape()[0], width = scatter.dtable.shape()[1];
  const std::int64_t count = scatter.ids.elements(), first = scatter.begin;
  const T* from = scatter.dout.data<T>();
  const std::int64_t* ids = scatter.ids.data<std::int64_t>();
  D* table = scatter.dtable.data<D>();
  const A factor = static_cast<A>(scatter.scale);
  const std::int64_t column_pieces = (width + max_columns - 1) / max_columns;
  const std::int64_t row_pieces = (omp_get_max_threads() + column_pieces - 1) / column_pieces;
  const std::int64_t pieces = column_pieces * row_pieces;
  for_pieces(pieces, count * width / std::max<std::int64_t>(pieces, 1), [=](std::int64_t piece) {
    const std::int64_t column = piece % column_pieces * max_columns;
    const std::int64_t columns = std::min(max_columns, width - column);
    const std::int64_t mine = piece / column_pieces;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = ids[i] - first;
      if (row < 0 || row >= rows || (row_pieces > 1 && row % row_pieces != mine)) continue;
      D* to = table + row * width + column;
      const T* add = from + i * width + column;
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c)
        put(to[c], static_cast<A>(to[c]) + factor * static_cast<A>(add[c]));
    }
  });
}

}  // namespace

void embedding_gather(Cpu, const EmbeddingGather& embedding) {
  check(embedding);
  with_floating_type(embedding.table.dtype(),
                     [&](auto tag) { gather<typename decltype(tag)::type>(embedding); });
}

void embedding_scatter(Cpu, const EmbeddingScatter& embedding) {
  check(embedding);
  const DType dtype = embedding.dout.dtype();
  with_floating_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (embedding.dtable.dtype() == dtype)
      scatter<T, T>(embedding);
    else
      scatter<T, Accumulator<T>>(embedding);
  });
}

}  // namespace longspan
