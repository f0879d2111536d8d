// Global positions, windows and random blocks.
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/masked_attention_kinds.h"
#include "tests/nn/attention_kinds_testing.h"
#include "tests/nn/layer_testing.h"

namespace longspan::global_attention_test {
namespace {

using namespace testing::kinds;

GlobalLocalPattern big_bird(bool causal) {
  return {.positions = {0, 1, 70},
          .left = 6,
          .right = causal ? 0 : 6,
          .random_blocks = 3,
          .block = 5,
          .causal = causal,
          .random = Random(4).child("head")};
}

TEST(GlobalLocalPattern, RandomBlocksAreDistinctAndExcludeWindowAndGlobals) {
  for (const bool causal : {true, false}) {
    const GlobalLocalPattern global = big_bird(causal);
    const std::int64_t positions = 98;  // the last block is partial
    const auto lists = random_blocks(global, positions);
    ASSERT_EQ(lists.size(), 20u);
    for (std::int64_t block = 0; block < 20; ++block) {
      const auto& list = lists[static_cast<std::size_t>(block)];
      EXPECT_EQ(std::set<std::int64_t>(list.begin(), list.end()).size(), list.size());
      std::int64_t candidates = 0;
      for (std::int64_t other = 0; other < 20; ++other) {
        const bool touched =
            other * 5 + 4 >= block * 5 - 6 && (causal || other * 5 <= block * 5 + 4 + global.right);
        const bool taken = other == 0 || other == 14;
        if (touched || taken) {
          EXPECT_EQ(std::ranges::count(list, other), 0) << "block " << block;
        }
        candidates += !touched && !taken;
      }
      EXPECT_EQ(std::ssize(list), std::min<std::int64_t>(3, candidates)) << "block " << block;
    }
  }
}

TEST(GlobalLocalPattern, RandomBlocksDependOnHeadAndCoverFreeBlocks) {
  const GlobalLocalPattern global = big_bird(true);
  EXPECT_EQ(random_blocks(global, 98), random_blocks(global, 98));
  GlobalLocalPattern other = global;
  other.random = Random(4).child("another head");
  EXPECT_NE(random_blocks(global, 98), random_blocks(other, 98));
  // Every free block is drawn for some head.
  std::set<std::int64_t> drawn;
  for (std::uint64_t head = 0; head < 100; ++head) {
    other.random = Random(4).child(head);
    const auto lists = random_blocks(other, 98);
    drawn.insert(lists[9].begin(), lists[9].end());
  }
  EXPECT_EQ(drawn, (std::set<std::int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(GlobalLocalPattern, CausalRandomBlocksDoNotDependOnLength) {
  auto longer = random_blocks(big_bird(true), 98);
  longer.resize(12);
  EXPECT_EQ(random_blocks(big_bird(true), 60), longer);
}

TEST(GlobalLocalPattern, MatchesDenseAttentionWithBlocksPerHeadAndLayer) {
  AttentionOptions options = with("global_local", {.sliding_window = {4}});
  options.random = 2;
  options.block = 4;
  options.seed = 5;
  const auto patterns = attention_patterns(options, {.layers = 2, .heads = heads});
  const std::int64_t time = 61;
  const auto lists = [&](std::int64_t layer, std::int64_t head) {
    GlobalLocalPattern global = {.positions = {0}, .left = 3, .random_blocks = 2, .block = 4};
    global.random = Random(5)
                        .child("random_blocks")
                        .child(static_cast<std::uint64_t>(layer))
                        .child(static_cast<std::uint64_t>(head));
    return random_blocks(global, time);
  };
  EXPECT_NE(lists(0, 0), lists(0, 1));
  EXPECT_NE(lists(0, 0), lists(1, 0));
  const Sequence sequence(time);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    std::vector<std::vector<std::vector<std::int64_t>>> table;
    for (std::int64_t head = 0; head < heads; ++head) table.push_back(lists(layer, head));
    const Sees sees_random = [&](std::int64_t h, std::int64_t p, std::int64_t k) {
      const auto& list = table[static_cast<std::size_t>(h)][static_cast<std::size_t>(p / 4)];
      return std::ranges::count(list, k / 4) > 0;
    };
    expect_same(run(patterns[static_cast<std::size_t>(layer)], sequence),
                dense(sequence,
                      sees::either(sees_random, sees::either(sees::local(3), sees::global({0})))));
  }
}

AttentionOptions own_projections(const std::string& kinds, std::vector<std::int64_t> positions) {
  return with(kinds,
              {.sliding_window = {3},
               .stride = 4,
               .global = std::move(positions),
               .global_projections = true});
}

// Queries, keys and values of the rows at global positions come from one sequence, all others from
// another.
TEST(GlobalProjections, ApplyOnlyAtGlobalPositions) {
  const std::int64_t time = 70;
  const std::set<std::int64_t> positions = {0, 5, 66};
  const Sees global = sees::global(positions);
  const std::vector<std::pair<std::string, Sees>> cases = {
      {"global_local", sees::either(sees::local(2), global)},
      {"sliding_window/global_local",
       sees::by_head({sees::local(2), sees::either(sees::local(2), global)})},
      {"strided/global_local+strided",
       sees::by_head({sees::strided(4),
                      sees::either(sees::strided(4), sees::either(sees::local(2), global))})}};
  for (const auto& [kinds, sees] : cases) {
    SCOPED_TRACE(kinds);
    const auto is_own = [&](std::int64_t h, std::int64_t p) {
      return positions.contains(p) && (kinds == "global_local" || h % 2 == 1);
    };
    const Sees own = [&](std::int64_t h, std::int64_t p, std::int64_t) { return is_own(h, p); };
    const Sees others = [&](std::int64_t h, std::int64_t p, std::int64_t k) {
      return !is_own(h, p) && sees(h, p, k);
    };
    const Sequence usual(time);
    Sequence special(time);
    special.query = testing::random_tensor(usual.query.shape(), 11);
    special.key = testing::random_tensor(usual.key.shape(), 12);
    special.value = testing::random_tensor(usual.value.shape(), 13);
    const auto leaf = [](const Tensor& x) { return Variable::leaf(x.clone()); };
    const ProjectedQKV projected = {
        .query = leaf(usual.query),
        .key = leaf(usual.key),
        .value = leaf(usual.value),
        .heads = all_heads,
        .global =
            ProjectedQKV::Global{leaf(special.query), leaf(special.key), leaf(special.value)}};
    const AttentionPattern pattern = pattern_of(own_projections(kinds, {0, 5, 66}));
    const Variable y =
        SoftmaxAttention(0, pattern)(projected, AttentionContext{}, ForwardContext());
    backward({y}, {usual.upstream.clone()});
    const Results of_usual = dense(usual, others), of_special = dense(special, own);
    testing::Values sum = of_usual.y;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_special.y[i];
    const auto gradients = [&](const Variable& q, const Variable& k, const Variable& v) {
      return Results{testing::values_of(y.value()),
                     testing::values_of(q.gradient()),
                     testing::values_of(k.gradient()),
                     testing::values_of(v.gradient())};
    };
    expect_same(gradients(projected.query, projected.key, projected.value),
                {sum, of_usual.dquery, of_usual.dkey, of_usual.dvalue});
    const auto& local_rows = *projected.global;
    expect_same(gradients(local_rows.query, local_rows.key, local_rows.value),
                {sum, of_special.dquery, of_special.dkey, of_special.dvalue});
    EXPECT_DOUBLE_EQ(
        attention_pairs(pattern, masks::causal(), time, 0, testing::backend_device()),
        attention_pairs(
            pattern_of(with(kinds, {.sliding_window = {3}, .stride = 4, .global = {0, 5, 66}})),
            masks::causal(),
            time,
            0,
            testing::backend_device()));
  }
}

std::unique_ptr<MultiHeadAttention> layer_of(Parameters& parameters,
                                             const AttentionOptions& options) {
  return std::make_unique<MultiHeadAttention>(
      Scope(parameters).child("attention"),
      MultiHeadAttention::Options{
          .width = 6, .heads = heads, .dim = dim, .initial = Initializer::normal(0.5)},
      std::make_unique<SoftmaxAttention>(0, pattern_of(options)));
}

// Projections start as copies, so a layer with only global positions starts as full attention.
TEST(GlobalProjections, InitialCopiesMatchSharedProjections) {
  const Tensor x = testing::random_tensor({batch, 9, 6}, 1);
  const auto run = [&](const AttentionOptions& options) {
    Parameters parameters = testing::one_process_parameters();
    const auto layer = layer_of(parameters, options);
    parameters.allocate(Random(3));
    return testing::values_of(
        (*layer)(Variable(x), Variable(), AttentionContext(), ForwardContext()).value());
  };
  testing::expect_close(
      run(own_projections("global_local", {0, 1, 2, 3, 4, 5, 6, 7, 8})), run(with("full")), 1e-13);
  testing::expect_close(run(own_projections("global_local", {0, 3})),
                        run(with("global_local", {.sliding_window = {3}, .global = {0, 3}})),
                        1e-13);
}

TEST(GlobalProjections, GradientMatchesFiniteDifferences) {
  Parameters parameters = testing::one_process_parameters();
  const auto layer = layer_of(parameters, own_projections("sliding_window/global_local", {0, 3}));
  testing::allocate_randomly(parameters, 3);
  EXPECT_NO_THROW(parameters.named("attention/global_key/weight"));
  testing::expect_layer_gradients(parameters,
                                  [&](const auto& in) {
                                    return (*layer)(
                                        in[0], Variable(), AttentionContext(), ForwardContext());
                                  },
                                  {testing::random_tensor({batch, 9, 6}, 1)},
                                  {.directions = 1, .elements = 2});
}

}  // namespace
}  // namespace longspan::global_attention_test
