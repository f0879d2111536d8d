#include "framework/kernels/shared/sinusoids.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void fill_sinusoids(Cpu cpu, const Sinusoids& sinusoids) { fill_sinusoids_on(cpu, sinusoids); }

}  // namespace longspan
