#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/hide_rows.h"

namespace longspan {

void hide_rows(Cuda cuda, const HideRows& hide) { hide_rows_on(cuda, hide); }

}  // namespace longspan
