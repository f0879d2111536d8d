#include "framework/autograd/chunk_state.h"

#include "framework/autograd/dtypes.h"
#include "framework/autograd/ring_attention.h"
#include "framework/core/dispatch.h"
#include "framework/core/error.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// Adds rows of `from` to rows of `to`, which may have another dtype.
void add_rows(const Tensor& from,
              std::int64_t from_begin,
              const Tensor& to,
              std::int64_t to_begin,
              std::int64_t count) {
  if (count == 0) return;
  for (std::int64_t i = 0; i < from.shape()[0]; ++i)
    on(to.device(), [&](auto backend) {
      accumulate(backend,
                 1.0,
                 rows_of(from, i, from_begin, from_begin + count),
                 rows_of(to, i, to_begin, to_begin + count));
    });
}

Tensor copy_of(const Tensor& x, std::int64_t begin, std::int64_t count, MemoryTag tag) {
  const Tensor result = Tensor::empty(x.shape().with(1, count), x.dtype(), x.device(), tag);
  if (count > 0) move_rows(x, begin, result, 0, count);
  return result;
}

// Returns rows of x: a view of a single sequence, a copy of several.
Tensor narrow(const Tensor& x, std::int64_t begin, std::int64_t count) {
  if (x.shape()[0] > 1) return copy_of(x, begin, count, MemoryTag::activations);
  return rows_of(x, 0, begin, begin + count).reshape(x.shape().with(1, count));
}

}  // namespace

Variable append_to_state(const Variable& x, const ChunkBoundaries& ends, std::int64_t retained) {
  const Tensor before = ends.initial();
  const std::int64_t rows = before.defined() ? before.shape()[1] : 0;
  const std::int64_t time = x.shape()[1];
  require(retained >= 0 && retained <= rows + time,
          "chunk state: expected at most {} retained rows, found {}",
          rows + time,
          retained);
  Tensor all = x.value();
  if (rows > 0) {
    all = Tensor::empty(x.shape().with(1, rows + time), before.dtype(), before.device());
    move_rows(before, 0, all, 0, rows);
    move_rows(x.value(), 0, all, rows, time);
  }
  if (ends.needs_final())
    ends.after->value = copy_of(all, rows + time - retained, retained, MemoryTag::recurrent_state);
  const DType dtype = all.dtype();
  return record(std::move(all), {x}, [=](BackwardContext& gradients) {
    const Tensor final_gradient = ends.final_gradient();
    if (rows == 0 && !final_gradient.defined()) {
      gradients.set(0, gradients.output());
      return;
    }
    const Tensor total = to_dtype(gradients.release_output(), accumulator_of(dtype));
    if (final_gradient.defined())
      add_rows(final_gradient, 0, total, rows + time - retained, retained);
    if (rows > 0 && ends.needs_initial_gradient())
      ends.before->gradient = copy_of(total, 0, rows, MemoryTag::recurrent_state);
    gradients.set(0, to_dtype(narrow(total, rows, time), dtype));
  });
}

Variable append_to_rows(const Variable& x,
                        const std::shared_ptr<SequenceRows>& all,
                        std::int64_t first) {
  const std::int64_t time = x.shape()[1];
  require(first >= 0 && first + time <= all->value.shape()[1],
          "chunk state: rows [{}, {}) are out of range ({} rows)",
          first,
          first + time,
          all->value.shape()[1]);
  if (time > 0) move_rows(x.value(), 0, all->value, first, time);
  Tensor seen = narrow(all->value, 0, first + time);
  return record(std::move(seen), {x}, [=](BackwardContext& gradients) {
    const DType dtype = all->value.dtype();
    if (!all->gradient.defined())
      all->gradient = Tensor::zeros(all->value.shape(),
                                    accumulator_of(dtype),
                                    all->value.device(),
                                    MemoryTag::recurrent_state);
    add_rows(gradients.output(), 0, all->gradient, 0, first + time);
    gradients.set(0, to_dtype(narrow(all->gradient, first, time), dtype));
  });
}

}  // namespace longspan
