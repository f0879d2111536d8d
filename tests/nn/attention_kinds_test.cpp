// Every attention type against dense attention with the mask of its definition.
#include "tests/nn/attention_kinds_testing.h"

namespace longspan::attention_kinds_test {
namespace {

using namespace testing::kinds;
using testing::backend_device;
using testing::expect_close;
using testing::Values;
using testing::values_of;

struct Case {
  std::string name;
  AttentionOptions options;
  Sees sees;
};

// Defaults: stride 4 and window 2.
std::vector<Case> cases() {
  using namespace sees;
  const AttentionOptions base = {.sliding_window = {3},
                                 .local_1d = {.filter_width = 2, .block_length = 4},
                                 .dilation = 3,
                                 .stride = 4,
                                 .summary = 1,
                                 .global = {0, 5}};
  AttentionOptions groups = base;
  groups.summary = 2;
  groups.summary_groups = 2;
  AttentionOptions no_self = base;
  no_self.self = false;
  AttentionOptions wide = base;
  wide.sliding_window = {10};  // reaches two columns
  return {
      {"full", with("full", base), causal()},
      {"sliding_window", with("sliding_window", base), local(2)},
      {"dilated", with("dilated", base), dilated(2, 3)},
      {"strided", with("strided", base), strided(4)},
      {"local_1d", with("local_1d", base), block_window(4, 2)},
      {"block", with("block", base), block(4)},
      {"summary", with("summary", base), either(summary(4, 1), self())},
      {"summary without itself", with("summary", no_self), summary(4, 1)},
      {"fixed", with("fixed", base), either(block(4), summary(4, 1))},
      {"fixed, two groups", with("fixed", groups), either(block(4), summary(4, 2, 2))},
      {"global_local", with("global_local", base), either(local(2), global({0, 5}))},
      {"sliding_window+strided",
       with("sliding_window+strided", base),
       either(local(2), strided(4))},
      {"wide sliding_window+strided",
       with("sliding_window+strided", wide),
       either(local(9), strided(4))},
      {"strided+global_local",
       with("strided+global_local", base),
       either(strided(4), either(local(2), global({0, 5})))},
      {"sliding_window/strided",
       with("sliding_window/strided", base),
       by_head({local(2), strided(4)})},
      {"sliding_window+strided/dilated",
       with("sliding_window+strided/dilated", base),
       by_head({either(local(2), strided(4)), dilated(2, 3)})},
      {"strided/fixed, two groups",
       with("strided/fixed", groups),
       by_head({strided(4), either(block(4), summary(4, 2, 2, 2))})},
      {"full/block+summary/sliding_window/strided+global_local",
       with("full/block+summary/sliding_window/strided+global_local", base),
       by_head({causal(),
                either(block(4), either(summary(4, 1), self())),
                local(2),
                either(strided(4), either(local(2), global({0, 5})))})},
  };
}

constexpr std::int64_t times[] = {1, 3, 4, 5, 8, 13, 70};

TEST(AttentionKinds, MatchesDenseAttentionWithDefinedMask) {
  for (const Case& c : cases())
    for (const std::int64_t time : times) {
      SCOPED_TRACE(c.name + ", time " + std::to_string(time));
      const Sequence sequence(time);
      expect_same(run(pattern_of(c.options), sequence), dense(sequence, c.sees));
    }
}

// Without causality the definitions also hold for later keys (Child et al. 2019 without j <= i,
// Beltagy et al. 2020).
TEST(AttentionKinds, AttendsToBothSidesInEncoders) {
  for (const Case& c : cases()) {
    const AttentionPattern pattern = pattern_of(c.options, false);
    for (const std::int64_t time : times) {
      SCOPED_TRACE(c.name + ", time " + std::to_string(time));
      const Sequence sequence(time);
      expect_same(run(pattern, sequence, false), dense(sequence, c.sees, false));
    }
    std::int64_t later = 0;
    for (std::int64_t p = 0; p < 16; ++p)
      for (std::int64_t k = p + 1; k < 16; ++k) later += pattern.rules(16).of(0).allows(p, k);
    EXPECT_GT(later, 0) << c.name;
  }
}

TEST(AttentionKinds, FirstPositionAttendsToItselfUnlessDisabled) {
  for (const Case& c : cases())
    for (std::int64_t head = 0; head < heads; ++head)
      EXPECT_EQ(pattern_of(c.options).rules(16).of(head).allows(0, 0), c.options.self) << c.name;
}

TEST(AttentionKinds, HeadShardsMatchAllHeads) {
  for (const Case& c : cases())
    for (const std::int64_t time : {5, 40}) {
      SCOPED_TRACE(c.name + ", time " + std::to_string(time));
      const Sequence sequence(time);
      const Results expected = dense(sequence, c.sees);
      for (const ShardRange& part : {ShardRange{0, 1, heads}, ShardRange{1, 3, heads}}) {
        const Results found =
            run(SoftmaxAttention(0, pattern_of(c.options)), sequence, part, ForwardContext());
        const auto piece = [&](const Values& whole, std::int64_t width) {
          const Tensor x = testing::tensor_of<double>(whole, {batch, time, heads, width});
          return values_of(heads_of(x, part));
        };
        expect_same(found,
                    {piece(expected.y, value_dim),
                     piece(expected.dquery, dim),
                     piece(expected.dkey, dim),
                     piece(expected.dvalue, value_dim)});
      }
    }
}

// Folded columns have the dropout mask of their original positions.
TEST(AttentionKinds, DropoutMatchesUnfoldedCall) {
  const AttentionPattern pattern =
      pattern_of(with("sliding_window+strided", {.sliding_window = {3}, .stride = 4}));
  const Sequence sequence(40);
  const ForwardContext pass = {.training = true, .random = Random(3)};
  const ProjectedQKV projected = {.query = Variable(sequence.query),
                                  .key = Variable(sequence.key),
                                  .value = Variable(sequence.value),
                                  .heads = all_heads};
  const Variable found = SoftmaxAttention(0.5, pattern)(projected, AttentionContext{}, pass);
  AttentionContext context;
  context.mask.rules = pattern.rules(40).of(0) & masks::causal();
  const Variable expected = SoftmaxAttention(0.5)(projected, context, pass);
  expect_close(values_of(found.value()), values_of(expected.value()), 1e-12);
}

TEST(AttentionKinds, AlternatesByLayerWithSeparateWindows) {
  AttentionOptions options = {
      .kinds = {"sliding_window", "strided"}, .sliding_window = {2, 3, 4}, .stride = 4};
  const auto patterns = attention_patterns(options, {.layers = 3, .heads = heads});
  ASSERT_EQ(patterns.size(), 3u);
  const Sequence sequence(13);
  expect_same(run(patterns[0], sequence), dense(sequence, sees::local(1)));
  expect_same(run(patterns[1], sequence), dense(sequence, sees::strided(4)));
  expect_same(run(patterns[2], sequence), dense(sequence, sees::local(3)));
}

TEST(AttentionKinds, EqualsFullAttentionAtItsLimits) {
  const Sequence sequence(13);
  const Results full = dense(sequence, sees::causal());
  expect_same(run(pattern_of(with("sliding_window", {.sliding_window = {13}})), sequence), full);
  expect_same(run(pattern_of(with("strided", {.stride = 1})), sequence), full);
  expect_same(run(pattern_of(with("block", {.stride = 13})), sequence), full);
  AttentionOptions all = with("global_local", {.sliding_window = {1}});
  all.global = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  expect_same(run(pattern_of(all), sequence), full);
}

TEST(AttentionKinds, PermutingHeadsEqualsPermutingTypes) {
  const AttentionOptions base = {.sliding_window = {3}, .stride = 4};
  const Sequence sequence(40);
  Sequence permuted = sequence;  // head h is head h ^ 1
  for (Tensor* const x : {&permuted.query, &permuted.key, &permuted.value, &permuted.upstream}) {
    const Tensor from = *x;
    *x = from.clone();
    const std::int64_t width = from.shape()[3];
    for (std::int64_t row = 0; row < from.elements() / width; ++row)
      std::copy_n(from.data<double>() + (row ^ 1) * width, width, x->data<double>() + row * width);
  }
  const Results found = run(pattern_of(with("sliding_window/strided", base)), permuted);
  const Results expected = run(pattern_of(with("strided/sliding_window", base)), sequence);
  for (std::size_t row = 0; row < found.y.size() / value_dim; ++row)
    for (std::size_t e = 0; e < value_dim; ++e)
      EXPECT_NEAR(found.y[row * value_dim + e], expected.y[(row ^ 1) * value_dim + e], 1e-12);
}

std::set<std::int64_t> keys_of(const AttentionPattern& pattern, std::int64_t p) {
  std::set<std::int64_t> keys;
  for (std::int64_t k = 0; k <= p; ++k)
    if (pattern.rules(p + 1).of(0).allows(p, k)) keys.insert(k);
  return keys;
}

TEST(SparseTransformer, MatchesKeysOfPaper) {
  const AttentionOptions base = {.sliding_window = {4}, .stride = 4, .summary = 1};
  EXPECT_EQ(keys_of(pattern_of(with("sliding_window+strided", base)), 15),
            (std::set<std::int64_t>{12, 13, 14, 15, 3, 7, 11}));
  EXPECT_EQ(keys_of(pattern_of(with("fixed", base)), 13),
            (std::set<std::int64_t>{12, 13, 3, 7, 11}));
}

// Two layers connect any position with every earlier one.
TEST(SparseTransformer, TwoLayersReachEveryEarlierPosition) {
  const std::int64_t time = 19;
  const AttentionOptions base = {.sliding_window = {4}, .stride = 4, .summary = 1};
  const auto reached = [&](const std::string& first, const std::string& second) {
    const Mask one = pattern_of(with(first, base)).rules(time).of(0) & masks::causal();
    const Mask two = pattern_of(with(second, base)).rules(time).of(0) & masks::causal();
    std::int64_t missed = 0;
    for (std::int64_t p = 0; p < time; ++p)
      for (std::int64_t k = 0; k <= p; ++k) {
        bool reaches = false;
        for (std::int64_t m = k; m <= p; ++m) reaches |= one.allows(m, k) && two.allows(p, m);
        missed += !reaches;
      }
    return missed == 0;
  };
  EXPECT_TRUE(reached("sliding_window", "strided"));
  EXPECT_TRUE(reached("strided", "sliding_window"));
  EXPECT_TRUE(reached("block", "summary"));
  EXPECT_FALSE(reached("sliding_window", "sliding_window"));
}

// Overlapping blocks contain every window of at most their length.
TEST(SlidingWindow, EqualsOverlappingBlocksWithinWindow) {
  const Mask window = masks::causal() & masks::window(3, 0);
  const Mask blocks = masks::causal() & masks::block(4, 4) & masks::window(3, masks::unlimited);
  for (std::int64_t p = 0; p < 30; ++p)
    for (std::int64_t k = 0; k < 30; ++k) EXPECT_EQ(window.allows(p, k), blocks.allows(p, k));
}

TEST(AttentionPairs, MatchesDefinition) {
  for (const Case& c : cases())
    for (const std::int64_t time : times) {
      SCOPED_TRACE(c.name + ", time " + std::to_string(time));
      double expected = 0;
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t p = 0; p < time; ++p)
          for (std::int64_t k = 0; k <= p; ++k) expected += c.sees(h, p, k);
      EXPECT_DOUBLE_EQ(
          attention_pairs(pattern_of(c.options), masks::causal(), time, 0, backend_device()),
          expected / static_cast<double>(heads));
    }
}

TEST(AttentionPairs, IncludesMemory) {
  const auto pairs = [](const std::string& kind, const Mask& own) {
    const AttentionPattern pattern = pattern_of(with(kind, {.sliding_window = {3}, .stride = 4}));
    return attention_pairs(pattern, own, 3, 5, backend_device());
  };
  EXPECT_EQ(pairs("full", masks::causal()), 6 + 7 + 8);
  EXPECT_EQ(pairs("sliding_window", masks::causal()), 9);
  EXPECT_EQ(pairs("strided", masks::causal()), 2 + 2 + 2);
  EXPECT_EQ(pairs("strided", masks::causal() & masks::window(3, 0)), 3);
}

TEST(AttentionOptions, ReportsInvalidValues) {
  const auto problem = [](const AttentionOptions& options, bool memory = false) {
    return problem_of(options, {.layers = 2, .heads = heads, .memory = memory, .segment = 100});
  };
  EXPECT_EQ(problem({}), "");
  for (const Case& c : cases()) EXPECT_EQ(problem(c.options), "") << c.name;
  EXPECT_EQ(problem({.kinds = {"sliding_window", "dilated+strided"}, .stride = 99}, true), "");

  const auto expect =
      [&](const AttentionOptions& options, const std::string& message, bool memory = false) {
        EXPECT_NE(problem(options, memory).find(message), std::string::npos)
            << "found: " << problem(options, memory);
        EXPECT_THROW(attention_patterns(
                         options, {.layers = 2, .heads = heads, .memory = memory, .segment = 100}),
                     ConfigurationError);
      };
  expect(with("locl"), "expected one of full, sliding_window,");
  expect({.kinds = {"strde/full", "sliding_attention"}},
         "found \"strde\", \"sliding_attention\"; did you mean \"strided\", \"sliding_window\"?");
  expect(with("sliding_window+"), "found \"\"");
  expect(with("sliding_window/"), "found \"\"");
  expect(with("sliding_window+sliding_window"), "sliding_window occurs twice in");
  expect(with("sliding_window/sliding_window/strided"),
         "expected a multiple of the 3 parts of \"sliding_window/sliding_window/strided\"");
  expect({.kinds = {"sliding_window", "sliding_window", "sliding_window"}},
         "expected at most model.num_hidden_layers = 2 elements, found 3");
  expect(with("sliding_window", {.sliding_window = {2, 3, 4}}),
         "sliding_window: expected 1 element or model.num_hidden_layers");
  expect(with("fixed", {.stride = 8, .summary = 3, .summary_groups = 3}),
         " exceeds model.attention.stride = 8");
  expect(with("sliding_window/strided", {.stride = 100}),
         "attention.stride: 100 leaves only the query itself to strided attention");
  for (const std::string kind : {"block", "summary", "fixed"})
    expect(with("sliding_window/" + kind, {.stride = 100}),
           "leaves a single block to " + kind + " attention");
  expect(with("dilated", {.dilation = 100}),
         "attention.dilation: 100 leaves only the query itself to dilated attention");
  EXPECT_EQ(problem(with("dilated", {.dilation = 100}), true), "");  // it attends to the memory
  expect(with("global_local", {.global = {0, 100}}),
         "position 100 is out of range: data.seq_length is 100");
  // For the last of four blocks of 25, only the first block lies beyond a window of 26, and it
  // contains the global position 0.
  const AttentionOptions no_block = {
      .sliding_window = {27}, .global = {0}, .random = 3, .block = 25};
  expect(with("full/global_local", no_block),
         "num_random_blocks: found 3, but no block of model.attention.global_local.block_size = 25 "
         "positions is outside");
  for (const std::vector<std::int64_t>& windows : {std::vector<std::int64_t>{25}, {26, 25}}) {
    AttentionOptions fits = no_block;
    fits.sliding_window = windows;
    EXPECT_EQ(problem(with("full/global_local", fits)), "");
  }
  for (const std::string kind : {"local_1d", "block", "summary", "fixed", "global_local"})
    expect(with("sliding_window/" + kind), kind + " does not support model.mem_len", true);
}

using Settings = std::vector<std::pair<std::string, std::string>>;  // without "model."

std::vector<std::string> warnings(const std::vector<std::string>& kinds, const Settings& settings) {
  AttentionOptions options;
  OptionTable table;
  declare(table, options, {});
  std::vector<Assignment> assignments = {
      {"model.attention.layer_types", Assignment::Kind::list, {}, {}}};
  for (const std::string& kind : kinds) assignments.front().scalars.push_back({kind, false});
  for (const auto& [key, text] : settings)
    assignments.push_back({"model." + key, Assignment::Kind::scalar, {{text, false}}, {}});
  table.assign(assignments);
  table.finish();
  return table.warnings();
}

// Every key except model.attention.layer_types, with a non-default value.
Settings all_settings() {
  AttentionOptions options;
  OptionTable table;
  declare(table, options, {});
  Settings settings;
  for (const OptionDescription& option : table.reference()) {
    if (option.key == "model.attention.layer_types") continue;
    const bool is_flag = option.type == "true or false";
    const std::string flag = option.default_value == "true" ? "false" : "true";
    std::string number = option.key.ends_with("self_attention_score") ? "-8" : "8";
    if (option.key.ends_with("sharing")) number = "layerwise";
    if (option.key.ends_with(".kernel")) number = "relu";
    if (option.key.ends_with("decay")) number = "0.5";
    if (option.key.ends_with("rank")) number = "9";
    if (option.key.ends_with("num_top_blocks")) number = "0";  // nothing is chosen
    if (option.key.ends_with(".variants")) number = "factorized_random";
    settings.emplace_back(option.key.substr(option.key.find('.') + 1), is_flag ? flag : number);
  }
  return settings;
}

TEST(AttentionOptions, WarnsAboutKeysThatNoLayerReads) {
  const Settings all = all_settings();
  EXPECT_GE(all.size(), 20u);
  for (const auto& setting : all)
    EXPECT_EQ(warnings({"full"}, {setting}).size(), 1u) << setting.first;
  EXPECT_EQ(warnings({"full"}, all).size(), all.size());
  EXPECT_EQ(warnings({"rwkv7",  // the first element
                      "sliding_window",
                      "dilated/strided",
                      "block+summary",
                      "fixed",
                      "global_local",
                      "lsh",
                      "performer",
                      "rfa",
                      "linformer",
                      "routing",
                      "sinkhorn",
                      "synthesizer",
                      "memory_compressed",
                      "local_1d",
                      "local_2d",
                      "delta_net",
                      "mamba2",
                      "aft_local",
                      "gmlp",
                      "mlp_mixer"},
                     all),
            std::vector<std::string>{"--set: model.attention.synthesizer.dense_hidden_size is "
                                     "ignored: model.attention.synthesizer.variants does not "
                                     "contain dense"});
  EXPECT_EQ(warnings({"full"}, {{"attention.sliding_window", "256"}}),
            std::vector<std::string>{
                "--set: model.attention.sliding_window is ignored: no layer of "
                "model.attention.layer_types has sliding_window, dilated or global_local"});
  EXPECT_EQ(
      warnings({"full"}, {{"attention.sliding_window", "128"}, {"attention.lsh.num_hashes", "2"}}),
      std::vector<std::string>())
      << "the defaults";
}

TEST(AttentionOptions, AcceptsKeysOfEachType) {
  const std::pair<std::string, Settings> read[] = {
      {"sliding_window", {{"attention.sliding_window", "7"}}},
      {"dilated", {{"attention.sliding_window", "7"}, {"attention.dilation", "7"}}},
      {"strided", {{"attention.stride", "7"}}},
      {"block", {{"attention.stride", "7"}}},
      {"summary",
       {{"attention.stride", "7"},
        {"attention.summary.num_columns", "7"},
        {"attention.summary.num_patterns", "7"},
        {"attention.summary.attend_self", "false"}}},
      {"fixed",
       {{"attention.stride", "7"},
        {"attention.summary.num_columns", "7"},
        {"attention.summary.num_patterns", "7"}}},
      {"global_local",
       {{"attention.sliding_window", "7"},
        {"attention.global_local.global_positions", "7"},
        {"attention.global_local.separate_global_projections", "true"},
        {"attention.global_local.num_random_blocks", "7"},
        {"attention.global_local.block_size", "7"},
        {"attention.global_local.random_seed", "7"}}}};
  for (const auto& [kind, settings] : read) {
    EXPECT_EQ(warnings({"full/" + kind, "full"}, settings), std::vector<std::string>()) << kind;
    EXPECT_EQ(warnings({kind}, all_settings()).size(), all_settings().size() - settings.size())
        << kind;
  }
  EXPECT_EQ(warnings({"lsh"}, all_settings()).size(), all_settings().size() - 9);
  EXPECT_EQ(warnings({"global_local"}, {{"attention.global_local.block_size", "7"}}),
            std::vector<std::string>{"--set: model.attention.global_local.block_size is ignored: "
                                     "model.attention.global_local.num_random_blocks is 0"});
}

TEST(AttentionOptions, OnlyLshAndGlobalLayersHaveOtherWeights) {
  const auto layers_of_other_weights = [](const std::string& kinds, std::int64_t layers) {
    return longspan::layers_of_other_weights(kinds, layers, false);
  };
  EXPECT_EQ(longspan::layers_of_other_weights("[sliding_window/global_local, lsh, full]", 4, true),
            " 0 global 1 lsh 3 global");
  EXPECT_EQ(layers_of_other_weights("[sliding_window/global_local, full]", 4), "");
  EXPECT_EQ(layers_of_other_weights("[full]", 4), "");
  EXPECT_EQ(layers_of_other_weights("[sliding_window, strided+sliding_window]", 4), "");
  EXPECT_EQ(layers_of_other_weights("lsh", 2), " 0 lsh 1 lsh");
  EXPECT_EQ(layers_of_other_weights("[sliding_window, lsh]", 4), " 1 lsh 3 lsh");
  EXPECT_EQ(layers_of_other_weights("[sliding_window, lsh, full]", 2),
            layers_of_other_weights("[full, lsh]", 2));
  EXPECT_EQ(layers_of_other_weights("no such key", 2), "");
}

}  // namespace
}  // namespace longspan::attention_kinds_test
