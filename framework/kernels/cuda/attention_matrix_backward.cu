// The backward pass on matrix units, by warps.
#include "framework/kernels/cuda/attention_matrix_backward.h"

namespace longspan::tile_attention {

template <typename In>
void differentiate_with_matrices(Cuda cuda,
                                 const GradientCall<In>& g,
                                 const Either<In>& dquery,
                                 const Either<In>& dkey,
                                 const Either<In>& dvalue,
                                 const BackwardParts<float>& parts) {
  if (takes_warp_groups(cuda, g.call))
    return differentiate_with_warp_groups(cuda, g, dquery, dkey, dvalue, parts);
  with_matrix_width(g.call, [&]<int dim>(std::integral_constant<int, dim>) {
    launch_backward<PaddedTile<In, dim>, Terms::any>(cuda, g, dquery, dkey, dvalue, parts);
  });
}

template void differentiate_with_matrices(Cuda,
                                          const GradientCall<BFloat16>&,
                                          const Either<BFloat16>&,
                                          const Either<BFloat16>&,
                                          const Either<BFloat16>&,
                                          const BackwardParts<float>&);
template void differentiate_with_matrices(Cuda,
                                          const GradientCall<Float16>&,
                                          const Either<Float16>&,
                                          const Either<Float16>&,
                                          const Either<Float16>&,
                                          const BackwardParts<float>&);

}  // namespace longspan::tile_attention
