// Causal language models with each position embedding.
#include "models/decoder.h"

#include "tests/models/model_testing.h"

namespace longspan::decoder_test {
namespace {

using testing::expect_close;
using testing::losses_of;
using testing::random_ids;
using testing::segment_of;
using testing::tiny_setting;
using testing::values_of;

DecoderOptions tiny(PositionEmbeddingType positions = PositionEmbeddingType::sinusoidal,
                    NormPosition norm = NormPosition::pre) {
  DecoderOptions options;
  options.common = testing::tiny_options(norm);
  options.common.activation = FeedForwardActivation::gelu_tanh;
  options.positions = {.kind = positions, .relative_max_distance = 3, .buckets = 4};
  options.positions.rope.share = 0.7;  // one pair of three features
  return options;
}

constexpr PositionEmbeddingType all_positions[] = {PositionEmbeddingType::sinusoidal,
                                                   PositionEmbeddingType::learned,
                                                   PositionEmbeddingType::relative,
                                                   PositionEmbeddingType::relative_key,
                                                   PositionEmbeddingType::relative_key_query,
                                                   PositionEmbeddingType::relative_bias,
                                                   PositionEmbeddingType::alibi,
                                                   PositionEmbeddingType::rotary};

TEST(DecoderModel, StartsAtUniformLoss) {
  for (const auto positions : all_positions) {
    DecoderOptions options = tiny(positions);
    options.common.initial_deviation = 0.02;
    const auto model = make_decoder(options, tiny_setting());
    const Tensor text = random_ids(8, 6, 1);
    EXPECT_NEAR(
        testing::mean(losses_of(*model, segment_of(text, 0, 5)).value()), std::log(11.0), 0.05);
  }
}

TEST(DecoderModel, GradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const auto positions : all_positions)
    for (const double dropout : {0.0, 0.3}) {
      DecoderOptions options = tiny(positions);
      options.common.dropout = options.common.attention_dropout = dropout;
      const auto model = make_decoder(options, tiny_setting());
      testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), pass);
    }
}

TEST(DecoderModel, RecurrentLayerGradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const char* const kind : {"retention",
                                 "gla",
                                 "delta_net",
                                 "gated_delta_net",
                                 "kimi_delta_attention",
                                 "mamba2",
                                 "rwkv7"}) {
    SCOPED_TRACE(kind);
    DecoderOptions options = tiny(PositionEmbeddingType::sinusoidal);
    options.common.attention.kinds = {kind};
    options.common.attention.mamba2 = {
        .dim = 4, .state = 3, .groups = 2, .step_limit = {0.003, 0.08}};
    options.common.dropout = 0.3;
    const auto model = make_decoder(options, tiny_setting());
    // The norm of the heads divides by small numbers, whose derivatives grow with their order.
    testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), pass, 3e-5);
  }
}

// rwkv7 requires layers that run once, without cross-attention, which pixel models may have.
TEST(DecoderModel, OnlyDecodersOfTokensHaveValueResiduals) {
  const ModelOptions options;
  const auto has_it = [&](const FamilyTraits& traits) {
    return options.attention_setting(traits, 0).value_residual;
  };
  EXPECT_TRUE(has_it({}));
  EXPECT_FALSE(has_it({.has_cross_attention = true}));
  EXPECT_FALSE(has_it({.repeats_layers = true}));
  EXPECT_FALSE(has_it({.image = ImageGrid()}));
}

TEST(DecoderModel, MixingLayerGradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const char* const kind : {"aft_full", "aft_local", "aft_simple", "gmlp"}) {
    SCOPED_TRACE(kind);
    DecoderOptions options = tiny(PositionEmbeddingType::sinusoidal);
    options.common.attention.kinds = {kind};
    options.common.attention.mixing = {.window = 2, .gate_heads = 2, .gate_attention = 3};
    options.common.dropout = 0.3;
    const auto model = make_decoder(options, tiny_setting());
    testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), pass);
  }
}

// Options of Qwen3.5: delta types and gated softmax attention, QK norm of 1 + weight, RoPE of some
// features.
DecoderOptions hybrid_options() {
  DecoderOptions options = tiny(PositionEmbeddingType::rotary);
  options.positions.rope.share = 0.5;
  options.common.head_width = 4;
  options.common.key_heads = 1;
  options.common.norm_kind = NormKind::rms;
  options.common.zero_centered_gains = true;
  options.common.query_key_norm = true;
  options.common.output_gate = true;
  options.common.attention_bias = {};
  options.common.feed_forward_bias = false;
  options.common.activation = FeedForwardActivation::swiglu;
  options.common.attention.kinds = {"gated_delta_net", "full"};
  options.common.attention.delta_rule = {
      .key_heads = 2, .value_heads = 4, .key_dim = 3, .value_dim = 5};
  return options;
}

