#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/cuda/sort.h"
#include "framework/kernels/element.h"
#include "framework/kernels/embedding.h"

namespace longspan {
namespace {

template <typename T>
struct GatherElement {
  using A = Accumulator<T>;
  std::int64_t width, rows, begin;
  A scale;
  const T* table;
  const std::int64_t* ids;
  T* out;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t row = ids[i / width] - begin;
    put(out[i], row < 0 || row >= rows ? A{0} : scale * wide(table[row * width + i % width]));
  }
};

// Maps each id to its row; ids outside the table share the row after its last.
struct RowOfId {
  std::int64_t rows, begin;
  const std::int64_t* ids;
  std::int32_t* row_of;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t row = ids[i] - begin;
    row_of[i] = static_cast<std::int32_t>(row < 0 || row >= rows ? rows : row);
  }
};

// Sorted ids are split into pieces of this length. A run of one row within a piece is summed there.
// If a run spans several pieces, each piece saves its part, and the piece where the run begins adds
// the parts. A frequent id is thus summed in parallel, always in the same order.
constexpr std::int64_t piece_length = 64;

struct Sorted {
  std::int64_t count;
  std::int32_t rows;
  const std::int32_t* row;    // ascending
  const std::int32_t* place;  // index of the id and of its gradient row

  __device__ std::int64_t end_of(std::int64_t piece) const {
    const std::int64_t end = (piece + 1) * piece_length;
    return end < count ? end : count;
  }
  // Whether the run of row r began before a piece, or continues after it.
  __device__ bool begun_before(std::int64_t piece, std::int32_t r) const {
    const std::int64_t begin = piece * piece_length;
    return begin > 0 && row[begin - 1] == r;
  }
  __device__ bool continues_after(std::int64_t piece, std::int32_t r) const {
    const std::int64_t end = end_of(piece);
    return end < count && row[end] == r;
  }
};

// One column of one piece: i counts columns within pieces.
template <typename T, typename D>
struct SumPiece {
  using A = Accumulator<T>;
  Sorted sorted;
  std::int64_t width;
  A scale;
  const T* dout;
  D* table;
  A* heads;  // [pieces, width]: sums of the run that began in an earlier piece
  A* tails;  // sums of the run that begins here and continues

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t piece = i / width, column = i % width;
    const std::int64_t end = sorted.end_of(piece);
    A sum = 0;
    for (std::int64_t p = piece * piece_length; p < end; ++p) {
      const std::int32_t row = sorted.row[p];
      if (row == sorted.rows) return;  // the remaining ids lie outside the table
      sum += scale * wide(dout[std::int64_t{sorted.place[p]} * width + column]);
      if (p + 1 < end && sorted.row[p + 1] == row) continue;
      if (sorted.begun_before(piece, row)) {
        heads[i] = sum;
      } else if (p + 1 == end && sorted.continues_after(piece, row)) {
        tails[i] = sum;
      } else {
        D& to = table[row * width + column];
        put(to, static_cast<A>(wide(to)) + sum);
      }
      sum = 0;
    }
  }
};

template <typename A, typename D>
struct JoinPieces {
  Sorted sorted;
  std::int64_t width;
  D* table;
  const A* heads;
  const A* tails;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t first = i / width, column = i % width;
    const std::int32_t row = sorted.row[sorted.end_of(first) - 1];
    if (row == sorted.rows || sorted.begun_before(first, row) ||
        !sorted.continues_after(first, row))
      return;
    A sum = tails[i];
    std::int64_t piece = first;
    do {
      ++piece;
      sum += heads[piece * width + column];
    } while (sorted.continues_after(piece, row));
    D& to = table[row * width + column];
    put(to, static_cast<A>(wide(to)) + sum);
  }
};

template <typename T, typename D>
void scatter(Cuda cuda, const EmbeddingScatter& embedding) {
  using A = Accumulator<T>;
  const std::int64_t count = embedding.ids.elements();
  const std::int64_t rows = embedding.dtable.shape()[0], width = embedding.dtable.shape()[1];
  const Device& device = embedding.dtable.device();
  const auto numbers = [&] {
    return Tensor::empty({count}, DType::i32, device, MemoryTag::workspace);
  };
  const Tensor row_of = numbers(), sorted_rows = numbers(), places = numbers();
  for_each_element(
      cuda,
      count,
      RowOfId{
          rows, embedding.begin, embedding.ids.data<std::int64_t>(), row_of.data<std::int32_t>()});
  sort_stably(cuda, row_of, sorted_rows, places);
  const Sorted sorted = {count,
                         static_cast<std::int32_t>(rows),
                         sorted_rows.data<std::int32_t>(),
                         places.data<std::int32_t>()};
  const std::int64_t pieces = (count + piece_length - 1) / piece_length;
  const Tensor parts =
      Tensor::empty({2, pieces, width}, DTypeOf<A>::value, device, MemoryTag::workspace);
  A *heads = parts.data<A>(), *tails = heads + pieces * width;
  D* const table = embedding.dtable.data<D>();
  for_each_element(cuda,
                   pieces * width,
                   SumPiece<T, D>{sorted,
                                  width,
                                  static_cast<A>(embedding.scale),
                                  embedding.dout.data<T>(),
                                  table,
                                  heads,
                                  tails});
  for_each_element(cuda, pieces * width, JoinPieces<A, D>{sorted, width, table, heads, tails});
}

}  // namespace

void embedding_gather(Cuda cuda, const EmbeddingGather& embedding) {
  check(embedding);
  const Shape& table = embedding.table.shape();
  with_floating_type(embedding.table.dtype(), [&]<typename T>(TypeTag<T>) {
    for_each_element(cuda,
                     embedding.out.elements(),
                     GatherElement<T>{table[1],
                                      table[0],
                                      embedding.begin,
                                      static_cast<Accumulator<T>>(embedding.scale),
                                      embedding.table.data<T>(),
                                      embedding.ids.data<std::int64_t>(),
                                      embedding.out.data<T>()});
  });
}

void embedding_scatter(Cuda cuda, const EmbeddingScatter& embedding) {
  check(embedding);
  const DType dtype = embedding.dout.dtype();
  require(embedding.ids.elements() < std::int64_t{1} << 31 &&
              embedding.dtable.shape()[0] < (std::int64_t{1} << 31) - 1,
          "embedding_scatter: expected at most 2^31 - 2 ids and rows, found {} and {}",
          embedding.ids.elements(),
          embedding.dtable.shape()[0]);
  with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
    if (embedding.dtable.dtype() == dtype)
      scatter<T, T>(cuda, embedding);
    else
      scatter<T, Accumulator<T>>(cuda, embedding);
  });
}

}  // namespace longspan
