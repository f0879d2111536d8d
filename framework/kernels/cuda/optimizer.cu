#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/optimizer.h"

namespace longspan {

void adam_update(Cuda cuda, const AdamUpdate& update) { adam_update_on(cuda, update); }

void sgd_update(Cuda cuda, const SgdUpdate& update) { sgd_update_on(cuda, update); }

void lion_update(Cuda cuda, const LionUpdate& update) { lion_update_on(cuda, update); }

void adagrad_update(Cuda cuda, const AdagradUpdate& update) { adagrad_update_on(cuda, update); }

void schedule_free_update(Cuda cuda, const ScheduleFreeUpdate& update) {
  schedule_free_update_on(cuda, update);
}

void interpolate(Cuda cuda, double share, const Tensor& a, const Tensor& b, const Tensor& out) {
  interpolate_on(cuda, share, a, b, out);
}

}  // namespace longspan
