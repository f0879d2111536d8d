// The forward pass on matrix units, by warps.
#include <cstdlib>
#include <string_view>

#include "framework/kernels/cuda/attention_matrix_forward.h"

namespace longspan::tile_attention {

bool warp_groups_are_wanted(Cuda cuda) {
  static const bool asked_for = [] {
    const char* const value = std::getenv("LONGSPAN_WARP_GROUPS");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return asked_for && !cuda.state->dry() && is_hopper(cuda);
}

template <typename In>
void attend_with_matrices(Cuda cuda,
                          const AttentionCall<In>& call,
                          const PlanView& plan,
                          std::int64_t head_begin,
                          std::int64_t heads) {
  if (takes_warp_groups(cuda, call))
    return attend_with_warp_groups(cuda, call, plan, head_begin, heads);
  with_matrix_width(call, [&]<int dim>(std::integral_constant<int, dim>) {
    launch_forward<PaddedTile<In, dim>, Terms::any>(cuda, call, plan, head_begin, heads);
  });
}

template void attend_with_matrices(
    Cuda, const AttentionCall<BFloat16>&, const PlanView&, std::int64_t, std::int64_t);
template void attend_with_matrices(
    Cuda, const AttentionCall<Float16>&, const PlanView&, std::int64_t, std::int64_t);

}  // namespace longspan::tile_attention
