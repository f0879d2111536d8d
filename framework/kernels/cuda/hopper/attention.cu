// Tile attention by groups of warps: compiled for compute capability 9.0 alone.
#include "framework/kernels/cuda/attention_matrix_backward.h"
#include "framework/kernels/cuda/attention_matrix_forward.h"
#include "framework/kernels/cuda/hopper/swizzled_tile.h"

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
void attend_with_warp_groups(Cuda cuda,
                             const AttentionCall<In>& call,
                             const PlanView& plan,
                             std::int64_t head_begin,
                             std::int64_t heads) {
  with_group_width(call, [&]<int dim>(std::integral_constant<int, dim>) {
    launch_forward<SwizzledTile<In, dim>, Terms::no_tables>(cuda, call, plan, head_begin, heads);
  });
}

template <typename In>
void differentiate_with_warp_groups(Cuda cuda,
                                    const GradientCall<In>& g,
                                    const Either<In>& dquery,
                                    const Either<In>& dkey,
                                    const Either<In>& dvalue,
                                    const BackwardParts<float>& parts) {
  with_group_width(g.call, [&]<int dim>(std::integral_constant<int, dim>) {
    launch_backward<SwizzledTile<In, dim>, Terms::no_tables>(cuda, g, dquery, dkey, dvalue, parts);
  });
}

template void attend_with_warp_groups(
    Cuda, const AttentionCall<BFloat16>&, const PlanView&, std::int64_t, std::int64_t);
template void attend_with_warp_groups(
    Cuda, const AttentionCall<Float16>&, const PlanView&, std::int64_t, std::int64_t);
template void differentiate_with_warp_groups(Cuda,
                                             const GradientCall<BFloat16>&,
                                             const Either<BFloat16>&,
                                             const Either<BFloat16>&,
                                             const Either<BFloat16>&,
                                             const BackwardParts<float>&);
template void differentiate_with_warp_groups(Cuda,
                                             const GradientCall<Float16>&,
                                             const Either<Float16>&,
                                             const Either<Float16>&,
                                             const Either<Float16>&,
                                             const BackwardParts<float>&);

}  // namespace longspan::tile_attention