TEST(DecoderModel, HybridGradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  DecoderOptions options = hybrid_options();
  options.common.dropout = options.common.attention_dropout = 0.3;
  const auto model = make_decoder(options, tiny_setting());
  testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), pass, 3e-5);
}

// QK norm and the output gate are those of softmax layers.
TEST(DecoderModel, DeltaTypesHaveNeitherQkNormNorOutputGateOfSoftmaxLayers) {
  const auto model = make_decoder(hybrid_options(), tiny_setting());
  const Parameters& parameters = model->parameters();
  for (const std::string name : {"query_norm/weight", "key_norm/weight"}) {
    EXPECT_EQ(parameters.find("layers/0/attention/" + name), nullptr) << name;
    EXPECT_NE(parameters.find("layers/1/attention/" + name), nullptr) << name;
  }
  const std::int64_t width = hybrid_options().common.width;
  const std::string gate = "attention/output_gate/weight";
  EXPECT_EQ(parameters.named("layers/0/" + gate).shape, (Shape{4 * 5, width}));
  EXPECT_EQ(parameters.named("layers/1/" + gate).shape, (Shape{2 * 4, width}));
}

TEST(DecoderModel, ZeroCenteredGainsStartAsOnes) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms, NormKind::power}) {
    std::vector<std::vector<double>> losses;
    for (const bool is_centered : {false, true}) {
      DecoderOptions options = tiny(PositionEmbeddingType::sinusoidal);
      options.common.norm_kind = kind;
      options.common.query_key_norm = kind != NormKind::power;
      options.common.zero_centered_gains = is_centered;
      const auto model = make_decoder(options, tiny_setting());
      for (const auto& parameter : model->parameters().all()) {
        if (!parameter->name.ends_with("norm/weight")) continue;
        EXPECT_EQ(parameter->master.span<double>()[0], is_centered ? 0 : 1) << parameter->name;
      }
      const Tensor found = losses_of(*model, segment_of(random_ids(2, 6, 1), 0, 5)).value();
      const auto values = found.span<double>();
      losses.emplace_back(values.begin(), values.end());
    }
    EXPECT_EQ(losses[0], losses[1]);
  }
}

// Fewer key heads than value heads, of other dimensions than the model's heads.
TEST(DecoderModel, DeltaRuleProjectionGradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const char* const kind : {"delta_net", "gated_delta_net", "kimi_delta_attention"}) {
    SCOPED_TRACE(kind);
    DecoderOptions options = tiny(PositionEmbeddingType::sinusoidal);
    options.common.attention.kinds = {kind};
    options.common.attention.delta_rule = {
        .key_heads = 2, .value_heads = 6, .key_dim = 3, .value_dim = 5};
    options.common.dropout = 0.3;
    const auto model = make_decoder(options, tiny_setting());
    EXPECT_EQ(model->parameters().named("layers/0/attention/query/weight").shape[0], 6);
    EXPECT_EQ(model->parameters().named("layers/0/attention/value/weight").shape[0], 30);
    testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), pass, 3e-5);
  }
}

// The model's own heads, written out.
TEST(DecoderModel, DeltaRuleProjectionsDefaultToModelHeads) {
  const auto losses = [](const DeltaRuleOptions& projections) {
    DecoderOptions options = tiny(PositionEmbeddingType::sinusoidal);
    options.common.attention.kinds = {"gated_delta_net"};
    options.common.attention.delta_rule = projections;
    const auto model = make_decoder(options, tiny_setting());
    const Tensor found = losses_of(*model, segment_of(random_ids(2, 6, 1), 0, 5)).value();
    const auto values = found.span<double>();
    return std::vector<double>(values.begin(), values.end());
  };
  const DecoderOptions options = tiny(PositionEmbeddingType::sinusoidal);
  EXPECT_EQ(losses({.key_heads = options.common.heads,
                    .value_heads = options.common.heads,
                    .key_dim = options.common.head_dim(),
                    .value_dim = options.common.head_dim()}),
            losses({}));
}

