// Biases of the relative term on matrix units. (q + u) . k is q . k plus one number for each key;
// (q + v) . r is q . r plus one number for each table row. Products therefore use the unmodified
// inputs, and these numbers are added.
#include "framework/kernels/attention/cuda/matrix_calls.h"
#include "framework/kernels/attention/cuda/row_products.h"

namespace longspan::tile_attention {
namespace {

// Features c .. c + 3 of a head's bias.
template <typename In>
__device__ Vec4<Accumulator<In>> bias_of(const Either<In>& bias, std::int64_t h, int dim, int c) {
  Vec4<Accumulator<In>> four;
  for (int k = 0; k < 4; ++k) four.at[k] = bias.at(h * dim + c + k);
  return four;
}

// Rows (batch row, key, head), written to [batch, heads, keys of full tiles].
template <typename In>
struct KeyBiases {
  AttentionCall<In> call;
  Accumulator<In>* all;

  struct Place {
    std::uint32_t b, j, h;
  };
  __device__ std::uint32_t keys() const {
    return static_cast<std::uint32_t>(call.key_tiles()) * tile;
  }
  __device__ Place place(std::uint32_t n) const {
    const auto heads = static_cast<std::uint32_t>(call.heads);
    return {n / heads / keys(), n / heads % keys(), n % heads};
  }
  __device__ const In* row(std::uint32_t n) const {
    const auto [b, j, h] = place(n);
    if (!call.is_key(b, h, j)) return nullptr;
    return call.key + call.key_place(b, j, h, call.dim, 0);
  }
  __device__ Vec4<Accumulator<In>> others(std::uint32_t n, int c) const {
    return bias_of(call.content_bias, place(n).h, call.dim, c);
  }
  __device__ Accumulator<In>& to(std::uint32_t n) const {
    const auto [b, j, h] = place(n);
    return all[call.key_bias_index(b, h, j)];
  }
};

// Rows (row of a half, head), written to [heads, halves, 64].
template <typename In>
struct DistanceBiases {
  AttentionCall<In> call;
  Accumulator<In>* all;

  __device__ std::uint32_t head(std::uint32_t n) const {
    return n % static_cast<std::uint32_t>(call.heads);
  }
  __device__ std::uint32_t row_of_half(std::uint32_t n) const {
    return n / static_cast<std::uint32_t>(call.heads) % tile;
  }
  __device__ std::int64_t half(std::uint32_t n) const {
    return call.first_half() + n / static_cast<std::uint32_t>(call.heads) / tile;
  }
  __device__ const In* row(std::uint32_t n) const {
    const auto& table = call.key_table;
    const std::int64_t distance = call.half_distance(half(n)) - row_of_half(n);
    return distance < table.low || distance > table.high ? nullptr : table.row(head(n), distance);
  }
  __device__ Vec4<Accumulator<In>> others(std::uint32_t n, int c) const {
    return bias_of(call.position_bias, head(n), call.dim, c);
  }
  __device__ Accumulator<In>& to(std::uint32_t n) const {
    return all[call.half_place(head(n), half(n)) + row_of_half(n)];
  }
};

}  // namespace

template <typename In>
BiasProducts multiply_biases(Cuda cuda, const Device& device, AttentionCall<In>& call) {
  using T = Accumulator<In>;
  if (!call.content_bias.given()) return {};
  const auto numbers = [&](const Shape& shape) {
    return Tensor::empty(shape, DTypeOf<T>::value, device, MemoryTag::workspace);
  };
  const BiasProducts products = {numbers({call.batch, call.heads, call.key_tiles() * tile}),
                                 numbers({call.heads, call.halves(), std::int64_t{tile}})};
  T* const of_keys = products.of_keys.data<T>();
  T* const of_distances = products.of_distances.data<T>();
  launch_row_products<In>(
      cuda, products.of_keys.elements(), call.dim, KeyBiases<In>{call, of_keys});
  launch_row_products<In>(
      cuda, products.of_distances.elements(), call.dim, DistanceBiases<In>{call, of_distances});
  call.key_bias = of_keys;
  call.distance_bias = of_distances;
  return products;
}

template BiasProducts multiply_biases(Cuda, const Device&, AttentionCall<BFloat16>&);
template BiasProducts multiply_biases(Cuda, const Device&, AttentionCall<Float16>&);

}  // namespace longspan::tile_attention
