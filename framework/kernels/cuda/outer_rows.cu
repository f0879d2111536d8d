#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/outer_rows.h"

namespace longspan {

void outer_rows(Cuda cuda, const OuterRows& outer) { outer_rows_on(cuda, outer); }

void outer_rows_backward(Cuda cuda, const OuterRowsGradient& outer) {
  outer_rows_backward_on(cuda, outer);
}

}  // namespace longspan
