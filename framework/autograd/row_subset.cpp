#include "framework/autograd/row_subset.h"

#include "framework/autograd/matrix.h"
#include "framework/kernels/embedding.h"

namespace longspan {
namespace {

// Row i of the result is row from[i] of x, or zeros. `back`: the inverse map, for the gradient.
Variable moved(const Variable& x, const Tensor& from, const Tensor& back, const Shape& shape) {
  const auto move = [](const Tensor& rows, const Tensor& ids, const Shape& of) {
    Tensor result = Tensor::empty(of, rows.dtype(), rows.device());
    on(rows.device(), [&](auto backend) {
      embedding_gather(backend, {.table = matrix(rows), .ids = ids, .out = matrix(result)});
    });
    return result;
  };
  return record(
      move(x.value(), from, shape), {x}, [move, back, of = x.shape()](BackwardContext& gradients) {
        gradients.set(0, move(gradients.output(), back, of));
      });
}

}  // namespace

Variable gather_rows(const Variable& x, const RowSubset& rows) {
  require(x.shape().rows() == rows.where.elements(),
          "row subset: expected {} rows, found shape {}",
          rows.where.elements(),
          x.shape());
  return moved(x, rows.which, rows.where, {1, rows.which.elements(), x.shape().width()});
}

Variable scatter_rows(const Variable& y, const RowSubset& rows, const Shape& shape) {
  require(shape.rows() == rows.where.elements() && y.shape().rows() == rows.which.elements() &&
              shape.width() == y.shape().width(),
          "row subset: cannot write {} of {} rows of shape {} into shape {}",
          rows.which.elements(),
          rows.where.elements(),
          y.shape(),
          shape);
  return moved(y, rows.where, rows.which, shape);
}

}  // namespace longspan
