// Tiled attention with warp-group products, compiled only for compute capability 9.0.
#include "framework/kernels/attention/cuda/hopper/swizzled_tile.h"
#include "framework/kernels/attention/cuda/matrix_backward.h"
#include "framework/kernels/attention/cuda/matrix_forward.h"

namespace longspan::tile_attention {
namespace {

template <typename In, typename F>
void with_group_width(const AttentionCall<In>& call, const F& f) {
  if (call.dim == 64)
    f(std::integral_constant<int, 64>());
  else
    f(std::integral_constant<int, 128>());
}

}  // namespace

template <typename In>
void attend_with_warp_groups(Cuda cuda, const GroupCall<In>& group) {
  with_group_width(group.call, [&]<int dim>(std::integral_constant<int, dim>) {
    launch_forward<SwizzledTile<In, dim>, Terms::no_tables>(cuda, group);
  });
}

template <typename In>
void differentiate_with_warp_groups(Cuda cuda, const GradientCall<In>& g, const Gradients<In>& to) {
  with_group_width(g.call, [&]<int dim>(std::integral_constant<int, dim>) {
    launch_backward<SwizzledTile<In, dim>, Terms::no_tables>(cuda, g, to);
  });
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
