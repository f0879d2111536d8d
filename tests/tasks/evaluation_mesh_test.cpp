#include <gtest/gtest.h>

#include "framework/tasks/evaluation.h"
#include "models/universal_transformer.h"
#include "tests/support/mesh_runner.h"
#include "tests/support/small_models.h"

namespace longspan::evaluation_mesh_test {
namespace {

using testing::data_and_tensor_layouts;
using testing::for_each_layout;
using testing::small_setting;
using testing::small_transformer_xl;
using testing::varied_text;

TEST(EvaluationMesh, LossMatchesSingleProcess) {
  const TemporaryFile file(varied_text(151));
  // 150 predictions in 4 streams of 37 or 38, segments of 9: data ranks may finish at different
  // times.
  const EvaluationOptions options = {.streams = 4, .segment = 9, .memory = 14, .position_parts = 4};
  std::vector<MeshShape> layouts = data_and_tensor_layouts();
  for (const MeshShape& layout : testing::time_layouts()) layouts.push_back(layout);
  for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    const Corpus corpus(file.path(), Tokenizer());
    const auto single = make_transformer_xl(small_transformer_xl(2, 6), small_setting());
    const auto split = make_transformer_xl(small_transformer_xl(2, 6), small_setting(mesh));
    const EvaluationResult expected = evaluate(*single, corpus, options);
    const EvaluationResult result = evaluate(*split, corpus, options);
    EXPECT_NEAR(result.nats, expected.nats, 1e-9 * expected.nats) << testing::to_string(mesh.shape);
    EXPECT_EQ(result.tokens, 150);
    EXPECT_EQ(result.bytes, 150);
    ASSERT_EQ(result.by_position.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(result.by_position[i].loss, expected.by_position[i].loss, 1e-9);
    const double windows = evaluate_sliding_window(*single, corpus, 5, options).nats;
    EXPECT_NEAR(evaluate_sliding_window(*split, corpus, 5, options).nats, windows, 1e-9 * windows)
        << testing::to_string(mesh.shape);
  });
}

TEST(EvaluationMesh, UnknownCharactersMatchSingleProcess) {
  const TemporaryFile letters("abc");
  const Tokenizer tokenizer = Tokenizer::characters_of(InputFile(letters.path()), true);
  const TemporaryFile file("a漢字é字字a漢cabacb漢ba字");
  const EvaluationOptions options = {.streams = 4, .segment = 4};
  const std::vector<MeshShape> layouts = {
      {.data = 4}, {.data = 2, .tensor = 2}, {.data = 2, .context = 2}, {.tensor = 4}};
  for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    const Corpus corpus(file.path(), tokenizer);
    const auto single = make_transformer_xl(small_transformer_xl(2, 6), small_setting());
    const auto split = make_transformer_xl(small_transformer_xl(2, 6), small_setting(mesh));
    const EvaluationResult expected = evaluate(*single, corpus, options);
    const EvaluationResult result = evaluate(*split, corpus, options);
    EXPECT_EQ(result.unknown, 8) << testing::to_string(mesh.shape);
    EXPECT_NEAR(result.nats, expected.nats, 1e-9 * expected.nats);
    EXPECT_GT(result.nats, 8 * tokenizer.unknown_nats());
  });
}

TEST(EvaluationMesh, NeedlesMatchSingleProcess) {
  const TemporaryFile file(varied_text(300));
  // Six examples in passes of four: two rows of the second pass do not count.
  const NeedleOptions options = {.segment = 90, .batch = 4, .depths = 3, .count = 2};
  std::vector<MeshShape> layouts = data_and_tensor_layouts();
  for (const MeshShape& layout : testing::time_layouts()) layouts.push_back(layout);
  for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    const Corpus corpus(file.path(), Tokenizer());
    const auto single = make_transformer_xl(small_transformer_xl(2, 6), small_setting());
    const auto split = make_transformer_xl(small_transformer_xl(2, 6), small_setting(mesh));
    const std::vector<NeedlePosition> expected = evaluate_needles(*single, corpus, options);
    const std::vector<NeedlePosition> places = evaluate_needles(*split, corpus, options);
    ASSERT_EQ(places.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(places[i].distance, expected[i].distance);
      EXPECT_EQ(places[i].found, expected[i].found);
      EXPECT_NEAR(places[i].loss, expected[i].loss, 1e-9) << testing::to_string(mesh.shape);
    }
  });
}

