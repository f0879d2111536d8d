// Attention types in full models.
#include "framework/modeling/heads.h"
#include "models/encoder.h"
#include "tests/models/model_testing.h"

namespace longspan::attention_kinds_test {
namespace {

using testing::columns;
using testing::random_ids;
using testing::Values;
using testing::values_of;

constexpr std::int64_t time = 14;

AttentionOptions attention_of(const std::vector<std::string>& kinds) {
  return {.kinds = kinds,
          .sliding_window = {3},
          .stride = 4,
          .summary = 1,
          .summary_groups = 2,
          .global = {0, 3},
          .random = 1,
          .block = 2,
          // With few features the normalizer is sometimes near 0, and training depends on rounding.
          .features = {.count = 256},
          .mixing = {.window = 4}};
}

std::unique_ptr<Model> decoder_of(const std::vector<std::string>& kinds) {
  DecoderOptions options;
  options.common = testing::tiny_options(NormPosition::pre);
  options.common.attention = attention_of(kinds);
  return make_decoder(options, testing::tiny_setting(time));
}

const std::vector<std::vector<std::string>> all_kinds = {{"full"},
                                                         {"sliding_window"},
                                                         {"dilated"},
                                                         {"strided"},
                                                         {"block"},
                                                         {"summary"},
                                                         {"fixed"},
                                                         {"global_local"},
                                                         {"sliding_window+strided"},
                                                         {"sliding_window", "strided"},
                                                         {"fixed/global_local"},
                                                         {"linear"},
                                                         {"performer"},
                                                         {"rfa"},
                                                         {"additive"},
                                                         {"aft_full"},
                                                         {"aft_local"},
                                                         {"aft_simple"},
                                                         {"gmlp"}};

bool is_mechanism(const std::vector<std::string>& kinds) {
  return attention_kind({.kinds = kinds}, 0) != nullptr;
}

Values logits_of(const Model& model, const Tensor& text) {
  const NoGradGuard no_gradient;
  return values_of(model.scores({.fields = {{"tokens", text}}}, ForwardContext()).scores.value());
}

TEST(DecoderAttention, DoesNotAttendToLaterTokens) {
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

TEST(DecoderAttention, ReducesLossOnRepeatedSegment) {
  for (const auto& kinds : all_kinds) {
    SCOPED_TRACE(kinds.front());
    const auto model = decoder_of(kinds);
    const Tensor text = random_ids(2, time + 1, 1);
    const auto [first, last] =
        testing::descend(*model, testing::segment_of(text, 0, time), 60, 0.15);
    EXPECT_LT(last, 0.7 * first);
  }
}

TEST(DecoderAttention, RejectsTooShortSegments) {
  DecoderOptions options;
  options.common = testing::tiny_options();
  options.common.attention = {.kinds = {"strided"}, .stride = 20};
  EXPECT_THROW(make_decoder(options, testing::tiny_setting(20)), ConfigurationError);
}

// Encoders do not support gates.
AttentionOptions without_gate(const std::vector<std::string>& kinds) {
  AttentionOptions options = attention_of(kinds);
  options.features.gate = false;
  return options;
}

// One layer, so that each state depends only on the tokens that its position attends to.
std::unique_ptr<Model> encoder_of(const std::string& kind, PositionEmbeddingType positions) {
  EncoderOptions options;
  options.common = testing::tiny_options(NormPosition::pre);
  options.common.layers = 1;
  options.common.attention = without_gate({kind});
  options.positions = {.kind = positions, .relative_max_distance = 3};
  ModelBuildOptions setting = testing::tiny_setting(time);
  setting.classes = 2;
  return std::make_unique<Model>(setting, encoder_body(options), tagging_head());
}

Values states_of(const Model& model, const Tensor& text, std::int64_t length) {
  const NoGradGuard no_gradient;
  ForwardContext pass;
  pass.time = replicate_sequence(time);
  const Tensor lengths = Tensor::from<std::int64_t>(std::vector{length}, {1}, text.device());
  return values_of(
      model.body().run({.fields = {{"tokens", text}, {"length", lengths}}}, pass).hidden.value());
}

TEST(EncoderAttention, MatchesPatternAndMasksPadding) {
  constexpr std::int64_t length = time - 2;
  const Tensor text = random_ids(1, time, 1);
  std::vector<std::vector<std::string>> encoder_kinds = all_kinds;
  for (const char* const kind : {"efficient", "fnet", "mlp_mixer"}) encoder_kinds.push_back({kind});
  for (const auto& kinds : encoder_kinds)
    for (const PositionEmbeddingType positions :
         {PositionEmbeddingType::sinusoidal, PositionEmbeddingType::relative}) {
      if (kinds.size() > 1) continue;
      if (is_mechanism(kinds) && positions == PositionEmbeddingType::relative) continue;
      SCOPED_TRACE(kinds.front());
      const auto model = encoder_of(kinds.front(), positions);
      const AttentionPattern pattern =
          attention_patterns(without_gate(kinds), {.heads = 2, .causal = false}).front();
      const HeadMasks rules = pattern.rules(time);
      const Values before = states_of(*model, text, length);
      const std::size_t width = before.size() / time;
      for (std::int64_t changed = 0; changed < time; ++changed) {
        const Tensor other = text.clone();
        std::int64_t& token = other.data<std::int64_t>()[changed];
        token = (token + 1) % testing::vocabulary;
        const Values after = states_of(*model, other, length);
        for (std::int64_t p = 0; p < length; ++p) {
          const bool seen = changed < length &&
                            (rules.of(0).allows(p, changed) || rules.of(1).allows(p, changed));
          const auto begin = static_cast<std::ptrdiff_t>(p * static_cast<std::int64_t>(width));
          const bool same = std::equal(before.begin() + begin,
                                       before.begin() + begin + static_cast<std::ptrdiff_t>(width),
                                       after.begin() + begin);
          EXPECT_EQ(!same, seen || p == changed) << p << " of " << changed;
        }
      }
    }
}

}  // namespace
}  // namespace longspan::attention_kinds_test
