#include "framework/kernels/embedding.h"

namespace longspan {
namespace {

// Checks ids [n], rows of [n, width] and a table [.., width].
void require_embedding(const char* kernel,
                       const Tensor& ids,
                       const Tensor& rows,
                       const Tensor& table) {
  require(table.shape().dimensions() == 2,
          "{}: expected a table [rows, width], found {}",
          kernel,
          table.shape().to_string());
  require(ids.dtype() == DType::i64 && rows.elements() == ids.elements() * table.shape()[1] &&
              (ids.elements() == 0 || rows.shape().width() == table.shape()[1]),
          "{}: expected ids i64 [n], rows [n, width] and a table [rows, width], found {} {}, {} {} "
          "and {} {}",
          kernel,
          name_of(ids.dtype()),
          ids.shape().to_string(),
          name_of(rows.dtype()),
          rows.shape().to_string(),
          name_of(table.dtype()),
          table.shape().to_string());
}

}  // namespace

void check(const EmbeddingGather& embedding) {
  require_embedding("embedding_gather", embedding.ids, embedding.out, embedding.table);
  require(embedding.out.dtype() == embedding.table.dtype(),
          "embedding_gather: expected out and table of one dtype, found {} and {}",
          name_of(embedding.out.dtype()),
          name_of(embedding.table.dtype()));
}

void check(const EmbeddingScatter& embedding) {
  require_embedding("embedding_scatter", embedding.ids, embedding.dout, embedding.dtable);
  const DType dtype = embedding.dout.dtype();
  require(embedding.dtable.dtype() == dtype || embedding.dtable.dtype() == accumulator_of(dtype),
          "embedding_scatter: expected dtable of {} or its accumulator, found {}",
          name_of(dtype),
          name_of(embedding.dtable.dtype()));
}

}  // namespace longspan
