// The backward pass on matrix units, by warps: blocks as in backward.cu, each with all features of
// its rows, 16 rows a warp (matrix_backward.h).
//
//   by key tile     K x Q'    -> P'  -> dV += P' dout
//                   V x dout' -> dS' -> dK += dS' Q     and dS is kept where a table wants it
//   by query tile   the same, or the dS that was kept   -> dQ += dS K
//
// ' is a tile that lies transposed: what comes out of one product goes into the next in registers.
#include "framework/kernels/attention/cuda/matrix_backward.h"

namespace longspan::tile_attention {

template <typename In>
void differentiate_with_matrices(Cuda cuda, const GradientCall<In>& g, const Gradients<In>& to) {
  if (takes_warp_groups(cuda, g.call)) return differentiate_with_warp_groups(cuda, g, to);
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
