#include "framework/kernels/shared/optimizer.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void adam_update(Cpu cpu, const AdamUpdate& update) { adam_update_on(cpu, update); }

void sgd_update(Cpu cpu, const SgdUpdate& update) { sgd_update_on(cpu, update); }

void lion_update(Cpu cpu, const LionUpdate& update) { lion_update_on(cpu, update); }

void adagrad_update(Cpu cpu, const AdagradUpdate& update) { adagrad_update_on(cpu, update); }

void schedule_free_update(Cpu cpu, const ScheduleFreeUpdate& update) {
  schedule_free_update_on(cpu, update);
}

void interpolate(Cpu cpu, double share, const Tensor& a, const Tensor& b, const Tensor& out) {
  interpolate_on(cpu, share, a, b, out);
}

}  // namespace longspan
