#include "framework/kernels/shared/repeat_kv.h"

#include "framework/kernels/cpu/each_place.h"

namespace longspan {

void repeat_kv(Cpu cpu, const Tensor& x, const Tensor& y) { repeat_heads_on(cpu, x, y); }
void sum_grouped_heads(Cpu cpu, const Tensor& dy, const Tensor& dx, bool add) {
  sum_heads_on(cpu, dy, dx, add);
}

}  // namespace longspan
