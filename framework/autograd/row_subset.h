// Computes only some rows of an activation: gathers the rows, and scatters the results.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// Subset of `whole` rows. Both tensors are i64 on the device of the activation.
struct RowSubset {
  Tensor which;  // [n]: distinct row indices; -1: an additional row of zeros
  Tensor where;  // [whole]: index of a row among the n, or -1
};

// Returns the rows of x [..., width], which has `whole` rows, as [1, n, width].
Variable gather_rows(const Variable& x, const RowSubset& rows);

// Scatters y [1, n, width] into `shape`, whose last axis is that of y. Other rows are zeros.
Variable scatter_rows(const Variable& y, const RowSubset& rows, const Shape& shape);

}  // namespace longspan
