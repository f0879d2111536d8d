#include "framework/autograd/sequence_products.h"

#include <algorithm>

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"
#include "framework/kernels/rows.h"

namespace longspan {
namespace {

// A rank may have no rows of a short sequence.
void multiply_rows(const Matmul& product) {
  if (product.c.elements() == 0) return;
  if (product.a.elements() == 0) {
    if (!product.accumulate) product.c.zero();
    return;
  }
  dispatch_or_meta(product.a.device(), [&](auto backend) { matmul(backend, product); });
}

// Returns item n of a leading axis as a matrix [rows, remaining axes].
Tensor matrix_at(const Tensor& x, std::int64_t n) {
  const Shape& shape = x.shape();
  std::int64_t width = 1;
  for (int axis = 2; axis < shape.dimensions(); ++axis) width *= shape[axis];
  return x.slice(n, n + 1).reshape({shape[1], width});
}

// Calls f(n, range of positions, its first row) for all items and ranges.
template <typename F>
void for_pieces(std::int64_t count, const Ranges& positions, const F& f) {
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t row = 0;
    for (const Range& range : positions) {
      if (range.count() > 0) f(n, range, row);
      row += range.count();
    }
  }
}

Tensor rows(const Tensor& matrix, std::int64_t begin, const Range& range) {
  return matrix.slice(begin, begin + range.count());
}

void hide(const Tensor& x,
          const Tensor& y,
          const Ranges& positions,
          const Tensor& length,
          const Tensor& padding) {
  std::int64_t row = 0;
  for (const Range& range : positions) {
    on(x.device(), [&](auto backend) {
      mask_padding(backend,
                   {.x = x,
                    .y = y,
                    .length = length,
                    .padding = padding,
                    .begin = row,
                    .end = row + range.count(),
                    .position = range.begin});
    });
    row += range.count();
  }
}

// Moves the heads axis before time, or with `back` after it.
Tensor with_heads_moved(const Tensor& x, std::int64_t heads, bool back) {
  const Shape& shape = x.shape();
  const std::int64_t batch = back ? shape[0] / heads : shape[0];
  const std::int64_t time = shape[1], dim = shape[back ? 2 : 3];
  const Tensor result = back ? Tensor::empty({batch, time, heads, dim}, x.dtype(), x.device())
                             : Tensor::empty({batch * heads, time, dim}, x.dtype(), x.device());
  const Tensor& inside = back ? result : x;
  const Tensor& first = back ? x : result;
  on(x.device(), [&](auto backend) {
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h) {
        const Tensor row = inside.slice(b, b + 1).reshape({time, heads, dim});
        const Tensor head = first.slice(b * heads + h, b * heads + h + 1).reshape({time, 1, dim});
        if (back)
          copy_rows(backend, head, 0, row, h, 1, false);
        else
          copy_rows(backend, row, h, head, 0, 1, false);
      }
  });
  return result;
}

}  // namespace

Variable project_sequence(const Variable& x, const Variable& weight, const Ranges& positions) {
  const Shape& shape = x.shape();
  const Shape& sets = weight.shape();
  require(sets.dimensions() == 3 && total_count(positions) == shape[1] && shape[0] % sets[0] == 0,
          "project_time: {} positions and a weight {} do not match x {}",
          total_count(positions),
          sets,
          shape);
  for (const Range& range : positions)
    require(0 <= range.begin && range.end <= sets[1],
            "project_time: expected at most {} positions, found {}",
            sets[1],
            range.end);
  Tensor y = Tensor::empty(shape.with(1, sets[2]), x.value().dtype(), x.value().device());
  if (shape[1] == 0) y.zero();
  for_pieces(shape[0], positions, [&](std::int64_t n, const Range& range, std::int64_t row) {
    multiply_rows({.a = rows(matrix_at(weight.value(), n % sets[0]), range.begin, range),
                   .b = rows(matrix_at(x.value(), n), row, range),
                   .c = matrix_at(y, n),
                   .transpose_a = true,
                   .accumulate = row > 0});
  });
  return record(
      std::move(y),
      {x, weight},
      [x = x.value(), weight = weight.value(), positions](BackwardContext& gradients) {
        const Tensor& dy = gradients.output();
        if (gradients.needs_gradient(1)) {
          const Tensor dweight = gradients.accumulate_target(1);
          for_pieces(
              x.shape()[0], positions, [&](std::int64_t n, const Range& range, std::int64_t row) {
                multiply_rows(
                    {.a = rows(matrix_at(x, n), row, range),
                     .b = matrix_at(dy, n),
                     .c = rows(matrix_at(dweight, n % dweight.shape()[0]), range.begin, range),
                     .transpose_b = true,
                     .accumulate = true});
              });
        }
        if (!gradients.needs_gradient(0)) return;
        const GradientTarget dx = gradients.target(0);
        for_pieces(
            x.shape()[0], positions, [&](std::int64_t n, const Range& range, std::int64_t row) {
              multiply_rows(
                  {.a = rows(matrix_at(weight, n % weight.shape()[0]), range.begin, range),
                   .b = matrix_at(dy, n),
                   .c = rows(matrix_at(dx.tensor, n), row, range),
                   .accumulate = dx.add});
            });
      });
}

