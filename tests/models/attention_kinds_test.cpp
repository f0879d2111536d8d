// The attention kinds in a whole model.
#include "tests/models/model_testing.h"

namespace longspan {
namespace {

using testing::columns;
using testing::random_ids;
using testing::Values;
using testing::values_of;

constexpr std::int64_t time = 14;

std::unique_ptr<Model> decoder_of(const std::vector<std::string>& kinds) {
  DecoderOptions options;
  options.common = testing::tiny_options(NormPlacement::pre);
  options.common.attention = {.kinds = kinds,
                              .window = {2},
                              .stride = 4,
                              .summary = 1,
                              .summary_groups = 2,
                              .global = {0, 3},
                              .random = 1,
                              .block = 2};
  return make_decoder(options, testing::tiny_setting(time));
}

const std::vector<std::vector<std::string>> all_kinds = {{"causal"},
                                                         {"local"},
                                                         {"dilated"},
                                                         {"strided"},
                                                         {"block"},
                                                         {"summary"},
                                                         {"fixed"},
                                                         {"global"},
                                                         {"local+strided"},
                                                         {"local", "strided"},
                                                         {"fixed/global"}};

Values logits_of(const Model& model, const Tensor& text) {
  const NoGradient no_gradient;
  return values_of(model.scores({.fields = {{"tokens", text}}}, Pass()).scores.value());
}

TEST(AttentionKindsOfADecoder, SeeNoLaterToken) {
  const Tensor text = random_ids(1, time, 1);
  for (const auto& kinds : all_kinds) {
    SCOPED_TRACE(kinds.front());
    const auto model = decoder_of(kinds);
    const Values before = logits_of(*model, text);
    for (std::int64_t changed = 0; changed < time; ++changed) {
      const Tensor other = text.clone();
      std::int64_t& token = other.data<std::int64_t>()[changed];
      token = (token + 1) % testing::vocabulary;
      const Values after = logits_of(*model, other);
      const auto row = static_cast<std::size_t>(changed * testing::vocabulary);
      EXPECT_TRUE(std::equal(before.begin(), before.begin() + row, after.begin()))
          << "token " << changed;
      EXPECT_NE(before[row], after[row]) << "token " << changed;
    }
  }
}

TEST(AttentionKindsOfADecoder, LearnASegmentByHeart) {
  for (const auto& kinds : all_kinds) {
    SCOPED_TRACE(kinds.front());
    const auto model = decoder_of(kinds);
    const Tensor text = random_ids(2, time + 1, 1);
    const auto [first, last] =
        testing::descend(*model, testing::segment_of(text, 0, time), 30, 0.3);
    EXPECT_LT(last, 0.7 * first);
  }
}

TEST(AttentionKindsOfADecoder, CostWhatTheirPairsCost) {
  const double dense = decoder_of({"causal"})->body().flops(2, time, 0).forward;
  const auto saved = [&](const std::vector<std::string>& kinds) {
    return dense - decoder_of(kinds)->body().flops(2, time, 0).forward;
  };
  const double layer = saved({"local"}) / 2;  // of two
  EXPECT_GT(layer, 0);
  EXPECT_DOUBLE_EQ(saved({"local", "causal"}), layer);
  EXPECT_DOUBLE_EQ(saved({"local/causal"}), layer);
  // 14 queries see 105 keys or, with two before them, 39; each pair of a head costs 2 (3 + 3).
  const double pairs = 2.0 * 2 * (105 - 39);
  EXPECT_DOUBLE_EQ(layer, 12 * pairs);
}

// Attended whole it is causal attention with three projections instead of four.
TEST(AttentionKindsOfADecoder, ALayerOfLshHasAProjectionLess) {
  const double dense = decoder_of({"causal"})->body().flops(2, time, 0).forward;
  const double lsh = decoder_of({"lsh", "causal"})->body().flops(2, time, 0).forward;
  const ModelOptions options = testing::tiny_options();
  const auto inner = static_cast<double>(options.heads * options.head_dim());
  EXPECT_DOUBLE_EQ(dense - lsh, 2.0 * 2 * time * static_cast<double>(options.width) * inner);
}

TEST(AttentionKindsOfADecoder, ProjectionsOfGlobalPositionsAreCounted) {
  const auto forward = [](bool projections) {
    DecoderOptions options;
    options.common = testing::tiny_options(NormPlacement::pre);
    options.common.attention = {
        .kinds = {"global", "causal"}, .window = {2}, .global_projections = projections};
    return make_decoder(options, testing::tiny_setting(time))->body().flops(2, time, 0).forward;
  };
  const ModelOptions options = testing::tiny_options();
  const auto inner = static_cast<double>(options.heads * options.head_dim());
  EXPECT_DOUBLE_EQ(forward(true) - forward(false),
                   3 * 2.0 * 2 * time * static_cast<double>(options.width) * inner);
}

TEST(AttentionKindsOfADecoder, AreRefusedWhereTheSegmentIsTooShort) {
  DecoderOptions options;
  options.common = testing::tiny_options();
  options.common.attention = {.kinds = {"strided"}, .stride = 20};
  EXPECT_THROW(make_decoder(options, testing::tiny_setting(20)), ConfigurationError);
}

}  // namespace
}  // namespace longspan
