// Models whose layers mix tokens without attention.
#include "framework/modeling/heads.h"
#include "models/encoder.h"
#include "tests/models/model_testing.h"

namespace longspan::token_mixing_layers_test {
namespace {

using testing::columns;
using testing::random_ids;
using testing::Values;
using testing::values_of;

constexpr std::int64_t longest = 9;

const std::vector<std::string> encoder_kinds = {
    "aft_full", "aft_local", "aft_simple", "fnet", "gmlp", "mlp_mixer"};

AttentionOptions attention_of(const std::string& kind) {
  return {.kinds = {kind}, .mixing = {.window = 3, .gate_heads = 2, .gate_attention = 3}};
}

std::unique_ptr<Model> encoder_of(const AttentionOptions& attention,
                                  std::int64_t segment = longest) {
  EncoderOptions options;
  options.common = testing::tiny_options(NormPosition::pre);
  options.common.attention = attention;
  ModelBuildOptions setting = testing::tiny_setting(segment);
  setting.classes = 2;
  return std::make_unique<Model>(setting, encoder_body(options), tagging_head());
}

std::unique_ptr<Model> decoder_of(const AttentionOptions& attention,
                                  std::int64_t segment,
                                  bool documents = false) {
  DecoderOptions options;
  options.common = testing::tiny_options(NormPosition::pre);
  options.common.attention = attention;
  ModelBuildOptions setting = testing::tiny_setting(segment);
  setting.documents_apart = documents;
  return make_decoder(options, setting);
}

Values states_of(const Model& model, const Tensor& text, std::int64_t length) {
  const NoGradGuard no_gradient;
  ForwardContext pass;
  pass.time = replicate_sequence(text.shape()[1]);
  const Tensor lengths = Tensor::from<std::int64_t>(std::vector{length}, {1}, text.device());
  return values_of(
      model.body().run({.fields = {{"tokens", text}, {"length", lengths}}}, pass).hidden.value());
}

template <typename F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), text.npos) << text;
}

// The longest example of a batch determines its number of columns.
TEST(TokenMixingEncoder, PaddingOfBatchChangesNothing) {
  constexpr std::int64_t length = 5;
  const Tensor text = random_ids(1, longest, 1);
  for (const std::string& kind : encoder_kinds) {
    SCOPED_TRACE(kind);
    const auto model = encoder_of(attention_of(kind));
    const Values alone = states_of(*model, columns(text, 0, length), length);
    Values padded = states_of(*model, text, length);
    padded.resize(alone.size());
    testing::expect_close(padded, alone, 1e-12);
  }
}

TEST(TokenMixingEncoder, GradientsMatchFiniteDifferences) {
  for (const std::string& kind : encoder_kinds) {
    SCOPED_TRACE(kind);
    const auto model = encoder_of(attention_of(kind), 6);
    const Tensor text = random_ids(2, 5, 1);
    const Tensor length =
        Tensor::from<std::int64_t>(std::vector<std::int64_t>{5, 3}, {2}, text.device());
    ForwardContext pass;
    pass.time = replicate_sequence(5);
    testing::expect_layer_gradients(
        model->parameters(),
        [&](const std::vector<Variable>&) {
          return model->body().run({.fields = {{"tokens", text}, {"length", length}}}, pass).hidden;
        },
        {},
        {.directions = 1, .elements = 1});
  }
}

TEST(TokenMixingLayers, RejectLongerSequencesThanTrained) {
  const Tensor text = random_ids(1, longest + 1, 1);
  for (const std::string& kind : encoder_kinds) {
    if (kind == "aft_simple") continue;
    const auto model = encoder_of(attention_of(kind));
    EXPECT_EQ(model->body().max_segment_length(), longest) << kind;
    expect_contains(message_of([&] { states_of(*model, text, longest + 1); }),
                    kind +
                        ": expected at most model.attention.token_mixing.max_length = 9 "
                        "positions, found 10");
    AttentionOptions attention = attention_of(kind);
    attention.mixing.longest = longest - 1;
    expect_contains(message_of([&] { encoder_of(attention); }),
                    "model.attention.token_mixing.max_length: expected at least 9");
    expect_contains(message_of([&] { encoder_of(attention_of(kind), 0); }),
                    "set model.attention.token_mixing.max_length");
  }
  EXPECT_EQ(encoder_of(attention_of("aft_simple"))->body().max_segment_length(), 0);
}

TEST(TokenMixingLayers, RejectUnsupportedModels) {
  for (const char* const kind : {"fnet", "mlp_mixer"})
    expect_contains(message_of([&] { decoder_of(attention_of(kind), longest); }),
                    fmt::format("model.attention.layer_types: {} does not support causal", kind));
  TransformerXlOptions memory;
  memory.common = testing::tiny_options();
  memory.memory = 4;
  for (const char* const kind : {"aft_full", "aft_simple", "gmlp"}) {
    memory.common.attention = attention_of(kind);
    expect_contains(
        message_of([&] { make_transformer_xl(memory, testing::tiny_setting(longest)); }),
        fmt::format("{} does not support model.mem_len", kind));
  }
  AttentionOptions gates = attention_of("gmlp");
  gates.mixing.gate_hidden = 10;
  expect_contains(message_of([&] { decoder_of(gates, longest); }),
                  "model.attention.gmlp.hidden_size: expected a multiple of 2 x");
}

TEST(TokenMixingLayers, OnlyAttentionFreeTypesSupportDocuments) {
  for (const std::string& kind : encoder_kinds) {
    const bool supports = kind.starts_with("aft_");
    const std::string problem = problem_of(attention_of(kind),
                                           {.layers = 2,
                                            .heads = 2,
                                            .dim = 4,
                                            .width = 8,
                                            .segment = longest,
                                            .causal = supports,
                                            .documents = true});
    const std::string expected =
        supports ? "" : kind + " does not support data.documents.reset_attention_mask";
    EXPECT_EQ(problem.empty(), supports) << problem;
    expect_contains(problem, expected);
  }
}

}  // namespace
}  // namespace longspan::token_mixing_layers_test
