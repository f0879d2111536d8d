// Linear attention (idiap/fast-transformers) and FAVOR+ (lucidrains/performer-pytorch).
#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/attention.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/key_weights.h"
#include "framework/nn/attention/random_projection.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"

namespace longspan::golden {
namespace {

bool is_causal(const GoldenFile& file) { return file.name().ends_with("causal"); }

void expect_results(const GoldenFile& file,
                    const Variable& y,
                    const Variable& query,
                    const Variable& key,
                    const Variable& value) {
  const Tensor& upstream = file.numbers("inputs/upstream");
  expect_output(file, "y", y.value().reshape(upstream.shape()));
  backward({y}, {upstream.clone().reshape(y.shape())});
  expect_gradient(file, "q", gradient_of(query));
  expect_gradient(file, "k", gradient_of(key));
  expect_gradient(file, "v", gradient_of(value));
}

// Multiplies each row of x [..., width] by a constant.
Variable weighed(const Variable& x, const Tensor& log_weights) {
  const auto write = [log_weights](const Tensor& from, const Tensor& to) {
    const std::int64_t width = from.shape().width();
    for (std::int64_t i = 0; i < from.elements(); ++i)
      to.data<double>()[i] =
          from.data<double>()[i] * std::exp(log_weights.data<double>()[i / width]);
  };
  const Tensor y = x.value().empty_like();
  write(x.value(), y);
  return record(y, {x}, [write](BackwardContext& gradients) {
    const Tensor dx = gradients.output().empty_like();
    write(gradients.output(), dx);
    gradients.set(0, dx);
  });
}

Tensor filled(const Shape& shape, double number, const Device& device) {
  return Tensor::from<double>(
      std::vector<double>(static_cast<std::size_t>(shape.elements()), number), shape, device);
}

// The reference stabilizes by projection and adds 1e-4 to each feature. The stabilizer of the keys
// is the maximum over all positions, also in causal attention.
Variable favor_softmax(const Variable& x, const Tensor& projection, bool of_keys) {
  const double dim = static_cast<double>(x.shape()[3]);
  const StabilizedFeatures made =
      random_features(x, projection, {.scale = std::pow(dim, -0.25), .shifts_by_projection = true});
  Variable features = made.features;
  if (of_keys) features = weighed(features, weights_of_stabilizers(made.shift, false).log_weight);
  const double floor = 1e-4 / std::sqrt(static_cast<double>(projection.shape()[0]));
  return add(features, Variable(filled(features.shape(), floor, x.value().device())));
}

}  // namespace

void check_linear_attention(const GoldenFile& file) {
  const Variable query = leaf_of(file, "inputs/q");
  const Variable key = leaf_of(file, "inputs/k");
  const Variable value = leaf_of(file, "inputs/v");
  expect_extent(file, "batch", query.shape()[0]);
  expect_extent(file, "len", query.shape()[1]);
  expect_extent(file, "heads", query.shape()[2]);
  expect_extent(file, "d_head", query.shape()[3]);
  expect_extent(file, "src_len", key.shape()[1]);
  expect_extent(file, "d_value", value.shape()[3]);
  const Tensor& lengths = file.ids("inputs/key_lengths");
  bool padded = false;
  for (const std::int64_t length : lengths.span<std::int64_t>()) padded |= length < key.shape()[1];
  EXPECT_TRUE(file.flag("padding") || !padded) << file.name();
  const Tensor hidden = Tensor::zeros(
      {key.shape()[0], key.shape()[1], key.shape()[2]}, DType::f64, key.value().device());
  on(hidden.device(), [&](auto backend) {
    mask_keys(backend,
              {.length = lengths, .positions = {{0, key.shape()[1]}}, .log_weight = hidden});
  });
  const Variable y = linear_attention(query,
                                      key,
                                      value,
                                      Variable(hidden),
                                      {},
                                      {.map = FeatureMap::elu_plus_one,
                                       .causal = is_causal(file),
                                       .divisor = Divisor::sum,
                                       .epsilon = file.real("eps")});
  expect_results(file, y, query, key, value);
}

void check_performer(const GoldenFile& file) {
  const Variable query = leaf_of(file, "inputs/q");
  const Variable key = leaf_of(file, "inputs/k");
  const Variable value = leaf_of(file, "inputs/v");
  const Tensor& projection = file.numbers("inputs/projection");
  const Shape& shape = query.shape();
  expect_extent(file, "batch", shape[0]);
  expect_extent(file, "heads", shape[1]);
  expect_extent(file, "len", shape[2]);
  expect_extent(file, "d_head", shape[3]);
  expect_extent(file, "src_len", key.shape()[2]);
  expect_extent(file, "nb_features", projection.shape()[0]);
  const auto rows = [](const Variable& x) {
    const Shape& of = x.shape();
    return reshape(x, {of[0] * of[1], of[2], 1, of[3]});
  };
  const auto features = [&](const Variable& x, bool of_keys) {
    if (!file.flag("relu_kernel")) return favor_softmax(rows(x), projection, of_keys);
    const double scale = std::pow(static_cast<double>(shape[3]), -0.25);
    return random_features(rows(x), projection, {.map = RandomMap::relu, .scale = scale}).features;
  };
  LinearAttentionOptions options = {
      .causal = is_causal(file), .divisor = Divisor::sum, .epsilon = 0};
  // Causal: the reference adds 1e-6 to the key sum, as a first key with value 0 does.
  if (options.causal) {
    const std::int64_t count = projection.shape()[0], columns = value.shape()[3] + 1;
    const Tensor initial =
        filled({shape[0] * shape[1], 1, count, columns}, 0, query.value().device());
    for (std::int64_t i = columns - 1; i < initial.elements(); i += columns)
      initial.data<double>()[i] = 1e-6;
    options.state.before = std::make_shared<BoundaryTensor>(BoundaryTensor{.value = initial});
  }
  const Variable y =
      linear_attention(features(query, false), features(key, true), rows(value), {}, {}, options);
  expect_results(file, y, query, key, value);
}

// The reference keeps LAPACK's signs of the QR decomposition; here the diagonal of R is positive.
void check_performer_projection(const GoldenFile& file) {
  const Tensor& gaussian = file.numbers("inputs/gaussian_blocks");
  const Tensor& norms = file.numbers("inputs/gaussian_norms");
  const Tensor& diagonal = file.numbers("outputs/r_diagonal");
  const std::int64_t dim = gaussian.shape()[1], count = norms.shape()[0];
  expect_extent(file, "d_head", dim);
  expect_extent(file, "nb_features", count);
  const std::vector<double> found =
      orthogonal_rows(gaussian.span<double>(),
                      file.integer("scaling") == 0 ? norms.span<double>() : std::span<double>(),
                      count,
                      dim);
  const Tensor signs = Tensor::from<double>(found, {count, dim}, gaussian.device());
  const Tensor lengths = diagonal.empty_like();
  for (std::int64_t r = 0; r < diagonal.elements(); ++r) {
    const double sign = diagonal.data<double>()[r] < 0 ? -1 : 1;
    double along = 0, squares = 0;
    for (std::int64_t c = 0; c < dim && r < count; ++c) {
      double& element = signs.data<double>()[r * dim + c];
      squares += element * element;
      along += element * gaussian.data<double>()[(r / dim * dim + c) * dim + r % dim];
      element *= sign;
    }
    // Unused rows have the value of the file.
    lengths.data<double>()[r] =
        r < count ? sign * along / std::sqrt(squares) : diagonal.data<double>()[r];
  }
  expect_output(file, "projection", signs);
  expect_output(file, "r_diagonal", lengths);
}

}  // namespace longspan::golden
