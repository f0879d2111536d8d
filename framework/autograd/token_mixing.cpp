#include "framework/autograd/token_mixing.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "framework/autograd/ops.h"
#include "framework/autograd/sequence_products.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/crop_matrices.h"

namespace longspan {

Variable crop_matrices(
    const Variable& x, std::int64_t begin, std::int64_t rows, std::int64_t columns, bool causal) {
  const Shape& shape = x.shape();
  if (!causal && begin == 0 && rows == shape[1] && columns == shape[2]) return x;
  Tensor part = Tensor::empty({shape[0], rows, columns}, x.value().dtype(), x.value().device());
  const MatrixCrop crop = {.whole = x.value(), .part = part, .begin = begin, .causal = causal};
  on(part.device(), [&](auto backend) { crop_matrices(backend, crop); });
  return record(std::move(part), {x}, [begin, causal](BackwardContext& gradients) {
    const MatrixCrop back = {.whole = gradients.accumulate_target(0),
                             .part = gradients.output(),
                             .begin = begin,
                             .causal = causal};
    on(back.part.device(), [&](auto backend) { add_cropped(backend, back); });
  });
}

Variable mix_positions(const Variable& x, const Variable& weight, const Variable& bias) {
  const Shape& shape = x.shape();
  const std::int64_t batch = shape[0], heads = weight.shape()[0], out = weight.shape()[1];
  require(shape.dimensions() == 3 && heads > 0 && shape[2] % heads == 0,
          "cannot mix the positions of {} in {} heads",
          shape,
          heads);
  const std::int64_t each = shape[2] / heads;
  const Variable by_head =
      heads == 1 ? x : to_heads_first(reshape(x, {batch, shape[1], heads, each}));
  const Variable mixed = batched_matmul(weight, by_head);
  const Tensor ones = Tensor::from<double>(
      std::vector<double>(static_cast<std::size_t>(each), 1), {1, 1, each}, x.value().device());
  const DType dtype = x.value().dtype();
  const Variable table =
      batched_matmul(reshape(cast(bias, dtype), {heads, out, 1}), cast(Variable(ones), dtype));
  const Variable y = scale_and_add_positions(
      reshape(mixed, {batch, heads * out, each}), 1, reshape(table, {heads * out, each}));
  if (heads == 1) return y;
  return reshape(to_heads_inner(reshape(y, {batch * heads, out, each}), heads),
                 {batch, out, shape[2]});
}

Variable spatial_gate(const Variable& u, const SpatialGate& gate) {
  const std::int64_t columns = u.shape()[1], rows = columns - gate.begin;
  const Shape& bias = gate.bias.shape();
  return mix_positions(
      u,
      crop_matrices(gate.weight, gate.begin, rows, columns, gate.causal),
      reshape(crop_matrices(reshape(gate.bias, {bias[0], bias[1], 1}), gate.begin, rows, 1, false),
              {bias[0], rows}));
}

Variable mix_tokens(const Variable& x, const TokenMixingWeights& weights) {
  const auto mixed = [](const Variable& from, const Variable& weight, const Variable& bias) {
    const Shape& shape = weight.shape();
    return mix_positions(
        from, reshape(weight, {1, shape[0], shape[1]}), reshape(bias, {1, shape[0]}));
  };
  return mixed(activate(Activation::gelu, mixed(x, weights.in, weights.in_bias)),
               weights.out,
               weights.out_bias);
}

namespace {

// Cosines and sines of 2 pi i / length, by i modulo the length.
class Circle {
 public:
  explicit Circle(std::int64_t length) : length_(length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const double angle =
          2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(length);
      cosines_.push_back(std::cos(angle));
      sines_.push_back(std::sin(angle));
    }
  }
  double cosine(std::int64_t i) const { return cosines_[static_cast<std::size_t>(i % length_)]; }
  double sine(std::int64_t i) const { return sines_[static_cast<std::size_t>(i % length_)]; }

