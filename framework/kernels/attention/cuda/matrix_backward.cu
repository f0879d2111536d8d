// Backward pass on matrix units with warp products.
#include "framework/kernels/attention/cuda/matrix_backward.h"

namespace longspan::tile_attention {

template <typename In>
void differentiate_with_matrices(Cuda cuda, const GradientCall<In>& g, const Gradients<In>& to) {
  if (uses_warpgroups(cuda, g.call)) return differentiate_with_warp_groups(cuda, g, to);
  with_matrix_width(g.call, [&]<int dim>(std::integral_constant<int, dim>) {
    launch_backward<PaddedTile<In, dim>, Terms::any>(cuda, g, to);
  });
}

template void differentiate_with_matrices(Cuda,
                                          const GradientCall<BFloat16>&,
                                          const Gradients<BFloat16>&);
template void differentiate_with_matrices(Cuda,
                                          const GradientCall<Float16>&,
                                          const Gradients<Float16>&);

}  // namespace longspan::tile_attention
