#include "framework/kernels/shared/hide_rows.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void hide_rows(Cpu cpu, const HideRows& hide) { hide_rows_on(cpu, hide); }

}  // namespace longspan
