#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/sinusoids.h"

namespace longspan {

void fill_sinusoids(Cuda cuda, const Sinusoids& sinusoids) { fill_sinusoids_on(cuda, sinusoids); }

}  // namespace longspan
