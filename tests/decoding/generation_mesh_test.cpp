#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "framework/decoding/generation.h"
#include "tests/support/mesh_runner.h"
#include "tests/support/small_models.h"

namespace longspan::generation_mesh_test {
namespace {

using testing::for_each_layout;
using testing::small_decoder;
using testing::small_setting;
using testing::small_transformer_xl;

TEST(GenerationMesh, MatchesOneRankOnEveryLayout) {
  const std::vector<std::int64_t> prompt = {40, 2, 77, 5, 200, 31, 8};
  const GenerationOptions options = {
      .tokens = 24, .samples = 2, .seed = 9, .sampling = {.top_k = 40, .top_p = 0.9}, .segment = 5};
  std::vector<MeshShape> layouts = testing::data_and_tensor_layouts();
  layouts.push_back({.tensor = 2, .sequence = true});
  for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    const auto single = make_transformer_xl(small_transformer_xl(2, 12), small_setting());
    const auto split = make_transformer_xl(small_transformer_xl(2, 12), small_setting(mesh));
    EXPECT_EQ(generate(*split, prompt, options), generate(*single, prompt, options))
        << testing::to_string(mesh.shape);
  });
}

// Covers memory, the KV cache, and a moving window that is recomputed.
TEST(GenerationMesh, MatchesOneRankWithContextParallelism) {
  const std::vector<std::int64_t> prompt = {40, 2, 77, 5, 200, 31, 8};
  const GenerationOptions options = {.tokens = 12, .samples = 2, .seed = 9, .segment = 8};
  const std::vector<MeshShape> layouts = {{.context = 2},
                                          {.context = 4},
                                          {.context = 2, .tensor = 2},
                                          {.context = 2, .tensor = 2, .sequence = true}};
  for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    const auto single = make_decoder(small_decoder(2), small_setting());
    const auto split = make_decoder(small_decoder(2), small_setting(mesh));
    EXPECT_EQ(generate(*split, prompt, options), generate(*single, prompt, options))
        << testing::to_string(mesh.shape);
    const auto with_memory = make_transformer_xl(small_transformer_xl(2, 12), small_setting());
    const auto split_memory = make_transformer_xl(small_transformer_xl(2, 12), small_setting(mesh));
    EXPECT_EQ(generate(*split_memory, prompt, options), generate(*with_memory, prompt, options))
        << testing::to_string(mesh.shape);
  });
}

// NaN weights on the other context ranks simulate results that differ in some bits.
TEST(GenerationMesh, UsesLogitsFromFirstContextRank) {
  const std::vector<std::int64_t> prompt = {40, 2, 77, 5, 200, 31, 8};
  const GenerationOptions options = {.tokens = 12, .samples = 2, .seed = 9, .segment = 40};
  for_each_layout({{.context = 2}, {.context = 2, .tensor = 2}}, [&](const ProcessMesh& mesh) {
    const auto single = make_decoder(small_decoder(2), small_setting());
    const auto split = make_decoder(small_decoder(2), small_setting(mesh));
    if (mesh.context.rank() > 0)
      for (const auto& parameter : split->parameters().all())
        std::ranges::fill(parameter->master.span<double>(),
                          std::numeric_limits<double>::quiet_NaN());
    split->parameters().refresh_compute();
    EXPECT_EQ(generate(*split, prompt, options), generate(*single, prompt, options))
        << testing::to_string(mesh.shape);
  });
}

TEST(GenerationMesh, GathersIndivisibleVocabularyInOrder) {
  const std::vector<std::int64_t> prompt = {4, 2, 250};
  for_each_layout({{.tensor = 2}, {.tensor = 4}}, [&](const ProcessMesh& mesh) {
    ModelBuildOptions whole = small_setting();
    ModelBuildOptions parts = small_setting(mesh);
    whole.vocabulary = parts.vocabulary = 251;
    const auto single = make_decoder(small_decoder(2), whole);
    const auto split = make_decoder(small_decoder(2), parts);
    const GenerationOptions options = {.tokens = 24, .samples = 2, .segment = 6};
    EXPECT_EQ(generate(*split, prompt, options), generate(*single, prompt, options));
  });
}

}  // namespace
}  // namespace longspan::generation_mesh_test