Variable batched_matmul(const Variable& a, const Variable& b, bool transpose_b) {
  const Shape& left = a.shape();
  const Shape& right = b.shape();
  const std::int64_t count = std::max(left[0], right[0]);
  require(left.dimensions() == 3 && right.dimensions() == 3 && count % left[0] == 0 &&
              count % right[0] == 0 && left[2] == right[transpose_b ? 2 : 1],
          "cannot multiply matrices {} and {}",
          left,
          right);
  Tensor y = Tensor::empty(
      {count, left[1], right[transpose_b ? 1 : 2]}, a.value().dtype(), a.value().device());
  for (std::int64_t n = 0; n < count; ++n)
    multiply_rows({.a = matrix_at(a.value(), n % left[0]),
                   .b = matrix_at(b.value(), n % right[0]),
                   .c = matrix_at(y, n),
                   .transpose_b = transpose_b});
  return record(
      std::move(y),
      {a, b},
      [a = a.value(), b = b.value(), count, transpose_b](BackwardContext& gradients) {
        const Tensor& dy = gradients.output();
        const std::int64_t lefts = a.shape()[0], rights = b.shape()[0];
        // Sums the gradients of a matrix used in several products.
        if (gradients.needs_gradient(0)) {
          const GradientTarget da = gradients.target(0);
          for (std::int64_t n = 0; n < count; ++n)
            multiply_rows({.a = matrix_at(dy, n),
                           .b = matrix_at(b, n % rights),
                           .c = matrix_at(da.tensor, n % lefts),
                           .transpose_b = !transpose_b,
                           .accumulate = da.add || n >= lefts});
        }
        if (!gradients.needs_gradient(1)) return;
        const GradientTarget db = gradients.target(1);
        for (std::int64_t n = 0; n < count; ++n)
          multiply_rows({.a = matrix_at(transpose_b ? dy : a, n % (transpose_b ? count : lefts)),
                         .b = matrix_at(transpose_b ? a : dy, n % (transpose_b ? lefts : count)),
                         .c = matrix_at(db.tensor, n % rights),
                         .transpose_a = true,
                         .accumulate = db.add || n >= rights});
      });
}

Variable mask_padding(const Variable& x,
                      const Ranges& positions,
                      const Tensor& length,
                      const Tensor& padding) {
  if (!length.defined() && !padding.defined()) return x;
  require(total_count(positions) == x.shape()[1],
          "hide_rows: {} positions do not match x {}",
          total_count(positions),
          x.shape());
  Tensor y = x.value().empty_like();
  hide(x.value(), y, positions, length, padding);
  return record(std::move(y), {x}, [positions, length, padding](BackwardContext& gradients) {
    const Tensor dx = gradients.release_output();
    hide(dx, dx, positions, length, padding);
    gradients.set(0, dx);
  });
}

Variable slice_sequence(const Variable& x, std::int64_t begin, std::int64_t count) {
  const Shape& shape = x.shape();
  if (count == shape[1]) return x;
  std::int64_t width = 1;
  for (int axis = 2; axis < shape.dimensions(); ++axis) width *= shape[axis];
  const auto flat = [width](const Tensor& tensor) {
    return tensor.reshape({tensor.shape()[0], tensor.shape()[1], width});
  };
  Tensor y = Tensor::empty(shape.with(1, count), x.value().dtype(), x.value().device());
  on(y.device(),
     [&](auto backend) { copy_rows(backend, flat(x.value()), begin, flat(y), 0, count, false); });
  return record(std::move(y), {x}, [flat, begin, count](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor dx = gradients.accumulate_target(0);
    on(dy.device(),
       [&](auto backend) { copy_rows(backend, flat(dy), 0, flat(dx), begin, count, true); });
  });
}

Variable to_heads_first(const Variable& x) {
  const std::int64_t heads = x.shape()[2];
  return record(
      with_heads_moved(x.value(), heads, false), {x}, [heads](BackwardContext& gradients) {
        gradients.set(0, with_heads_moved(gradients.output(), heads, true));
      });
}

Variable to_heads_inner(const Variable& x, std::int64_t heads) {
  return record(with_heads_moved(x.value(), heads, true), {x}, [heads](BackwardContext& gradients) {
    gradients.set(0, with_heads_moved(gradients.output(), heads, false));
  });
}

}  // namespace longspan
