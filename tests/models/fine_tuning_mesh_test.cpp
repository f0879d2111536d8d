// LoRA adapters on frozen weights train the same on every layout and in every memory mode.
#include "tests/models/equality_testing.h"

namespace longspan::fine_tuning_mesh_test {
namespace {

using testing::Case;
using testing::dropped_options;
using testing::expect_same_training;
using testing::train;
using testing::Trained;

FineTuning all_adapters() {
  return {.adapters = {.rank = 2, .alpha = 5, .dropout = 0.2, .layers = {"layers"}}};
}

std::unique_ptr<Model> transformer_xl(ResidualKind residual, const ModelBuildOptions& setting) {
  TransformerXlOptions options;
  options.common = dropped_options(NormPosition::pre);
  options.common.residual = residual;
  options.memory = 7;
  return make_transformer_xl(options, setting);
}

// Options of Llama: RoPE, gated feed-forward layers.
std::unique_ptr<Model> decoder(ResidualKind residual, const ModelBuildOptions& setting) {
  DecoderOptions options;
  options.common = dropped_options(NormPosition::pre);
  options.common.residual = residual;
  options.common.head_width = 6;
  options.common.norm_kind = NormKind::rms;
  options.common.activation = FeedForwardActivation::geglu_tanh;
  options.positions.kind = PositionEmbeddingType::rotary;
  return make_decoder(options, setting);
}

std::vector<Case> cases() {
  const auto with = [](const std::string& name,
                       const auto& make,
                       const FineTuning& tuning,
                       ResidualKind residual = ResidualKind::plain,
                       const MemoryOptions& memory = {}) {
    Case c = {.name = name};
    c.make = [=](const ModelBuildOptions& setting) { return make(residual, setting); };
    c.memory = memory;
    c.tuning = tuning;
    c.learning_rate = 0.05;
    return c;
  };
  FineTuning few = {
      .adapters = {.rank = 3, .modules_to_save = {"final_norm", "layers/1/feed_forward/in"}}};
  return {
      with("decoder, all adapted", decoder, all_adapters()),
      with("decoder, few adapted, some saved whole", decoder, few),
      with("decoder, layers again, chunked",
           decoder,
           all_adapters(),
           ResidualKind::plain,
           {.recompute_granularity = RecomputeGranularity::full,
            .feed_forward_chunks = 3,
            .loss_chunks = 2}),
      with("decoder, reversible", decoder, all_adapters(), ResidualKind::reversible),
      with("transformer_xl, memory 7", transformer_xl, all_adapters()),
      with(
          "transformer_xl, reversible, few adapted", transformer_xl, few, ResidualKind::reversible),
      with("transformer_xl, frozen below",
           transformer_xl,
           {.frozen = {"embedding", "layers/0", "attention"}})};
}

// Nonzero adapters make the comparison meaningful.
void expect_nonzero_adapters(const Trained& run, const std::string& name) {
  for (std::size_t i = 0; i < run.parameters.size(); ++i) {
    const Parameter& parameter = *run.parameters[i];
    if (!parameter.name.ends_with("adapter/up")) continue;
    double largest = 0;
    for (const double value : run.last_weights[i]) largest = std::max(largest, std::abs(value));
    EXPECT_GT(largest, 1e-2) << name << ", " << parameter.name;
  }
}

TEST(FineTuningLayouts, MatchesOneProcess) {
  for (const Case& c : cases()) {
    const Trained expected = train(c, ProcessMesh());
    expect_nonzero_adapters(expected, c.name);
    testing::for_each_layout(
        {{.data = 2},
         {.tensor = 2},
         {.tensor = 4},
         {.context = 2},
         {.tensor = 2, .sequence = true},
         {.context = 2, .tensor = 2, .sequence = true}},
        [&](const ProcessMesh& mesh) { expect_same_training(c, expected, mesh); });
  }
}

// Adapters, whose dropout depends on positions, and frozen layers, whose keys have no gradient.
TEST(FineTuningLayouts, ChunksInTimeMatchOneProcess) {
  for (Case c : cases()) {
    const Trained expected = train(c, ProcessMesh());
    c.name += ", chunks of 2 in time";
    c.memory.bptt_chunk_length = 2;
    testing::for_each_layout(
        {{}, {.tensor = 2, .sequence = true}, {.context = 2, .tensor = 2}},
        [&](const ProcessMesh& mesh) { expect_same_training(c, expected, mesh); });
  }
}

TEST(FineTuningLayouts, ZeroShardingMatchesOneProcess) {
  const std::vector<Case> all = cases();
  for (Case c : {all[1], all[3], all[6]}) {
    const Trained expected = train(c, ProcessMesh());
    const std::string name = c.name;
    for (c.zero = 1; c.zero <= 2; ++c.zero) {
      c.name = fmt::format("{}, ZeRO {}", name, c.zero);
      c.accumulation = c.zero;
      testing::for_each_layout(
          {{.data = 2, .tensor = 2}, {.context = 2, .tensor = 2, .sequence = true}},
          [&](const ProcessMesh& mesh) { expect_same_training(c, expected, mesh); });
    }
  }
}

TEST(FineTuningLayouts, RecomputationMatchesStoredActivations) {
  const auto all = cases();
  testing::for_each_layout({{}}, [&](const ProcessMesh& mesh) {
    const Trained expected = train(all[0], ProcessMesh());
    expect_same_training(all[2], expected, mesh);
  });
}

// Frozen weights keep their values and have no reduced gradients.
TEST(FineTuningLayouts, FrozenWeightsDoNotChange) {
  testing::for_each_layout({{.data = 2}}, [&](const ProcessMesh& mesh) {
    const Case c = cases()[0];
    Case still = c;
    still.steps = 1;
    still.learning_rate = 0;
    const Trained before = train(still, mesh), after = train(c, mesh);
    for (std::size_t i = 0; i < after.parameters.size(); ++i) {
      const Parameter& parameter = *after.parameters[i];
      EXPECT_EQ(parameter.frozen, !parameter.adapter) << parameter.name;
      if (parameter.frozen) {
        EXPECT_EQ(after.last_weights[i], before.last_weights[i]);
      }
    }
  });
}

}  // namespace
}  // namespace longspan::fine_tuning_mesh_test
