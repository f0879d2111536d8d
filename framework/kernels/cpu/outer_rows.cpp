#include "framework/kernels/shared/outer_rows.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void outer_rows(Cpu cpu, const OuterRows& outer) { outer_rows_on(cpu, outer); }

void outer_rows_backward(Cpu cpu, const OuterRowsGradient& outer) {
  outer_rows_backward_on(cpu, outer);
}

}  // namespace longspan
