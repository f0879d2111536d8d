#include "framework/kernels/cuda/each_place.h"
#include "framework/kernels/shared/repeat_kv.h"

namespace longspan {

void repeat_kv(Cuda cuda, const Tensor& x, const Tensor& y) { repeat_heads_on(cuda, x, y); }
void sum_grouped_heads(Cuda cuda, const Tensor& dy, const Tensor& dx, bool add) {
  sum_heads_on(cuda, dy, dx, add);
}

}  // namespace longspan
