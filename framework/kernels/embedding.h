// Embedding tables: gather, and the deterministic scatter that is its gradient.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// out[i] = scale * table[ids[i] - begin], or zeros when the id lies outside [begin, begin + table
// rows): the rank that owns it adds its row. ids: [n] i64. table: [rows, width]. out: [n, width],
// the table's dtype, written.
struct EmbeddingGather {
  Tensor table;
  Tensor ids;
  std::int64_t begin = 0;
  double scale = 1;
  Tensor out;
};
void embedding_gather(Cpu, const EmbeddingGather&);
void embedding_gather(Cuda, const EmbeddingGather&);

// dtable[ids[i] - begin] += scale * dout[i] for ids in range, each row's sum in an order that
// depends on the ids alone. dout: [n, width]; dtable: [rows, width] in dout's dtype or its
// accumulator's.
struct EmbeddingScatter {
  Tensor dout;
  Tensor ids;
  std::int64_t begin = 0;
  double scale = 1;
  Tensor dtable;
};
void embedding_scatter(Cpu, const EmbeddingScatter&);
void embedding_scatter(Cuda, const EmbeddingScatter&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const EmbeddingGather&);
void check(const EmbeddingScatter&);

}  // namespace longspan
