#include "framework/nn/recurrent_state.h"

namespace longspan {

RecurrentStateSpec recurrent_state_spec(const ProcessMesh& mesh,
                                        const std::string& name,
                                        const Shape& shape,
                                        DType dtype,
                                        StateSplit split,
                                        int axis) {
  const bool by_tensor = split != StateSplit::none;
  const bool by_context = split == StateSplit::tensor_and_context;
  const int context = by_context ? mesh.context.size() : 1;
  const int rank =
      (by_tensor ? mesh.tensor.rank() * context : 0) + (by_context ? mesh.context.rank() : 0);
  return {.name = name,
          .shape = shape,
          .dtype = dtype,
          .axis = axis,
          .part = shard_range(shape[axis], rank, by_tensor ? mesh.tensor.size() * context : 1),
          .is_primary_owner =
              (by_tensor || mesh.tensor.rank() == 0) && (by_context || mesh.context.rank() == 0)};
}

}  // namespace longspan