TEST(DecoderModel, RejectsDeltaRuleKeyHeadsThatDoNotDivideValueHeads) {
  DecoderOptions options = tiny(PositionEmbeddingType::sinusoidal);
  options.common.attention.kinds = {"gated_delta_net"};
  options.common.attention.delta_rule = {.key_heads = 4, .value_heads = 6};
  EXPECT_EQ(problem_of(options.common.attention, options.common.attention_setting({}, 0)),
            "model.attention.delta_rule.num_key_heads: expected a divisor of the 6 value heads, "
            "found 4");
  options.common.attention.delta_rule = {.key_heads = 3, .value_heads = 6};
  AttentionBuildOptions setting = options.common.attention_setting({}, 0);
  setting.mesh = {.context = 2, .tensor = 2};
  EXPECT_EQ(problem_of(options.common.attention, setting),
            "model.attention.delta_rule.num_key_heads: expected a multiple of "
            "parallel.tensor_parallel_size = 2, found 3");
}

// Layers without feed-forward layers, as in Mamba-2.
TEST(DecoderModel, GradientsWithoutFeedForwardMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  DecoderOptions options = tiny(PositionEmbeddingType::rotary);
  options.common.feed_forward = 0;
  options.common.attention.kinds = {"mamba2", "full"};
  options.common.attention.mamba2 = {.dim = 4, .state = 3, .groups = 2};
  const auto model = make_decoder(options, tiny_setting());
  for (const auto& parameter : model->parameters().all())
    EXPECT_EQ(parameter->name.find("feed_forward"), std::string::npos) << parameter->name;
  testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), pass, 3e-5);
}

TEST(DecoderModel, RejectsReversibleLayersWithoutFeedForward) {
  DecoderOptions options = tiny(PositionEmbeddingType::sinusoidal);
  options.common.feed_forward = 0;
  EXPECT_EQ(validate_feed_forward(options.common), "");
  options.common.use_parallel_residual = true;
  EXPECT_EQ(validate_feed_forward(options.common),
            "model.intermediate_size: 0 cannot be combined with model.use_parallel_residual, which "
            "requires feed-forward layers");
  options.common.residual = ResidualKind::reversible;
  EXPECT_THROW(make_decoder(options, tiny_setting()), ConfigurationError);
}

// Each head forgets at its own rate from the start.
TEST(DecoderModel, DecayGatesStartLogUniform) {
  for (const char* const kind : {"gated_delta_net", "kimi_delta_attention"}) {
    DecoderOptions options = tiny(PositionEmbeddingType::sinusoidal);
    options.common.attention.kinds = {kind};
    const auto model = make_decoder(options, tiny_setting());
    std::size_t tested = 0;
    for (const auto& parameter : model->parameters().all()) {
      const bool is_step = parameter->name.ends_with("decay/bias");
      if (!is_step && !parameter->name.ends_with("log_rate")) continue;
      ++tested;
      const double least = is_step ? std::log(0.001) : 0, most = std::log(is_step ? 0.1 : 16);
      double smallest = most, largest = least;
      for (const double value : parameter->master.span<double>()) {
        EXPECT_TRUE(value > least && value < most) << kind << ": " << parameter->name;
        smallest = std::min(smallest, value);
        largest = std::max(largest, value);
      }
      EXPECT_GT(largest, smallest);
    }
    EXPECT_EQ(tested, 2 * static_cast<std::size_t>(options.common.layers));
  }
}

// Options of Llama and Qwen: RoPE, grouped keys, QK norm, SwiGLU.
TEST(DecoderModel, LlamaStyleGradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const NormKind norm : {NormKind::rms, NormKind::layer}) {
    DecoderOptions options = tiny(PositionEmbeddingType::rotary);
    options.common.head_width = 4;
    options.common.norm_kind = norm;
    options.common.key_heads = 1;
    options.common.query_key_norm = true;
    options.common.attention_bias = {"query", "key", "value"};
    options.common.feed_forward_bias = false;
    options.common.activation = FeedForwardActivation::swiglu;
    options.common.dropout = options.common.attention_dropout = 0.3;
    const auto model = make_decoder(options, tiny_setting());
    testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), pass);
  }
}

