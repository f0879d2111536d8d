#include "framework/nn/attention/synthesizer_attention.h"

#include <cmath>

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "tests/nn/layer_testing.h"

namespace longspan::synthesizer_attention_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t batch = 2, heads = 2, dim = 3, width = 5, longest = 10;

const std::vector<std::vector<std::string>> all_scores = {
    {"dense"},
    {"random"},
    {"factorized_dense"},
    {"factorized_random"},
    {"random", "dot_product"},
    {"dense", "factorized_random", "factorized_dense"}};

std::unique_ptr<MultiHeadAttention> layer_of(Parameters& parameters,
                                             const std::vector<std::string>& scores,
                                             double dropout = 0) {
  const Scope scope = Scope(parameters).child("attention");
  auto layer = std::make_unique<MultiHeadAttention>(
      scope,
      MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim},
      std::make_unique<SynthesizerAttention>(
          scope,
          SynthesizerAttention::Options{.synthesizer = {.scores = scores, .rank = 2},
                                        .longest = longest,
                                        .heads = heads,
                                        .dim = dim,
                                        .width = width,
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

TEST(Synthesizer, GradientMatchesFiniteDifferences) {
  for (const auto& scores : all_scores)
    for (const bool causal : {false, true}) {
      Parameters parameters = one_process_parameters();
      const auto layer = layer_of(parameters, scores, 0.3);
      const ForwardContext pass = {.training = true, .random = Random(5)};
      const AttentionContext context =
          causal ? seeing(masks::causal()) : seeing(masks::everything(), {8, 3});
      expect_layer_gradients(
          parameters,
          [&](const auto& in) { return (*layer)(in[0], Variable(), context, pass); },
          {random_tensor({batch, 8, width}, 1)},
          {.directions = 1, .elements = 1});
    }
}

TEST(Synthesizer, OnlyDotProductHasQueryAndKeyWeights) {
  for (const auto& scores : all_scores) {
    Parameters parameters = one_process_parameters();
    layer_of(parameters, scores);
    const bool compares = scores.back() == "dot_product";
    EXPECT_EQ(parameters.find("attention/query/weight") != nullptr, compares);
    EXPECT_EQ(parameters.find("attention/key/weight") != nullptr, compares);
  }
}

TEST(Synthesizer, MixtureWeightsHaveNoWeightDecay) {
  Parameters parameters = one_process_parameters();
  layer_of(parameters, {"random", "dot_product"});
  EXPECT_FALSE(parameters.named("attention/mixture").decays);
  EXPECT_TRUE(parameters.named("attention/random/scores").decays);
}

// Definition of the layer: scores, softmax over the keys up to the query, values.
TEST(Synthesizer, MatchesDefinition) {
  constexpr std::int64_t time = 7, factor = 4;  // for 10 positions
  std::optional<Parameters> parameters;
  const auto at = [&](const std::string& name, std::int64_t i) {
    return parameters->named("attention/" + name).master.data<double>()[i];
  };
  const Tensor x = random_tensor({1, time, width}, 1);
  const auto map = [&](const std::string& name, std::int64_t i, std::int64_t out) {
    double sum = at(name + "/bias", out);
    for (std::int64_t c = 0; c < width; ++c)
      sum += at(name + "/weight", out * width + c) * x.data<double>()[i * width + c];
    return sum;
  };
  const auto table = [&](const std::string& name,
                         std::int64_t i,
                         std::int64_t h,
                         std::int64_t f,
                         std::int64_t features) {
    return at(name, (i * heads + h) * features + f);
  };
  const auto score = [&](const std::string& kind, std::int64_t h, std::int64_t i, std::int64_t j) {
    if (kind == "random") return table("random/scores", i, h, j, longest);
    double sum = 0;
    if (kind == "factorized_random") {
      for (std::int64_t f = 0; f < 2; ++f)
        sum += table("factorised_random/queries", i, h, f, 2) *
               table("factorised_random/keys", j, h, f, 2);
      return sum;
    }
    if (kind == "factorized_dense")
      return map("factorised_dense/low", i, h * factor + j % factor) *
             map("factorised_dense/high", i, h * 3 + j / factor);
    if (kind == "dot_product") {
      for (std::int64_t d = 0; d < dim; ++d)
        sum += map("query", i, h * dim + d) * map("key", j, h * dim + d);
      return sum / std::sqrt(static_cast<double>(dim));
    }
    sum = table("dense/key_bias", j, h, 0, 1);
    for (std::int64_t d = 0; d < dim; ++d)
      sum += std::max(0.0, map("dense/hidden", i, h * dim + d)) * table("dense/keys", j, h, d, dim);
    return sum;
  };
  for (const auto& scores : all_scores) {
    parameters.emplace(one_process_parameters());
    const auto layer = layer_of(*parameters, scores);
    std::vector<double> shares(scores.size(), 1);
    double total = 0;
    for (std::size_t s = 0; scores.size() > 1 && s < scores.size(); ++s)
      total += shares[s] = std::exp(at("mixture", static_cast<std::int64_t>(s)));
    if (scores.size() > 1)
      for (double& share : shares) share /= total;
    Values mixed(time * heads * dim, 0);
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < time; ++i) {
        Values weights;
        double sum = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          double logit = 0;
          for (std::size_t s = 0; s < scores.size(); ++s)
            logit += shares[s] * score(scores[s], h, i, j);
          weights.push_back(std::exp(logit));
          sum += weights.back();
        }
        for (std::int64_t j = 0; j <= i; ++j)
          for (std::int64_t d = 0; d < dim; ++d)
            mixed[static_cast<std::size_t>((i * heads + h) * dim + d)] +=
                weights[static_cast<std::size_t>(j)] / sum * map("value", j, h * dim + d);
      }
    Values expected;
    for (std::int64_t i = 0; i < time; ++i)
      for (std::int64_t c = 0; c < width; ++c) {
        double sum = at("out/bias", c);
        for (std::int64_t f = 0; f < heads * dim; ++f)
          sum += at("out/weight", c * heads * dim + f) *
                 mixed[static_cast<std::size_t>(i * heads * dim + f)];
        expected.push_back(sum);
      }
    expect_close(
        values_of(
            (*layer)(Variable(x), Variable(), seeing(masks::causal()), ForwardContext()).value()),
        expected,
        1e-12);
  }
}

TEST(Synthesizer, ReportsInvalidOptions) {
  const auto problem = [](const SynthesizerOptions& own, const AttentionBuildOptions& setting) {
    return problem_of(AttentionOptions{.kinds = {"synthesizer"}, .synthesizer = own}, setting);
  };
  EXPECT_EQ(problem({}, {.segment = 100}), "");
  EXPECT_NE(problem({.scores = {"magic"}}, {}).find("expected one of dense, random"),
            std::string::npos);
  EXPECT_EQ(problem({.scores = {"dense", "dense"}}, {}),
            "model.attention.synthesizer.variants: dense occurs more than once");
  EXPECT_NE(problem({}, {.memory = true}).find("support model.mem_len"), std::string::npos);
  EXPECT_EQ(problem({.longest = 10}, {.segment = 11}),
            "model.attention.synthesizer.max_length: expected at least 11 (positions of a "
            "sequence), found 10");
}

}  // namespace
}  // namespace longspan::synthesizer_attention_test