// The last segment of a stream may leave a context rank without rows, hence without chunks.
TEST(EvaluationMesh, ChunkedLossMatchesForShortTail) {
  const TemporaryFile file(varied_text(39));
  // 38 predictions in 4 streams of 9 or 10, segments of 8: tails of one and two.
  const EvaluationOptions options = {.streams = 4, .segment = 8};
  const std::vector<MeshShape> layouts = {
      {}, {.context = 2}, {.context = 4}, {.context = 2, .tensor = 2, .sequence = true}};
  for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    const Corpus corpus(file.path(), Tokenizer());
    const auto single = make_transformer_xl(small_transformer_xl(2, 6), small_setting());
    ModelBuildOptions setting = small_setting(mesh);
    const EvaluationResult expected = evaluate(*single, corpus, options);
    for (const MemoryOptions& memory : std::vector<MemoryOptions>{
             {.feed_forward_chunks = 3, .loss_chunks = 7}, {.bptt_chunk_length = 3}}) {
      setting.memory = memory;
      const auto split = make_transformer_xl(small_transformer_xl(2, 6), setting);
      const EvaluationResult result = evaluate(*split, corpus, options);
      EXPECT_EQ(result.tokens, 38);
      EXPECT_NEAR(result.nats, expected.nats, 1e-9 * expected.nats);
    }
  });
}

// A tail of one or two tokens leaves some ranks without a position.
TEST(EvaluationMesh, RanksWithoutPositionsTakeNoAdaptiveSteps) {
  const TemporaryFile file(varied_text(39));
  const EvaluationOptions options = {.streams = 4, .segment = 8};
  const auto pondering = [](const ModelBuildOptions& setting) {
    UniversalTransformerOptions made;
    made.common = testing::small_options(1);
    made.count = RecurrenceType::adaptive;
    made.halting = {.steps = 3, .bias = -0.5};
    return make_universal_transformer(made, setting);
  };
  for_each_layout(
      {{.context = 2},
       {.context = 4},
       {.tensor = 4, .sequence = true},
       {.context = 2, .tensor = 2, .sequence = true}},
      [&](const ProcessMesh& mesh) {
        const Corpus corpus(file.path(), Tokenizer());
        const EvaluationResult expected = evaluate(*pondering(small_setting()), corpus, options);
        const EvaluationResult result = evaluate(*pondering(small_setting(mesh)), corpus, options);
        EXPECT_NEAR(result.nats, expected.nats, 1e-9 * expected.nats);
        ASSERT_EQ(result.watched.size(), 1u);
        EXPECT_NEAR(result.watched[0].sum, expected.watched[0].sum, 1e-9);
      });
}

TEST(EvaluationMesh, ShortStreamsDoNotStopOtherStreams) {
  // 5 predictions in 4 streams of 1, 1, 1 and 2, one token per pass: in the second pass only the
  // last data rank has a token to predict.
  const TemporaryFile file(varied_text(6));
  const std::vector<MeshShape> layouts = {
      {.data = 4}, {.data = 2, .tensor = 2}, {.data = 2, .context = 2}};
  for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    const Corpus corpus(file.path(), Tokenizer());
    const auto split = make_transformer_xl(small_transformer_xl(2, 6), small_setting(mesh));
    const auto single = make_transformer_xl(small_transformer_xl(2, 6), small_setting());
    const EvaluationOptions options = {.streams = 4, .segment = 1};
    const EvaluationResult expected = evaluate(*single, corpus, options);
    const EvaluationResult result = evaluate(*split, corpus, options);
    EXPECT_EQ(result.tokens, 5);
    EXPECT_NEAR(result.nats, expected.nats, 1e-9 * expected.nats);
  });
}

}  // namespace
}  // namespace longspan::evaluation_mesh_test
