#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/optimizer.h"

namespace longspan {

void adam_update(Cuda cuda, const AdamUpdate& update) { adam_update_on(cuda, update); }

void sgd_update(Cuda cuda, const SgdUpdate& update) { sgd_update_on(cuda, update); }

}  // namespace longspan
