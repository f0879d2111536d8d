// Which attention is for matrix units, and what starts its kernels.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>

#include "framework/kernels/attention/cuda/backward_tile.h"
#include "framework/kernels/cuda/launch.h"

namespace longspan::tile_attention {

// Whether a call is for matrix units: in bf16 or f16, with heads of 32, 64, 96 or 128 features, and
// without products of keys with distances, given scores and capped ones, which only the kernels for
// any width have. The backward pass has gradients that must be aligned too.
template <typename In>
bool takes_matrix_units(const AttentionCall<In>& call,
                        std::initializer_list<const void*> gradients = {}) {
  const auto aligned = [](const void* rows) {
    return reinterpret_cast<std::uintptr_t>(rows) % 16 == 0;
  };
  return sizeof(In) == 2 && !call.keys_by_distance && !call.given.any() && call.cap == 0 &&
         call.dim == call.value_dim && call.dim > 0 && call.dim % 32 == 0 && call.dim <= 128 &&
         aligned(call.query) && aligned(call.key) && aligned(call.value) && aligned(call.out) &&
         aligned(call.key_table.lowest) && aligned(call.value_table.lowest) &&
         std::ranges::all_of(gradients, aligned);
}

// Calls f(integral constant) with the head width of a call that takes them.
template <typename In, typename F>
void with_matrix_width(const AttentionCall<In>& call, const F& f) {
  if constexpr (sizeof(In) == 2) {
    switch (call.dim) {
      case 32:
        return f(std::integral_constant<int, 32>());
      case 64:
        return f(std::integral_constant<int, 64>());
      case 96:
        return f(std::integral_constant<int, 96>());
      default:
        return f(std::integral_constant<int, 128>());
    }
  }
}

// Calls f<terms>() with what a kernel is to know of a call that has at most `most`: whether it has
// none, or distances of keys alone, for the widths that models have most.
template <typename Tile, Terms most, typename In, typename F>
void with_terms(const AttentionCall<In>& call, const F& f) {
  static_assert(most == Terms::any || most == Terms::no_tables);  // terms have no other order
  const Terms terms = terms_of(call);
  require(terms >= most, "attention: a call has terms that its kernel does not know");
  if constexpr (Tile::dim % 64 == 0)
    if (terms == Terms::none) return f.template operator()<Terms::none>();
  if constexpr (Tile::dim == 64 && most == Terms::any)
    if (terms == Terms::key_distances) return f.template operator()<Terms::key_distances>();
  f.template operator()<most>();
}

// Blocks of two tiles of queries that a multiprocessor has at once.
inline constexpr int blocks_of_two_tiles = 2;

// Whether a block of a kernel that may have two tiles of queries has them: where they share
// what they visit, and there are blocks enough for all multiprocessors.
template <typename In>
bool takes_two_tiles(Cuda cuda, const GroupCall<In>& group) {
  if (!group.plan.by_query.pairs_share || cuda.state->is_meta()) return false;
  const int multiprocessors = attribute(cudaDevAttrMultiProcessorCount, cuda.state->gpu());
  return (group.call.query_tiles() + 1) / 2 * group.pairs() >=
         std::int64_t{blocks_of_two_tiles} * multiprocessors;
}

// Whether a multiprocessor has shared memory for two blocks (compute capability 8.0 has not, for
// wide heads).
inline bool has_room_for_two(Cuda cuda, std::size_t bytes) {
  constexpr std::size_t of_system = 1024;  // that each block has beside its own
  if (cuda.state->is_meta()) return true;
  const int there = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, cuda.state->gpu());
  return 2 * (bytes + of_system) <= static_cast<std::size_t>(there);
}

// The products of the biases of a relative term, which the call then knows.
struct BiasProducts {
  Tensor of_keys;
  Tensor of_distances;
};
template <typename In>
BiasProducts multiply_biases(Cuda cuda, const Device& device, AttentionCall<In>& call);

// Whether they are multiplied by groups of four warps: on compute capability 9.0, where
// LONGSPAN_WARP_GROUPS is 1, for heads of 64 or 128 features and no table of distances.
bool warp_groups_are_wanted(Cuda cuda);
template <typename In>
bool takes_warp_groups(Cuda cuda, const AttentionCall<In>& call) {
  return call.dim % 64 == 0 && terms_of(call) >= Terms::no_tables && warp_groups_are_wanted(cuda);
}

// Whether the kernels of calls with those terms may have tables of distances.
template <Terms terms>
inline constexpr bool may_have_tables = terms == Terms::any || terms == Terms::key_distances;

// For calls that take matrix units.
template <typename In>
void attend_with_matrices(Cuda cuda, const GroupCall<In>& group);
template <typename In>
void differentiate_with_matrices(Cuda cuda, const GradientCall<In>& g, const Gradients<In>& to);

// For calls that take warp groups too.
template <typename In>
void attend_with_warp_groups(Cuda cuda, const GroupCall<In>& group);
template <typename In>
void differentiate_with_warp_groups(Cuda cuda, const GradientCall<In>& g, const Gradients<In>& to);

// Bands as in tables.cu, and for each [heads of the group, diagonals, dim] of what the
// position bias gets, or null.
template <typename In>
void sum_diagonals(Cuda cuda,
                   const GradientCall<In>& g,
                   const Diagonals& diagonals,
                   bool of_values,
                   float* bands,
                   float* biases);

}  // namespace longspan::tile_attention
