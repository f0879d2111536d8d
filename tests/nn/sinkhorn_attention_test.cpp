#include "framework/nn/attention/sinkhorn_attention.h"

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/layer_testing.h"

namespace longspan::sinkhorn_attention_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t batch = 2, heads = 2, dim = 4, width = 6;

std::unique_ptr<MultiHeadAttention> layer_of(Parameters& parameters,
                                             const SinkhornOptions& sinkhorn,
                                             bool causal,
                                             double dropout = 0) {
  const Scope scope = Scope(parameters).child("attention");
  auto layer = std::make_unique<MultiHeadAttention>(
      scope,
      MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim},
      std::make_unique<SinkhornAttentionOp>(scope,
                                            SinkhornAttentionOp::Options{.sinkhorn = sinkhorn,
                                                                         .causal = causal,
                                                                         .heads = heads,
                                                                         .dim = dim,
                                                                         .dropout = dropout}));
  allocate_randomly(parameters, 3);
  return layer;
}

AttentionContext seeing(bool causal, const std::vector<std::int64_t>& lengths = {}) {
  AttentionContext context;
  context.mask.rules = causal ? masks::causal() : masks::everything();
  if (!lengths.empty())
    context.mask.key_length =
        Tensor::from<std::int64_t>(lengths, {std::ssize(lengths)}, backend_device());
  return context;
}

Values run(const MultiHeadAttention& layer, const Tensor& x, const AttentionContext& context) {
  return values_of(layer(Variable(x), Variable(), context, ForwardContext()).value());
}

TEST(SinkhornAttention, GradientMatchesFiniteDifferences) {
  struct Way {
    bool causal;
    std::int64_t top;
    std::vector<std::int64_t> lengths = {};
  };
  for (const Way& way : std::vector<Way>{{true, 1},
                                         {true, 2},
                                         {false, 0},
                                         {false, 2},
                                         {false, 0, {11, 5}},
                                         {false, 2, {11, 5}}}) {
    Parameters parameters = one_process_parameters();
    const auto layer = layer_of(parameters, {.block = 3, .top = way.top}, way.causal, 0.3);
    const ForwardContext pass = {
        .training = true, .random = Random(5), .decisions = std::make_shared<DecisionCache>()};
    const AttentionContext context = seeing(way.causal, way.lengths);
    expect_layer_gradients(
        parameters,
        [&](const auto& in) { return (*layer)(in[0], Variable(), context, pass); },
        {random_tensor({batch, 11, width}, 1)},
        {.step = way.top == 0 ? 1e-5 : 1e-4, .directions = 1, .elements = 1});
  }
}

// With blocks of 4: less than one block, a partial last block, and only full blocks.
TEST(SinkhornAttention, CausalModeDoesNotDependOnLaterTokens) {
  for (const bool rotated : {false, true})
    for (const std::int64_t time : {2, 11, 16}) {
      Parameters parameters = one_process_parameters();
      const auto layer = layer_of(parameters, {.block = 4, .rotated = rotated}, true);
      const Tensor x = random_tensor({1, time, width}, 1);
      const Values before = run(*layer, x, seeing(true));
      for (std::int64_t changed = 0; changed < time; ++changed) {
        const Tensor other = x.clone();
        for (std::int64_t i = 0; i < width; ++i) other.data<double>()[changed * width + i] *= -3;
        const Values after = run(*layer, other, seeing(true));
        const auto row = static_cast<std::size_t>(changed * width);
        double leak = 0;
        for (std::size_t i = 0; i < row; ++i) leak = std::max(leak, std::abs(before[i] - after[i]));
        EXPECT_LT(leak, 1e-12) << changed << " of " << time;
        EXPECT_NE(before[row], after[row]);
      }
    }
}

