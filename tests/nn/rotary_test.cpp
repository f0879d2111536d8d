// Rotary embeddings: angles, rotation and attention.
#include "framework/nn/rotary.h"

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/layer_testing.h"
#include "tests/nn/rotary_angles.h"

namespace longspan::rotary_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

namespace golden = testing::rotary;

RotaryOptions scaled(RotaryScaling scaling) {
  return {.scaling = scaling,
          .factor = scaling == RotaryScaling::none ? 1.0 : 8.0,
          .original = 64,
          .short_factors = golden::short_factors,
          .long_factors = golden::long_factors};
}

void expect_angles(const RotaryOptions& options,
                   const Values& frequencies,
                   double factor = 1,
                   std::int64_t length = 64) {
  const RotaryAngles angles = rotary_angles(options, 16, length);
  expect_close(angles.frequencies, frequencies, 1e-14, 0);
  EXPECT_NEAR(angles.factor, factor, 1e-14);
}

TEST(RotaryAngles, MatchesPublishedFormulas) {
  using enum RotaryScaling;
  expect_angles(scaled(none), golden::plain);
  expect_angles(scaled(linear), golden::linear);
  expect_angles(scaled(ntk), golden::ntk);
  expect_angles(scaled(yarn), golden::yarn, golden::yarn_factor);
  expect_angles(scaled(llama3), golden::llama3);
}

TEST(RotaryAngles, DependsOnSequenceLength) {
  using enum RotaryScaling;
  expect_angles(scaled(dynamic), golden::plain, 1, 5);
  expect_angles(scaled(dynamic), golden::dynamic_64, 1, 64);
  expect_angles(scaled(dynamic), golden::dynamic_100, 1, 100);
  expect_angles(scaled(dynamic), golden::dynamic_512, 1, 512);
  expect_angles(scaled(longrope), golden::longrope_short, golden::longrope_factor, 64);
  expect_angles(scaled(longrope), golden::longrope_long, golden::longrope_factor, 65);
}

TEST(RotaryAngles, SupportsOtherBandsAndFactors) {
  RotaryOptions yarn = scaled(RotaryScaling::yarn);
  yarn.beta_fast = 4;
  yarn.beta_slow = 0.25;
  yarn.attention_factor = 0.7;
  expect_angles(yarn, golden::yarn_of_narrow_betas, 0.7);
  RotaryOptions llama3 = scaled(RotaryScaling::llama3);
  llama3.low_frequency = 0.5;
  llama3.high_frequency = 8;
  expect_angles(llama3, golden::llama3_of_other_bands);
}

TEST(RotaryAngles, PartialRotationMatchesNarrowerHead) {
  RotaryOptions options = scaled(RotaryScaling::yarn);
  options.share = 0.5;
  EXPECT_EQ(options.turned(32), 16);
  expect_close(rotary_angles(options, 32, 64).frequencies, golden::yarn, 1e-14, 0);
  options.share = 0.3;
  EXPECT_EQ(options.turned(16), 4) << "whole pairs";
}

TEST(RotaryAngles, ReportsInvalidOptions) {
  const auto problem = [](RotaryScaling scaling, const auto& change, std::int64_t dim = 16) {
    RotaryOptions options = scaled(scaling);
    change(options);
    return validate_rotary(options, dim);
  };
  const auto as_it_is = [](RotaryOptions&) {};
  using enum RotaryScaling;
  for (const RotaryScaling each : {none, linear, dynamic, ntk, yarn, llama3, longrope})
    EXPECT_EQ(problem(each, as_it_is), "");
  EXPECT_EQ(problem(none, as_it_is, 5),
            "model.position_embedding_type: rope requires an even number of rotated features, "
            "found all of a head's 5; set model.head_dim or model.rope.partial_rotary_factor");
  EXPECT_NE(problem(
                none, [](RotaryOptions& o) { o.share = 0.1; }, 16),
            "");
  EXPECT_EQ(problem(
                none, [](RotaryOptions& o) { o.share = 0.5; }, 5),
            "");
  EXPECT_NE(problem(ntk, as_it_is, 2), "");
  for (const RotaryScaling each : {dynamic, yarn, llama3, longrope})
    EXPECT_NE(problem(each, [](RotaryOptions& o) { o.original = {}; }), "");
  EXPECT_NE(problem(llama3, [](RotaryOptions& o) { o.low_frequency = 4; }), "");
  EXPECT_NE(problem(yarn, [](RotaryOptions& o) { o.beta_fast = 1; }), "");
  EXPECT_EQ(
      problem(longrope, [](RotaryOptions& o) { o.long_factors.pop_back(); }),
      "model.rope.scaling.long_factor: expected 8 elements, one per pair of rotated features, "
      "found 7");
}

TEST(Rotary, RotatesRowsByPosition) {
  const Rotary rotary(scaled(RotaryScaling::yarn), 16, DType::f64, backend_device());
  const Tensor x = random_tensor({2, 6, 3, 16}, 1);
  const auto rotated = [&](std::int64_t row, std::int64_t count, const Ranges& positions) {
    Values part;
    for (std::int64_t b = 0; b < 2; ++b) {
      const Values own = values_of(x.slice(b, b + 1).reshape({6, 48}).slice(row, row + count));
      part.insert(part.end(), own.begin(), own.end());
    }
    return rotary
        .turn(Variable(testing::tensor_of<double>(part, {2, count, 3, 16})), positions, 1000)
        .value();
  };
  const Tensor all = rotated(0, 6, {{2, 5}, {775, 778}});
  const Tensor last = rotated(5, 1, {{777, 778}});
  for (std::int64_t b = 0; b < 2; ++b)
    EXPECT_EQ(values_of(all.slice(b, b + 1).reshape({6, 48}).slice(5, 6)),
              values_of(last.slice(b, b + 1)));
  const double u = x.data<double>()[5 * 48 + 3], v = x.data<double>()[5 * 48 + 11];
  EXPECT_NEAR(
      last.data<double>()[3] / golden::yarn_factor, u * golden::cosine - v * golden::sine, 1e-12);
}

