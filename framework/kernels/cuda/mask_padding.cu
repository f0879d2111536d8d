#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/mask_padding.h"

namespace longspan {

void mask_padding(Cuda cuda, const MaskPadding& hide) { hide_rows_on(cuda, hide); }

}  // namespace longspan