TEST(SinkhornAttention, AttendsToOtherBlocks) {
  for (const bool causal : {false, true}) {
    Parameters parameters = one_process_parameters();
    const auto layer = layer_of(parameters, {.block = 4, .rotated = false}, causal);
    const Tensor x = random_tensor({1, 8, width}, 1), other = x.clone();
    other.data<double>()[0] += 1;
    EXPECT_NE(run(*layer, x, seeing(causal)).back(), run(*layer, other, seeing(causal)).back());
  }
}

TEST(SinkhornAttention, OneBlockMatchesFullAttention) {
  Parameters parameters = one_process_parameters(), others = one_process_parameters();
  const auto layer = layer_of(parameters, {.block = 8}, false);
  const MultiHeadAttention full(Scope(others).child("attention"),
                                {.width = width, .heads = heads, .dim = dim},
                                std::make_unique<SoftmaxAttention>(0));
  allocate_randomly(others, 3);
  const Tensor x = random_tensor({batch, 8, width}, 1);
  expect_close(run(*layer, x, seeing(false)),
               values_of(full(Variable(x), Variable(), seeing(false), ForwardContext()).value()),
               1e-12);
}

// The row ends within the last block or, if blocks are selected, before it.
TEST(SinkhornAttention, PaddedRowMatchesShorterRow) {
  struct Way {
    std::int64_t top, length;
  };
  for (const Way& way : {Way{0, 10}, Way{1, 10}, Way{2, 10}, Way{1, 6}, Way{2, 6}, Way{2, 3}})
    for (int seed = 1; seed <= 4; ++seed) {
      Parameters parameters = one_process_parameters();
      const auto layer = layer_of(parameters, {.block = 4, .top = way.top}, false);
      const Tensor x = random_tensor({1, 12, width}, static_cast<std::uint64_t>(seed));
      const Tensor start =
          x.reshape({12, width}).slice(0, way.length).reshape({1, way.length, width});
      Values padded = run(*layer, x, seeing(false, {way.length}));
      padded.resize(static_cast<std::size_t>(way.length * width));
      const Values alone = run(*layer, start, seeing(false));
      // Selected blocks of padding are masked.
      expect_close(padded, alone, 1e-13);
    }
}

// The output of the last block depends on the tokens of the selected block.
TEST(SinkhornAttention, AttendsToSelectedBlocksWithPadding) {
  Parameters parameters = one_process_parameters();
  const auto layer = layer_of(parameters, {.block = 4, .top = 1}, false);
  const Tensor x = random_tensor({1, 12, width}, 1);
  const Values before = run(*layer, x, seeing(false, {11}));
  double changed = 0;
  for (std::int64_t token = 0; token < 8; ++token) {
    const Tensor other = x.clone();
    for (std::int64_t i = 0; i < width; ++i) other.data<double>()[token * width + i] *= -1;
    const Values after = run(*layer, other, seeing(false, {11}));
    for (std::size_t i = 8 * width; i < 11 * width; ++i) changed += std::abs(after[i] - before[i]);
  }
  EXPECT_GT(changed, 1e-3);
}

TEST(SinkhornAttention, ReportsIncompatibleOptions) {
  const auto problem = [](const SinkhornOptions& sinkhorn, const AttentionBuildOptions& setting) {
    return problem_of(AttentionOptions{.kinds = {"sinkhorn"}, .sinkhorn = sinkhorn}, setting);
  };
  EXPECT_EQ(problem({}, {.segment = 100}), "");
  EXPECT_EQ(problem({.top = 0}, {.segment = 100, .causal = false}), "");
  EXPECT_NE(problem({}, {.memory = true}).find("support model.mem_len"), std::string::npos);
  EXPECT_NE(problem({.top = 0}, {}).find("does not support causal models"), std::string::npos);
  EXPECT_NE(problem({}, {.heads = 2, .mesh = {.context = 4}}).find("type sinkhorn requires"),
            std::string::npos);
}

}  // namespace
}  // namespace longspan::sinkhorn_attention_test
