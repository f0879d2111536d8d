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

TEST(AttentionKindsOfADecoder, AreRefusedWhereTheSegmentIsTooShort) {
  DecoderOptions options;
  options.common = testing::tiny_options();
  options.common.attention = {.kinds = {"strided"}, .stride = 20};
  EXPECT_THROW(make_decoder(options, testing::tiny_setting(20)), ConfigurationError);
}

}  // namespace
}  // namespace longspan