TEST(DecoderModel, SinkAndSoftcapGradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const std::int64_t chunks : {1, 2})
    for (const bool is_parallel : {false, true}) {
      DecoderOptions options = tiny(PositionEmbeddingType::alibi);
      options.common.attention_sinks = true;
      options.common.score_cap = 0.3;
      options.common.logit_cap = 0.4;
      options.common.use_parallel_residual = is_parallel;
      options.common.dropout = options.common.attention_dropout = 0.3;
      ModelBuildOptions setting = tiny_setting();
      setting.memory.loss_chunks = chunks;
      const auto model = make_decoder(options, setting);
      testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), pass);
    }
}

// T5: one relative-bias table for all layers, unscaled scores, scaled logits.
TEST(DecoderModel, T5GradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const std::int64_t chunks : {1, 2}) {
    DecoderOptions options = tiny(PositionEmbeddingType::relative_bias);
    options.common.scale_attn_weights = false;
    options.common.scale_decoder_outputs = true;
    options.common.logit_cap = 0.4;
    options.common.dropout = options.common.attention_dropout = 0.3;
    ModelBuildOptions setting = tiny_setting();
    setting.memory.loss_chunks = chunks;
    const auto model = make_decoder(options, setting);
    EXPECT_EQ(model->parameters().named("relative_bias").global_shape,
              (Shape{options.common.heads, 4}));
    testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), pass);
  }
}

TEST(DecoderModel, AppliesScoreAndLogitScales) {
  const ModelInput segment = segment_of(random_ids(1, 6, 1), 0, 5);
  const auto scores = [&](const DecoderOptions& options, double of_queries) {
    const auto model = make_decoder(options, tiny_setting());
    for (const auto& parameter : model->parameters().all())
      if (parameter->name.find("/query/") != std::string::npos)
        for (double& weight : parameter->master.span<double>()) weight *= of_queries;
    model->parameters().refresh_compute();
    return values_of(model->scores(segment, ForwardContext()).scores.value());
  };
  DecoderOptions options = tiny(PositionEmbeddingType::relative_bias);
  const testing::Values plain = scores(options, 1);
  options.common.scale_decoder_outputs = true;
  testing::Values divided = plain;
  for (double& score : divided) score /= std::sqrt(static_cast<double>(options.common.width));
  expect_close(scores(options, 1), divided, 1e-13);
  options.common.scale_attn_weights = false;
  const auto dim = static_cast<double>(options.common.head_dim());
  expect_close(scores(options, 1 / std::sqrt(dim)), divided, 1e-13);
}

// A very large sink takes all of the softmax: attention outputs only its bias.
TEST(DecoderModel, LargeSinksSuppressAttention) {
  DecoderOptions options = tiny(PositionEmbeddingType::alibi);
  options.common.attention_sinks = true;
  const auto model = make_decoder(options, tiny_setting());
  const Tensor text = random_ids(1, 6, 1);
  const auto set_sinks = [&](double value) {
    for (const auto& parameter : model->parameters().all())
      if (parameter->name.ends_with("/sinks"))
        for (double& sink : parameter->master.span<double>()) sink = value;
    model->parameters().refresh_compute();
    return values_of(losses_of(*model, segment_of(text, 0, 5)).value());
  };
  const auto without = set_sinks(-1e4);
  options.common.attention_sinks = false;
  const auto plain = make_decoder(options, tiny_setting());
  expect_close(without, values_of(losses_of(*plain, segment_of(text, 0, 5)).value()), 1e-13);
  // Later losses do not depend on the first token.
  const auto before = set_sinks(1e4);
  text.data<std::int64_t>()[0] = (text.data<std::int64_t>()[0] + 1) % testing::vocabulary;
  const auto after = set_sinks(1e4);
  for (std::size_t i = 1; i < before.size(); ++i) EXPECT_EQ(before[i], after[i]);
}

TEST(DecoderModel, SoftcapsLogits) {
  const ModelInput segment = segment_of(random_ids(1, 6, 1), 0, 5);
  const auto scores = [&](std::optional<double> cap) {
    DecoderOptions options = tiny();
    options.common.logit_cap = cap;
    const auto model = make_decoder(options, tiny_setting());
    return values_of(model->scores(segment, ForwardContext()).scores.value());
  };
  testing::Values expected = scores({});
  for (double& score : expected) score = 0.5 * std::tanh(score / 0.5);
  expect_close(scores(0.5), expected, 1e-13);
}

TEST(DecoderModel, UntiedEmbeddingGradientsMatchFiniteDifferences) {
  DecoderOptions options = tiny();
  options.common.tied_embeddings = false;
  const auto model = make_decoder(options, tiny_setting());
  testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), ForwardContext());
}

