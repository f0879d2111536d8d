// Forward pass on matrix units with warp products.
#include <cstdlib>
#include <string_view>

#include "framework/kernels/attention/cuda/matrix_forward.h"

namespace longspan::tile_attention {

bool warpgroups_requested(Cuda cuda) {
  static const bool asked_for = [] {
    const char* const value = std::getenv("LONGSPAN_HOPPER_WGMMA");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return asked_for && !cuda.state->is_meta() && is_hopper(cuda);
}

template <typename In>
void attend_with_matrices(Cuda cuda, const GroupCall<In>& group) {
  if (uses_warpgroups(cuda, group.call)) return attend_with_warp_groups(cuda, group);
  with_matrix_width(group.call, [&]<int dim>(std::integral_constant<int, dim>) {
    launch_forward<PaddedTile<In, dim>, Terms::any>(cuda, group);
  });
}

template void attend_with_matrices(Cuda, const GroupCall<BFloat16>&);
template void attend_with_matrices(Cuda, const GroupCall<Float16>&);

}  // namespace longspan::tile_attention
