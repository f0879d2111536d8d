#include "framework/kernels/embedding.h"

namespace longspan {
namespace {

// Checks ids [n], rows of [n, width] and a table [.., width].
void require_embedding(const char* kernel,
                       const Tensor& ids,
                       const Tensor& rows,
                       const Tensor& table) {
  require(table.shape().dimensions() == 2,
          "{}: the table has shape {}, wanted [rows, width]",
          kernel,
          table.shape().to_string());
  require(ids.dtype() == DType::i64 && rows.elements() == ids.elements() * table.shape()[1] &&
              (ids.elements() == 0 || rows.shape().width() == table.shape()[1]),
          "{}: ids are {} {}, the rows {} {} and the table {} {}, wanted i64 [n], [n, width] and "
          "[rows, width]",
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
          "embedding_gather: out is {}, the table {}",
          name_of(embedding.out.dtype()),
          name_of(embedding.table.dtype()));
}

void check(const EmbeddingScatter& embedding) {
  require_embedding("embedding_scatter", embedding.ids, embedding.dout, embedding.dtable);
  const DType dtype = embedding.dout.dtype();
  require(embedding.dtable.dtype() == dtype || embedding.dtable.dtype() == accumulator_of(dtype),
          "embedding_scatter: dtable is {}, wanted {} or its accumulator",
          name_of(embedding.dtable.dtype()),
          name_of(dtype));
}

}  // namespace longspan
