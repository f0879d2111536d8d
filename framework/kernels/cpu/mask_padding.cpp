#include "framework/kernels/shared/mask_padding.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void mask_padding(Cpu cpu, const MaskPadding& hide) { hide_rows_on(cpu, hide); }

}  // namespace longspan