TEST(Rotary, ReusesUniquelyOwnedStorage) {
  const Rotary rotary({}, 4, DType::f64, backend_device());
  const Tensor x = random_tensor({1, 3, 1, 4}, 1);
  const Values before = values_of(x);
  const Variable kept = rotary.turn(Variable(x), {{0, 3}}, 3);
  EXPECT_EQ(values_of(x), before);
  Variable alone(x.clone());
  const std::byte* const place = alone.value().bytes();
  const Variable over = rotary.turn(std::move(alone), {{0, 3}}, 3);
  EXPECT_EQ(over.value().bytes(), place);
  EXPECT_EQ(values_of(over.value()), values_of(kept.value()));
}

TEST(Rotary, GradientMatchesFiniteDifferences) {
  for (const RotaryLayout pairs : {RotaryLayout::halves, RotaryLayout::neighbors})
    for (const double share : {0.5, 1.0}) {
      RotaryOptions options = {.share = share, .pairs = pairs, .attention_factor = 1.3};
      const Rotary rotary(options, 8, DType::f64, backend_device());
      testing::expect_gradients(
          [&](const std::vector<Variable>& inputs) {
            Variable x = inputs.front();
            return rotary.turn(std::move(x), {{3, 5}, {9, 10}}, 10);
          },
          {random_tensor({2, 3, 2, 8}, 1)});
    }
}

constexpr std::int64_t width = 6, heads = 2, dim = 4;

struct RotaryLayer {
  Parameters parameters = testing::one_process_parameters();
  std::unique_ptr<MultiHeadAttention> layer;

  explicit RotaryLayer(const std::string& kind = "full",
                       const RotaryOptions& options = {.share = 0.5}) {
    const AttentionOptions attention = {.kinds = {kind}, .global_projections = true};
    const AttentionBuildOptions setting = {.heads = heads, .dim = dim, .segment = 9};
    layer = std::make_unique<MultiHeadAttention>(
        Scope(parameters).child("a"),
        MultiHeadAttention::Options{.width = width,
                                    .heads = heads,
                                    .dim = dim,
                                    .rotary = Rotary(options, dim, DType::f64, backend_device())},
        std::make_unique<SoftmaxAttention>(0, attention_patterns(attention, setting).front()));
    testing::allocate_randomly(parameters, 1);
  }
  Variable operator()(const Variable& x, const ForwardContext& pass = {}) const {
    AttentionContext context;
    context.mask.rules = masks::causal();
    return (*layer)(x, Variable(), context, pass);
  }
};

TEST(RotaryAttention, GradientMatchesFiniteDifferences) {
  for (const char* const kind : {"full", "global_local"}) {
    RotaryLayer rotated(kind);
    testing::expect_layer_gradients(
        rotated.parameters,
        [&](const std::vector<Variable>& inputs) { return rotated(inputs.front()); },
        {random_tensor({2, 9, width}, 3)},
        {.directions = 1, .elements = 2});
  }
}

// A shifted sequence has the same output.
TEST(RotaryAttention, DependsOnlyOnRelativePosition) {
  const RotaryLayer rotated;
  const Tensor x = random_tensor({2, 9, width}, 3);
  const Values here = values_of(rotated(Variable(x)).value());
  ForwardContext pass;
  pass.time = {.total = 1009, .shares = {{{1000, 1009}}}};
  expect_close(values_of(rotated(Variable(x), pass).value()), here, 1e-12);
  pass.time = {.total = 1009, .shares = {{{990, 994}, {1004, 1009}}}};
  EXPECT_GT(testing::detail::dot(rotated(Variable(x), pass).value(), rotated(Variable(x)).value()),
            0);
  EXPECT_NE(values_of(rotated(Variable(x), pass).value()), here);
}

TEST(RotaryAttention, CachedPassMatchesFullPass) {
  for (const char* const kind : {"full", "sliding_window", "global_local"})
    for (const RotaryScaling scaling :
         {RotaryScaling::none, RotaryScaling::linear, RotaryScaling::ntk}) {
      const RotaryLayer rotated(kind, {.scaling = scaling, .factor = 4});
      const NoGradGuard unrecorded;
      const Tensor x = random_tensor({1, 9, width}, 4);
      const Tensor whole = rotated(Variable(x)).value();
      const auto cache = std::make_shared<KVCache>();
      for (const auto& [begin, end] : std::vector<Range>{{0, 4}, {4, 5}, {5, 7}, {7, 9}}) {
        const Tensor now = x.reshape({9, width}).slice(begin, end).reshape({1, end - begin, width});
        expect_close(values_of(rotated(Variable(now), {.kv_cache = cache}).value()),
                     values_of(whole.reshape({9, width}).slice(begin, end)),
                     1e-12);
        cache->advance(end - begin);
      }
    }
}

}  // namespace
}  // namespace longspan::rotary_test
