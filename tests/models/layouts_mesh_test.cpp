// Every family trains the same on every layout. A new model is one line in `cases`.
// equality_matrix_mesh_test.cpp covers attention types and memory modes.
#include "tests/models/layouts_testing.h"

namespace longspan::layouts_mesh_test {
namespace {

using testing::Case;
using testing::dropped_options;
using testing::expect_same_training;
using testing::train;
using testing::Trained;

std::vector<Case> cases() {
  const auto transformer_xl = [](NormPosition norm, std::int64_t memory, bool tied) {
    return [=](const ModelBuildOptions& setting) {
      TransformerXlOptions options;
      options.common = dropped_options(norm);
      options.common.tied_embeddings = tied;
      options.memory = memory;
      options.share_position_biases = tied;
      return make_transformer_xl(options, setting);
    };
  };
  const auto gated = [](const GateOptions& gate) {
    return [=](const ModelBuildOptions& setting) {
      TransformerXlOptions options;
      options.common = dropped_options(NormPosition::pre);
      options.common.residual = ResidualKind::gated;
      options.common.gate = gate;
      options.memory = 7;
      return make_transformer_xl(options, setting);
    };
  };
  const auto decoder = [](PositionEmbeddingType positions) {
    return [=](const ModelBuildOptions& setting) {
      DecoderOptions options;
      options.common = dropped_options(NormPosition::pre);
      options.positions = {.kind = positions, .relative_max_distance = 3, .buckets = 4};
      return make_decoder(options, setting);
    };
  };
  const auto lsh_decoder = [](const ModelBuildOptions& setting) {
    DecoderOptions options;
    options.common = dropped_options(NormPosition::pre);
    options.common.attention = {.kinds = {"lsh", "full"}, .lsh = {.chunk = 2}};
    return make_decoder(options, setting);
  };
  SpanOptions spans = {
      .kind = SpanKind::adaptive, .form = {.limit = 7, .ramp = 3, .initial = 1.7}, .penalty = 0.05};
  const auto span_decoder = [=](const ModelBuildOptions& setting) {
    DecoderOptions options;
    options.common = dropped_options(NormPosition::pre);
    options.spans = spans;
    return make_decoder(options, setting);
  };
  const auto span_transformer_xl = [=](const ModelBuildOptions& setting) {
    TransformerXlOptions options;
    options.common = dropped_options(NormPosition::post);
    options.common.norm_kind = NormKind::rms;
    options.memory = 6;
    options.spans = spans;
    return make_transformer_xl(options, setting);
  };
  spans.kind = SpanKind::dynamic;
  const auto token_spans = [=](const ModelBuildOptions& setting) {
    TransformerXlOptions options;
    options.common = dropped_options(NormPosition::pre);
    options.common.norm_kind = NormKind::rms;
    options.memory = 6;
    options.spans = spans;
    return make_transformer_xl(options, setting);
  };
  // Intermediate losses end between the steps.
  const auto deep_decoder = [](const ModelBuildOptions& given) {
    DecoderOptions options;
    options.common = dropped_options(NormPosition::post);
    options.common.layers = 3;
    options.positions.kind = PositionEmbeddingType::learned;
    options.positions_each_layer = true;
    options.auxiliary = {.inner = AuxiliaryLossOptions::Inner::decay, .end = 0.7, .targets = 3};
    ModelBuildOptions setting = given;
    setting.steps = 5;
    return make_decoder(options, setting);
  };
  return {
      {"transformer_xl, memory 7", transformer_xl(NormPosition::post, 7, true)},
      {"transformer_xl, memory 3, norms before, untied",
       transformer_xl(NormPosition::pre, 3, false)},
      {"decoder, sinusoidal", decoder(PositionEmbeddingType::sinusoidal)},
      {"decoder, learned", decoder(PositionEmbeddingType::learned)},
      {"decoder, relative", decoder(PositionEmbeddingType::relative)},
      {"decoder, relative keys of keys too", decoder(PositionEmbeddingType::relative_key_query)},
      {"decoder, biases by distance", decoder(PositionEmbeddingType::relative_bias)},
      {"decoder, slopes", decoder(PositionEmbeddingType::alibi)},
      {"decoder, lsh, then causal", lsh_decoder},
      {"transformer_xl, gated by gru", gated({.biases = true})},
      {"transformer_xl, gated by highway", gated({.kind = GateKind::highway})},
      {"transformer_xl, gated by sigtanh", gated({.kind = GateKind::sigtanh})},
      {"decoder, spans", span_decoder},
      {"decoder, inner losses", deep_decoder},
      {"transformer_xl, spans, rms norms", span_transformer_xl},
      {"transformer_xl, spans of tokens, rms norms before", token_spans},
  };
}

void expect_same_on(const std::vector<MeshShape>& layouts) {
  const std::vector<Case> all = cases();
  const std::vector<Trained> expected = testing::train_on_one_process(all);
  testing::for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    for (std::size_t i = 0; i < all.size(); ++i) expect_same_training(all[i], expected[i], mesh);
  });
}

