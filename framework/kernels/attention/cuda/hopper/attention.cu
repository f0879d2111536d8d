// Tiled attention with warp-group products, compiled only for compute capability 9.0.
#include "framework/kernels/attention/cuda/hopper/swizzled_tile.h"
#include "framework/kernels/attention/cuda/matrix_backward.h"
#include "framework/kernels/attention/cuda/matrix_forward.h"

namespace longspan::tile_attention {
template <typename In>
void attend_with_warp_groups(Cuda cuda, const GroupCall<In>& group) {
  with_width<64>(
      group.call.dim,
      [&]<int dim>(std::integral_constant<int, dim>) {
        launch_forward<SwizzledTile<In, dim>, Terms::no_tables>(cuda, group);
      },
      MatrixWidths());
}

template <typename In>
void differentiate_with_warp_groups(Cuda cuda, const GradientCall<In>& g, const Gradients<In>& to) {
  with_width<64>(
      g.call.dim,
      [&]<int dim>(std::integral_constant<int, dim>) {
        launch_backward<SwizzledTile<In, dim>, Terms::no_tables>(cuda, g, to);
      },
      MatrixWidths());
}

template void attend_with_warp_groups(Cuda, const GroupCall<BFloat16>&);
template void attend_with_warp_groups(Cuda, const GroupCall<Float16>&);
template void differentiate_with_warp_groups(Cuda,
                                             const GradientCall<BFloat16>&,
                                             const Gradients<BFloat16>&);
template void differentiate_with_warp_groups(Cuda,
                                             const GradientCall<Float16>&,
                                             const Gradients<Float16>&);

}  // namespace longspan::tile_attention
