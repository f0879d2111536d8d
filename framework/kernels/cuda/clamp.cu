#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/clamp.h"

namespace longspan {

void clamp(Cuda cuda, const Tensor& x, double least, double most) {
  clamp_on(cuda, x, least, most);
}

}  // namespace longspan
