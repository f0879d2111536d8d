// The biases of the relative term on matrix units. (q + u) . k is q . k and a number a key, (q + v)
// . r is q . r and a number a row of the table: so the products are of the inputs as they are, and
// a number is added.
#include "framework/kernels/cuda/attention_matrix_calls.h"

namespace longspan::tile_attention {
namespace {

template <typename In>
__device__ Accumulator<In> bias_product(const AttentionCall<In>& call,
                                        const Either<In>& bias,
                                        std::int64_t h,
                                        const In* row) {
  Accumulator<In> sum = 0;
  for (int c = 0; c < call.dim; ++c) sum += bias.at(h * call.dim + c) * wide(row[c]);
  return sum;
}

// Elements (batch row, key, head), to [batch, heads, keys of whole tiles].
template <typename In>
struct MultiplyKeys {
  AttentionCall<In> call;
  Accumulator<In>* to;

  __device__ void operator()(std::int64_t e) const {
    const std::int64_t keys = call.key_tiles() * tile;
    const std::int64_t h = e % call.heads, j = e / call.heads % keys, b = e / (call.heads * keys);
    to[(b * call.heads + h) * keys + j] =
        call.is_key(b, h, j) ? bias_product(call,
                                            call.content_bias,
                                            h,
                                            call.key + call.place(b, call.keys, j, h, call.dim, 0))
                             : 0;
  }
};

// Elements (row of a half, head), to [heads, halves, 64].
template <typename In>
struct MultiplyDistances {
  AttentionCall<In> call;
  Accumulator<In>* to;

  __device__ void operator()(std::int64_t e) const {
    const std::int64_t h = e % call.heads, m = e / (call.heads * tile) + call.first_half();
    const std::int64_t row = e / call.heads % tile, distance = call.half_distance(m) - row;
    const auto& table = call.key_table;
    to[call.half_place(h, m) + row] =
        distance < table.low || distance > table.high
            ? 0
            : bias_product(call, call.position_bias, h, table.row(h, distance));
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
  for_each_element(cuda, products.of_keys.elements(), MultiplyKeys<In>{call, of_keys});
  for_each_element(
      cuda, products.of_distances.elements(), MultiplyDistances<In>{call, of_distances});
  call.key_bias = of_keys;
  call.distance_bias = of_distances;
  return products;
}

template BiasProducts multiply_biases(Cuda, const Device&, AttentionCall<BFloat16>&);
template BiasProducts multiply_biases(Cuda, const Device&, AttentionCall<Float16>&);

}  // namespace longspan::tile_attention
