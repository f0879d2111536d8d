// Learned relative position biases (Raffel et al. 2020).

#include <gtest/gtest.h>

#include <cmath>

#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/attention_kinds_testing.h"
#include "tests/nn/layer_testing.h"

namespace longspan::relative_position_bias_test {
namespace {

using namespace testing::kinds;
using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

using Distances = std::vector<std::int64_t>;

// First relative position of each bucket, in one direction.
Distances first_distances(const RelativePositionBias::Options& options, std::int64_t sign) {
  Distances first;
  for (std::int64_t last = -1, distance = 0; distance < 3 * options.max_distance; ++distance) {
    const std::int64_t bucket = relative_position_bucket(sign * distance, options);
    EXPECT_GE(bucket, last);
    if (bucket > last) first.push_back(distance);
    last = bucket;
  }
  return first;
}

// Source: _relative_position_bucket of T5 in transformers, with 32 buckets and 128 positions.
TEST(RelativePositionBias, BucketsMatchT5) {
  const Distances of_a_side = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  RelativePositionBias::Options options;
  EXPECT_EQ(first_distances(options, -1), of_a_side);
  EXPECT_EQ(relative_position_bucket(-1000, options), 15);
  for (const std::int64_t distance : {1, 7, 8, 11, 12, 63, 64, 127, 128, 129, 1000})
    EXPECT_EQ(relative_position_bucket(distance, options),
              16 + relative_position_bucket(-distance, options));
  options.causal = true;
  const Distances causal = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                            16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  EXPECT_EQ(first_distances(options, -1), causal);
  for (const std::int64_t later : {1, 20, 1000})
    EXPECT_EQ(relative_position_bucket(later, options), 0);
}

// log(2) / log(32) is 1/5. In double precision it is slightly less.
TEST(RelativePositionBias, RoundsQuotientsToFloat32) {
  const RelativePositionBias::Options options = {.buckets = 20, .max_distance = 160};
  EXPECT_EQ(relative_position_bucket(-10, options), 6);
  EXPECT_EQ(relative_position_bucket(-20, options), 7);
  EXPECT_EQ(relative_position_bucket(-80, options), 9);
}

constexpr std::int64_t buckets = 6, reach = 5;

RelativePositionBias::Options options_of(bool causal) {
  return {.heads = heads, .buckets = buckets, .max_distance = reach, .causal = causal};
}

struct Attended {
  Parameters parameters = testing::one_process_parameters();
  RelativePositionBias bias;
  SoftmaxAttention mechanism;
  bool causal;

  explicit Attended(bool is_causal)
      : bias(Scope(parameters).child("stack"), options_of(is_causal)),
        mechanism(0, {}, RelativeTerms{.bias = bias}),
        causal(is_causal) {
    testing::allocate_randomly(parameters, 1);
  }
  Variable operator()(const std::vector<Variable>& inputs) const {
    AttentionContext context;
    if (!causal) context.mask.rules = masks::everything();
    return mechanism({.query = inputs[0], .key = inputs[1], .value = inputs[2], .heads = all_heads},
                     context,
                     ForwardContext());
  }
  double number(std::int64_t h, std::int64_t distance) const {
    const Tensor& table = parameters.named("stack/relative_bias").master;
    return table
        .data<double>()[h * buckets + relative_position_bucket(distance, options_of(causal))];
  }
};

std::vector<Tensor> inputs_of(std::int64_t time) {
  std::vector<Tensor> inputs;
  for (const std::uint64_t seed : {1, 2, 3})
    inputs.push_back(random_tensor({batch, time, heads, dim}, seed));
  return inputs;
}

TEST(RelativePositionBias, AddsBucketBiasToScores) {
  for (const bool causal : {true, false})
    for (const std::int64_t time : {1, 9, 70}) {
      const Attended attended(causal);
      const std::vector<Tensor> x = inputs_of(time);
      const auto at = [&](std::size_t i, std::int64_t b, std::int64_t t, std::int64_t h) {
        return x[i].data<double>() + ((b * time + t) * heads + h) * dim;
      };
      Values expected;
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t p = 0; p < time; ++p)
          for (std::int64_t h = 0; h < heads; ++h) {
            Values row(static_cast<std::size_t>(dim), 0);
            double total = 0;
            for (std::int64_t k = 0; k < (causal ? p + 1 : time); ++k) {
              const double product = dot(at(0, b, p, h), at(1, b, k, h), dim);
              const double score =
                  product / std::sqrt(static_cast<double>(dim)) + attended.number(h, k - p);
              total += std::exp(score);
              add_to(row.data(), std::exp(score), at(2, b, k, h), dim);
            }
            for (const double value : row) expected.push_back(value / total);
          }
      const Variable y = attended({Variable(x[0]), Variable(x[1]), Variable(x[2])});
      expect_close(values_of(y.value()), expected, 1e-12);
    }
}

TEST(RelativePositionBias, GradientMatchesFiniteDifferences) {
  for (const bool causal : {true, false}) {
    Attended attended(causal);
    testing::expect_layer_gradients(
        attended.parameters,
        [&](const std::vector<Variable>& inputs) { return attended(inputs); },
        inputs_of(9));
  }
}

// Attention reads the bias in the accumulator dtype.
TEST(RelativePositionBias, UsesAccumulatorDtype) {
  for (const DType compute : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    Parameters parameters(backend_device(), compute, ProcessMesh());
    const RelativePositionBias::Options options = {
        .heads = 2, .buckets = 4, .max_distance = 3, .initial = Initializer::constant(0.1)};
    const RelativePositionBias bias(Scope(parameters), options);
    parameters.allocate(Random(1));
    const Variable term = bias.term();
    EXPECT_EQ(term.shape(), (Shape{2, 7}));
    EXPECT_EQ(term.value().dtype(), accumulator_of(compute));
  }
}

TEST(RelativePositionBias, RejectsInvalidBucketCounts) {
  Parameters parameters = testing::one_process_parameters();
  const auto make = [&](std::int64_t count, std::int64_t max_distance) {
    RelativePositionBias(Scope(parameters).child(count).child(max_distance),
                         {.heads = 1, .buckets = count, .max_distance = max_distance});
  };
  EXPECT_NO_THROW(make(4, 3));
  EXPECT_THROW(make(4, 2), Failure);
  EXPECT_THROW(make(5, 9), Failure);
  EXPECT_THROW(make(2, 9), Failure);
}

}  // namespace
}  // namespace longspan::relative_position_bias_test
