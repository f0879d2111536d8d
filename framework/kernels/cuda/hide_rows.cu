#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/hide_rows.h"

namespace longspan {

void mask_padding(Cuda cuda, const MaskPadding& hide) { hide_rows_on(cuda, hide); }

}  // namespace longspan
