// Selects the attention calls that use matrix units, and launches their kernels.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "framework/kernels/attention/cuda/backward_tile.h"
#include "framework/kernels/cuda/launch.h"

namespace longspan::tile_attention {

// Head widths with kernels on matrix units; others use the generic kernels. Each takes minutes to
// compile.
#ifndef LONGSPAN_ATTENTION_WIDTHS
#define LONGSPAN_ATTENTION_WIDTHS 32, 64, 96, 128
#endif
using MatrixWidths = std::integer_sequence<int, LONGSPAN_ATTENTION_WIDTHS>;
static_assert([]<int... widths>(std::integer_sequence<int, widths...>) {
  return ((widths % 32 == 0 && widths > 0 && widths <= 128) && ...);
}(MatrixWidths()));

// Calls f(integral constant) with the head width, if it is one of the widths and a multiple of
// `multiple`. Returns whether it is.
template <int multiple = 32, typename F, int... widths>
bool with_width(std::int64_t dim, const F& f, std::integer_sequence<int, widths...>) {
  const auto is_called = [&]<int width>(std::integral_constant<int, width> constant) {
    if constexpr (width % multiple == 0) {
      if (dim != width) return false;
      f(constant);
      return true;
    }
    return false;
  };
  return (is_called(std::integral_constant<int, widths>()) || ...);
}

// Whether a call can use matrix units: bf16 or f16, with a head width of MatrixWidths. Products of
// keys with the key table, given scores and caps require the generic kernels. In the backward pass,
// the gradients must also be aligned.
template <typename In>
bool uses_tensor_cores(const AttentionCall<In>& call,
                       std::initializer_list<const void*> gradients = {}) {
  const auto aligned = [](const void* rows) {
    return reinterpret_cast<std::uintptr_t>(rows) % 16 == 0;
  };
  return sizeof(In) == 2 && !call.keys_by_distance && !call.given.any() && call.cap == 0 &&
         call.dim == call.value_dim &&
         with_width(
             call.dim, [](auto) {}, MatrixWidths()) &&
         aligned(call.query) && aligned(call.key) && aligned(call.value) && aligned(call.out) &&
         aligned(call.key_table.lowest) && aligned(call.value_table.lowest) &&
         std::ranges::all_of(gradients, aligned);
}

// Calls f(integral constant) with the head width of a supported call.
template <typename In, typename F>
void with_matrix_width(const AttentionCall<In>& call, const F& f) {
  if constexpr (sizeof(In) == 2) with_width(call.dim, f, MatrixWidths());
}

// Calls f<terms>() with a compile-time bound on the terms of a call that has at most `most`. The
// bounds `none` and `key_distances` are instantiated only for common head widths.
template <typename Tile, Terms most, typename In, typename F>
void with_terms(const AttentionCall<In>& call, const F& f) {
  static_assert(most == Terms::any || most == Terms::no_tables);  // other bounds are not ordered
  const Terms terms = terms_of(call);
  require(terms >= most, "attention: a call has terms that its kernel does not support");
  if constexpr (Tile::dim % 64 == 0)
    if (terms == Terms::none) return f.template operator()<Terms::none>();
  if constexpr (Tile::dim == 64 && most == Terms::any)
    if (terms == Terms::key_distances) return f.template operator()<Terms::key_distances>();
  f.template operator()<most>();
}

// Resident blocks with two query tiles for each multiprocessor.
inline constexpr int blocks_of_two_tiles = 2;

// Whether blocks process two query tiles: if adjacent tiles share most visits, and there are enough
// blocks for all multiprocessors.
template <typename In>
bool uses_two_tiles(Cuda cuda, const GroupCall<In>& group) {
  if (!group.plan.by_query.pairs_share || cuda.state->is_meta()) return false;
  const int multiprocessors = attribute(cudaDevAttrMultiProcessorCount, cuda.state->gpu());
  return (group.call.query_tiles() + 1) / 2 * group.pairs() >=
         std::int64_t{blocks_of_two_tiles} * multiprocessors;
}

// Whether a multiprocessor has shared memory for two blocks (for wide heads, not on compute
// capability 8.0).
inline bool has_room_for_two(Cuda cuda, std::size_t bytes) {
  constexpr std::size_t of_system = 1024;  // reserved by the system for each block
  if (cuda.state->is_meta()) return true;
  const int there = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, cuda.state->gpu());
  return 2 * (bytes + of_system) <= static_cast<std::size_t>(there);
}

// Products with the biases of a relative term, stored in the call.
struct BiasProducts {
  Tensor of_keys;
  Tensor of_distances;
};
template <typename In>
BiasProducts multiply_biases(Cuda cuda, const Device& device, AttentionCall<In>& call);

// Whether warp groups compute the products: on compute capability 9.0, with
// LONGSPAN_HOPPER_WGMMA=1, for heads of 64 or 128 features and without relative-position tables.
bool warpgroups_requested(Cuda cuda);
template <typename In>
bool uses_warpgroups(Cuda cuda, const AttentionCall<In>& call) {
  return call.dim % 64 == 0 && terms_of(call) >= Terms::no_tables && warpgroups_requested(cuda);
}

// Whether calls with those terms may have relative-position tables.
template <Terms terms>
inline constexpr bool may_have_tables = terms == Terms::any || terms == Terms::key_distances;

// For calls that matrix units support.
template <typename In>
void attend_with_matrices(Cuda cuda, const GroupCall<In>& group);
template <typename In>
void differentiate_with_matrices(Cuda cuda, const GradientCall<In>& g, const Gradients<In>& to);

// For calls that warp groups also support.
template <typename In>
void attend_with_warp_groups(Cuda cuda, const GroupCall<In>& group);
template <typename In>
void differentiate_with_warp_groups(Cuda cuda, const GradientCall<In>& g, const Gradients<In>& to);

// bands: as in tables.cu. biases: contributions to the position bias gradient, [heads of the group,
// diagonals, dim], or null.
template <typename In>
void sum_diagonals(Cuda cuda,
                   const GradientCall<In>& g,
                   const Diagonals& diagonals,
                   bool of_values,
                   float* bands,
                   float* biases);

}  // namespace longspan::tile_attention
