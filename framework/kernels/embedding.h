// Embedding lookup (gather) and its gradient, a deterministic scatter.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// out[i] = scale * table[ids[i] - begin]. The output is zero when the id lies outside [begin, begin
// + table rows); the rank that owns that row adds it. ids: [n] i64. table: [rows, width]. out: [n,
// width], the table's dtype, overwritten.
struct EmbeddingGather {
  Tensor table;
  Tensor ids;
  std::int64_t begin = 0;
  double scale = 1;
  Tensor out;
};
void embedding_gather(Cpu, const EmbeddingGather&);
void embedding_gather(Cuda, const EmbeddingGather&);

// dtable[ids[i] - begin] += scale * dout[i] for ids in range. The summation order of each row
// depends only on the ids. dout: [n, width]; dtable: [rows, width] in dout's dtype or its
// accumulator dtype.
struct EmbeddingScatter {
  Tensor dout;
  Tensor ids;
  std::int64_t begin = 0;
  double scale = 1;
  Tensor dtable;
};
void embedding_scatter(Cpu, const EmbeddingScatter&);
void embedding_scatter(Cuda, const EmbeddingScatter&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const EmbeddingGather&);
void check(const EmbeddingScatter&);

}  // namespace longspan