TEST(Layouts, EveryModelMatchesOneProcess) { expect_same_on(testing::data_and_tensor_layouts()); }

// The segment divides neither by the tensor ranks nor into the chunks of the context ranks:
// sequence shards are uneven.
TEST(Layouts, SequenceShardingMatchesOneProcess) { expect_same_on(testing::time_layouts()); }

TEST(Layouts, AccumulationMatchesOneProcess) {
  std::vector<Case> all = cases();
  const std::vector<Trained> expected = testing::train_on_one_process(all);
  for (Case& c : all) {
    c.accumulation = 2;
    c.name += ", in two parts";
  }
  testing::for_each_layout(
      {{}, {.data = 2}, {.data = 2, .tensor = 2}, {.context = 2, .tensor = 2, .sequence = true}},
      [&](const ProcessMesh& mesh) {
        for (std::size_t i = 0; i < all.size(); ++i)
          expect_same_training(all[i], expected[i], mesh);
      });
}

void expect_same_under_zero(Case c,
                            const Trained& expected,
                            int parts,
                            const std::vector<MeshShape>& layouts) {
  c.accumulation = parts;
  const std::string name = c.name;
  for (c.zero = 1; c.zero <= 2; ++c.zero) {
    c.name = fmt::format("{} in {} parts, ZeRO {}", name, parts, c.zero);
    testing::for_each_layout(
        layouts, [&](const ProcessMesh& mesh) { expect_same_training(c, expected, mesh); });
  }
}

TEST(Layouts, ZeroShardingMatchesOneProcess) {
  const std::vector<Case> all = cases();
  const std::vector<Trained> expected = testing::train_on_one_process(all);
  for (std::size_t i = 0; i < all.size(); ++i)
    expect_same_under_zero(all[i], expected[i], 1, {{.data = 2, .tensor = 2}});
  for (const std::size_t i : {0, 1})  // tied and untied embeddings
    expect_same_under_zero(all[i],
                           expected[i],
                           1,
                           {{},
                            {.data = 2},
                            {.data = 4},
                            {.tensor = 2, .sequence = true},
                            {.data = 2, .context = 2},
                            {.context = 2, .tensor = 2, .sequence = true}});
  expect_same_under_zero(
      all[0],
      expected[0],
      2,
      {{.data = 2}, {.data = 2, .tensor = 2}, {.data = 2, .tensor = 2, .sequence = true}});
}

TEST(Layouts, RepeatedRunsAreBitIdentical) {
  const std::vector<Case> all = cases();
  testing::for_each_layout(
      {{}, {.data = 2, .tensor = 2}, {.data = 4}, {.context = 2, .tensor = 2, .sequence = true}},
      [&](const ProcessMesh& mesh) {
        for (const Case& c : all) {
          SCOPED_TRACE(c.name + " on " + testing::to_string(mesh.shape));
          const Trained once = train(c, mesh);
          const Trained again = train(c, mesh);
          EXPECT_EQ(once.losses, again.losses);
          EXPECT_EQ(once.last_weights, again.last_weights);
        }
      });
}

}  // namespace
}  // namespace longspan::layouts_mesh_test
