#include "framework/kernels/shared/optimizer.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void adam_update(Cpu cpu, const AdamUpdate& update) { adam_update_on(cpu, update); }

void sgd_update(Cpu cpu, const SgdUpdate& update) { sgd_update_on(cpu, update); }

}  // namespace longspan
