#include "framework/nn/attention/routing_attention.h"

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/layer_testing.h"

namespace longspan::routing_attention_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t batch = 2, heads = 2, dim = 4, width = 6, time = 13;

std::unique_ptr<MultiHeadAttention> layer_of(Parameters& parameters,
                                             const RoutingOptions& routing,
                                             double dropout = 0) {
  const Scope scope = Scope(parameters).child("attention");
  auto layer = std::make_unique<MultiHeadAttention>(
      scope,
      MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim},
      std::make_unique<RoutingAttention>(
          scope,
          RoutingAttention::Options{.routing = routing,
                                    .clusters = routing.clusters.value_or(3),
                                    .heads = heads,
                                    .dim = dim,
                                    .dropout = dropout}));
  allocate_randomly(parameters, 3);
  return layer;
}

AttentionContext seeing(const Mask& rules, const std::vector<std::int64_t>& lengths = {}) {
  AttentionContext context;
  context.mask.rules = rules;
  if (!lengths.empty())
    context.mask.key_length =
        Tensor::from<std::int64_t>(lengths, {std::ssize(lengths)}, backend_device());
  return context;
}

struct Way {
  bool shared;
  bool strict;
  bool causal;
};
const std::vector<Way> ways = {{true, false, true},
                               {true, false, false},
                               {false, false, true},
                               {false, false, false},
                               {true, true, true}};

// Clusters of the first call are cached: finite differences must not change them.
TEST(RoutingAttention, GradientMatchesFiniteDifferences) {
  for (const Way& way : ways)
    for (const bool padded : {false, true}) {
      Parameters parameters = one_process_parameters();
      const auto layer =
          layer_of(parameters, {.width = 5, .shared = way.shared, .strict = way.strict}, 0.3);
      ForwardContext pass = {
          .training = true, .random = Random(5), .decisions = std::make_shared<DecisionCache>()};
      const Mask rules = way.causal ? masks::causal() : masks::everything();
      const AttentionContext context = padded ? seeing(rules, {time, 7}) : seeing(rules);
      expect_layer_gradients(
          parameters,
          [&](const auto& in) { return (*layer)(in[0], Variable(), context, pass); },
          {random_tensor({batch, time, width}, 1)},
          {.directions = 1, .elements = 1});
    }
}

TEST(RoutingAttention, OneClusterMatchesFullAttention) {
  for (const Mask& rules : {masks::causal(), masks::everything()}) {
    const Tensor x = random_tensor({batch, time, width}, 1);
    Parameters parameters = one_process_parameters(), others = one_process_parameters();
    const auto routed = layer_of(parameters, {.clusters = 1, .shared = false});
    const MultiHeadAttention full(Scope(others).child("attention"),
                                  {.width = width, .heads = heads, .dim = dim},
                                  std::make_unique<SoftmaxAttention>(0));
    allocate_randomly(others, 3);
    expect_close(
        values_of((*routed)(Variable(x), Variable(), seeing(rules), ForwardContext()).value()),
        values_of(full(Variable(x), Variable(), seeing(rules), ForwardContext()).value()),
        1e-12);
  }
}

// Max change of the outputs before a changed token.
double leak(const RoutingOptions& routing) {
  Parameters parameters = one_process_parameters();
  const auto layer = layer_of(parameters, routing);
  const auto run = [&](const Tensor& x) {
    return values_of(
        (*layer)(Variable(x), Variable(), seeing(masks::causal()), ForwardContext()).value());
  };
  double largest = 0;
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    const Tensor x = random_tensor({1, time, width}, seed);
    const Values before = run(x);
    for (std::int64_t changed = 1; changed < time; ++changed) {
      const Tensor other = x.clone();
      for (std::int64_t i = 0; i < width; ++i) other.data<double>()[changed * width + i] *= -3;
      const Values after = run(other);
      EXPECT_NE(before[static_cast<std::size_t>(changed * width)],
                after[static_cast<std::size_t>(changed * width)]);
      for (std::size_t i = 0; i < static_cast<std::size_t>(changed * width); ++i)
        largest = std::max(largest, std::abs(before[i] - after[i]));
    }
  }
  return largest;
}

TEST(RoutingAttention, StrictModeDoesNotDependOnLaterTokens) {
  EXPECT_LT(leak({.width = 4, .strict = true}), 1e-12);
}

TEST(RoutingAttention, PublishedModeDependsOnLaterTokens) { EXPECT_GT(leak({.width = 4}), 1e-3); }

TEST(RoutingAttention, UpdatesCentroidsOncePerTrainingStep) {
  const auto moved = [&](int times, bool training, bool counts) {
    Parameters parameters = one_process_parameters();
    const auto layer = layer_of(parameters, {.decay = 0.5});
    const EmaCentroids& centroids = *parameters.centroids().front();
    const Values before = values_of(centroids.centroids);
    const ForwardContext pass = {
        .training = training, .random = Random(5), .decisions = std::make_shared<DecisionCache>()};
    for (int i = 0; i < times; ++i)
      (*layer)(Variable(random_tensor({batch, time, width}, 1)),
               Variable(),
               seeing(masks::causal()),
               pass);
    double counted = 0;
    for (const double count : values_of(centroids.counts)) counted += count;
    EXPECT_EQ(counted, training ? batch * time * heads : 0);
    parameters.end_step(counts);
    for (const double count : values_of(centroids.counts)) EXPECT_EQ(count, 0);
    const Values after = values_of(centroids.centroids);
    for (std::size_t i = 0; i < after.size(); i += dim) {
      double squares = 0;
      for (std::size_t d = 0; d < dim; ++d) squares += after[i + d] * after[i + d];
      EXPECT_NEAR(squares, 1, 1e-12);
    }
    double by = 0;
    for (std::size_t i = 0; i < after.size(); ++i) by += std::abs(after[i] - before[i]);
    return by;
  };
  const double once = moved(1, true, true);
  EXPECT_GT(once, 0.1);
  EXPECT_EQ(moved(2, true, true), once);
  EXPECT_EQ(moved(1, true, false), 0) << "the step was skipped";
  EXPECT_EQ(moved(1, false, true), 0);
}

TEST(RoutingAttention, ReportsIncompatibleOptions) {
  const auto problem = [](const RoutingOptions& routing, const AttentionBuildOptions& setting) {
    return problem_of(AttentionOptions{.kinds = {"routing"}, .routing = routing}, setting);
  };
  EXPECT_EQ(problem({}, {.segment = 100}), "");
  EXPECT_EQ(problem({}, {.segment = 100, .causal = false, .examples = true}), "");
  EXPECT_NE(problem({}, {.memory = true}).find("support model.mem_len"), std::string::npos);
  EXPECT_NE(
      problem({.strict = true}, {.causal = false}).find("model.attention.routing.strictly_causal"),
      std::string::npos);
  EXPECT_NE(problem({.shared = false, .strict = true}, {}).find("routing.share_qk: true"),
            std::string::npos);
  EXPECT_EQ(problem({}, {.heads = 2, .mesh = {.context = 2, .tensor = 2}}),
            "model.num_attention_heads: attention type routing requires a multiple of 2 x 2 "
            "(tensor and context ranks), found 2");
}

}  // namespace
}  // namespace longspan::routing_attention_test