TEST(DecoderModel, ReducesLossOnRepeatedSegment) {
  for (const auto positions : all_positions) {
    const auto model = make_decoder(tiny(positions), tiny_setting());
    const auto [first, last] =
        testing::descend(*model, segment_of(random_ids(2, 6, 1), 0, 5), 100, 0.3);
    EXPECT_LT(last, 0.5 * first);
  }
}

TEST(DecoderModel, DoesNotAttendToLaterTokens) {
  const Tensor text = random_ids(1, 6, 1);
  const Tensor changed = text.clone();
  std::int64_t& token = changed.data<std::int64_t>()[3];
  token = (token + 1) % testing::vocabulary;
  const ModelInput segment = segment_of(text, 0, 5);
  ModelInput other = segment;
  other.fields["tokens"] = testing::columns(changed, 0, 5);
  for (const auto positions : all_positions) {
    const auto model = make_decoder(tiny(positions), tiny_setting());
    const auto before = values_of(losses_of(*model, segment).value());
    const auto after = values_of(losses_of(*model, other).value());
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(before[i] == after[i], i < 3);
  }
}

TEST(DecoderModel, LossesMatchLogits) {
  const auto model = make_decoder(tiny(), tiny_setting());
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  const Tensor logits = model->scores(segment, ForwardContext()).scores.value();
  ASSERT_EQ(logits.shape(), (Shape{2, 5, 11}));
  const Tensor& targets = field_of(segment.fields, "targets");
  testing::Values expected;
  for (std::int64_t row = 0; row < 10; ++row) {
    const double* const values = logits.data<double>() + row * 11;
    double total = 0;
    for (int v = 0; v < 11; ++v) total += std::exp(values[v]);
    expected.push_back(std::log(total) - values[targets.data<std::int64_t>()[row]]);
  }
  expect_close(values_of(losses_of(*model, segment).value()), expected, 1e-13);
}

TEST(DecoderModel, IgnoredTargetsHaveZeroLoss) {
  const auto model = make_decoder(tiny(), tiny_setting());
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  const auto before = values_of(losses_of(*model, segment).value());
  field_of(segment.fields, "targets").data<std::int64_t>()[7] = -1;
  const auto after = values_of(losses_of(*model, segment).value());
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(after[i], i == 7 ? 0 : before[i]);
}

TEST(DecoderModel, SupportsKVCacheOnlyWithFixedRopeAngles) {
  const auto supports_cache = [](RotaryScaling scaling) {
    DecoderOptions options = tiny(PositionEmbeddingType::rotary);
    options.common.head_width = 4;
    options.positions.rope = {.scaling = scaling,
                              .factor = 2,
                              .original = 3,
                              .short_factors = {1, 1},
                              .long_factors = {2, 3}};
    return make_decoder(options, tiny_setting())->body().supports_kv_cache();
  };
  using enum RotaryScaling;
  for (const RotaryScaling scaling : {none, linear, ntk, yarn, llama3})
    EXPECT_TRUE(supports_cache(scaling));
  for (const RotaryScaling scaling : {dynamic, longrope}) EXPECT_FALSE(supports_cache(scaling));
}

TEST(DecoderModel, RejectsRotaryWithoutDotProductScores) {
  DecoderOptions options = tiny(PositionEmbeddingType::rotary);
  for (const char* const kind : {"additive", "linear", "memory_compressed", "synthesizer"}) {
    options.common.attention.kinds = {kind};
    EXPECT_THROW(make_decoder(options, tiny_setting()), ConfigurationError) << kind;
  }
}

TEST(DecoderModel, RejectsSegmentsLongerThanPositionTable) {
  DecoderOptions options = tiny(PositionEmbeddingType::learned);
  options.positions.longest = 4;
  EXPECT_THROW(make_decoder(options, tiny_setting(5)), ConfigurationError);
  const auto model = make_decoder(options, tiny_setting(3));
  EXPECT_EQ(model->body().max_segment_length(), 4);
  const Tensor text = random_ids(1, 6, 1);
  EXPECT_NO_THROW(model->losses(segment_of(text, 0, 4), ForwardContext()));
  EXPECT_THROW(model->losses(segment_of(text, 0, 5), ForwardContext()), Failure);
  EXPECT_EQ(make_decoder(tiny(), tiny_setting())->body().max_segment_length(), 0);
}

}  // namespace
}  // namespace longspan::decoder_test