 private:
  std::int64_t length_;
  std::vector<double> cosines_;
  std::vector<double> sines_;
};

// Returns a constant of the values that `add_to` appends in order. A dry device has none.
template <typename F>
Variable constant(const Shape& shape, DType dtype, const Device& device, const F& add_to) {
  if (device.state().is_meta()) return Variable(Tensor::empty(shape, dtype, device));
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(shape.elements()));
  add_to(values);
  return cast(Variable(Tensor::from<double>(values, shape, device)), dtype);
}

// The largest divisor up to the square root; 1 for short lengths, whose products are small.
std::int64_t first_factor(std::int64_t length) {
  constexpr std::int64_t short_length = 64;
  std::int64_t factor = 1;
  if (length < short_length) return factor;
  for (std::int64_t i = 2; i * i <= length; ++i)
    if (length % i == 0) factor = i;
  return factor;
}

}  // namespace

// Position n = n1 b + n2 and frequency k = k1 + a k2, with n1, k1 < a and n2, k2 < b:
//   Y[k1, n2] = sum_n1 exp(-2 pi i n1 k1 / a) x[n1, n2]
//   X[k1, k2] = sum_n2 exp(-2 pi i n2 k / (a b)) Y[k1, n2]
FourierTransform::FourierTransform(std::int64_t length, DType dtype, const Device& device)
    : length_(length), steps_(first_factor(length)) {
  const std::int64_t a = steps_, b = length / a;
  if (a > 1)
    first_ = constant({1, 2 * a, a}, dtype, device, [&](std::vector<double>& values) {
      const Circle circle(a);
      for (const bool imaginary : {false, true})
        for (std::int64_t k = 0; k < a; ++k)
          for (std::int64_t n = 0; n < a; ++n)
            values.push_back(imaginary ? -circle.sine(n * k) : circle.cosine(n * k));
    });
  const std::int64_t parts = a > 1 ? 2 : 1;  // real and imaginary, of the input of the second step
  second_ = constant({a, 2 * b, parts * b}, dtype, device, [&](std::vector<double>& values) {
    const Circle circle(length);
    for (std::int64_t k1 = 0; k1 < a; ++k1)
      for (const bool imaginary : {false, true})
        for (std::int64_t k2 = 0; k2 < b; ++k2)
          for (std::int64_t part = 0; part < parts; ++part)
            for (std::int64_t n = 0; n < b; ++n) {
              const std::int64_t angle = n * (k1 + a * k2);
              const double sine = circle.sine(angle);
              if (imaginary == (part == 1))
                values.push_back(circle.cosine(angle));
              else
                values.push_back(imaginary ? -sine : sine);
            }
  });
}

Variable FourierTransform::operator()(const Variable& x) const {
  const Shape& shape = x.shape();
  require(shape.dimensions() == 3 && shape[1] == length_,
          "expected {} positions, found {}",
          length_,
          shape);
  const std::int64_t batch = shape[0], a = steps_, b = length_ / a, channels = shape[2];
  Variable y = x;
  if (a > 1) {
    const Variable first = batched_matmul(first_, reshape(x, {batch, a, b * channels}));
    y = reshape(to_heads_first(reshape(first, {batch, 2, a, b * channels})),
                {batch * a, 2 * b, channels});
  }
  const Variable second = batched_matmul(second_, y);
  return reshape(to_heads_inner(reshape(second, {batch * a * 2, b, channels}), a * 2),
                 {batch, length_, 2 * channels});
}

Tensor fourier_features(std::int64_t width,
                        std::int64_t begin,
                        std::int64_t count,
                        std::int64_t blocks,
                        DType dtype,
                        const Device& device) {
  const std::int64_t each = count / blocks;
  return constant({width, 2 * count},
                  dtype,
                  device,
                  [&](std::vector<double>& values) {
                    const Circle circle(width);
                    for (std::int64_t out = 0; out < width; ++out)
                      for (std::int64_t block = 0; block < blocks; ++block)
                        for (const bool imaginary : {false, true})
                          for (std::int64_t i = 0; i < each; ++i) {
                            const std::int64_t angle = (begin + block * each + i) * out;
                            values.push_back(imaginary ? circle.sine(angle) : circle.cosine(angle));
                          }
                  })
      .value();
}

}  // namespace longspan
