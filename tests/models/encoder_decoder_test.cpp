// Encoder-decoder models on one process.
#include "framework/nn/attention/kv_cache.h"
#include "tests/data/temporary_file.h"
#include "tests/models/encoder_decoder_testing.h"

namespace longspan::encoder_decoder_test {
namespace {

using testing::all_wirings;
using testing::expect_close;
using testing::losses_of;
using testing::make_encoder_decoder;
using testing::pair_fields;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

using Embeddings = EncoderDecoderOptions::Embeddings;

EncoderDecoderOptions tiny(CrossAttentionMapping wiring, NormPosition norm = NormPosition::pre) {
  EncoderDecoderOptions options;
  options.common = testing::tiny_options(norm);
  options.common.activation = FeedForwardActivation::gelu_tanh;  // differentiable everywhere
  options.wiring = wiring;
  // Other mappings support stacks of unequal depth.
  if (wiring != CrossAttentionMapping::same && wiring != CrossAttentionMapping::reverse)
    options.encoder_layers = 3;
  return options;
}

// Lengths of a full row, a short one, one without a source, and an empty one.
const std::vector<Lengths> rows = {{4, 5}, {2, 3}, {0, 4}, {0, 0}};
constexpr std::int64_t target_columns = 5;

ModelInput reading(const Lengths& columns = {4, target_columns}) {
  return {.fields = pair_fields(rows, columns, 1)};
}

// The loss of one target; `columns`: width of the target batch.
double at(const Values& losses,
          std::size_t row,
          std::size_t column,
          std::size_t columns = target_columns) {
  return losses[row * columns + column];
}

void change(const ModelInput& reading,
            std::string_view field,
            std::size_t row,
            std::size_t column) {
  std::int64_t& id = row_of(field_of(reading.fields, field), row)[column];
  id = (id + 1) % testing::vocabulary;
}

Values losses_after(const Model& model, const ModelInput& reading) {
  const Tensor losses = losses_of(model, reading).value();
  EXPECT_EQ(losses.elements(), std::ssize(rows) * reading.time());
  return values_of(losses);
}

TEST(EncoderDecoderModel, StartsAtUniformLoss) {
  for (const CrossAttentionMapping wiring : all_wirings) {
    EncoderDecoderOptions options = tiny(wiring);
    options.common.initial_deviation = 0.02;
    const auto model = make_encoder_decoder(options, tiny_setting());
    const Values losses = losses_after(*model, reading());
    EXPECT_NEAR(at(losses, 0, 0), std::log(11.0), 0.05);
    EXPECT_NEAR(at(losses, 2, 3), std::log(11.0), 0.05);
  }
}

TEST(EncoderDecoderModel, GradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const CrossAttentionMapping wiring : all_wirings)
    for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
      SCOPED_TRACE(
          fmt::format("wiring {}, norm {}", static_cast<int>(wiring), static_cast<int>(norm)));
      EncoderDecoderOptions options = tiny(wiring, norm);
      // Covers both embedding and position options with each norm and most layer mappings.
      const bool other = (static_cast<int>(wiring) + (norm == NormPosition::pre ? 1 : 0)) % 2 == 0;
      options.embeddings = other ? Embeddings::apart : Embeddings::shared;
      options.positions.kind =
          other ? PositionEmbeddingType::sinusoidal : PositionEmbeddingType::learned;
      options.input.norm = !other;
      options.common.tied_embeddings = wiring != CrossAttentionMapping::mix;
      if (other) options.common.dropout = options.common.attention_dropout = 0.3;
      const auto model = make_encoder_decoder(options, tiny_setting());
      testing::expect_model_gradients(*model, reading(), pass);
    }
}

// Includes distances beyond the maximum and rows of unequal lengths.
TEST(EncoderDecoderModel, RelativePositionGradientsMatchFiniteDifferences) {
  for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
    EncoderDecoderOptions options = tiny(CrossAttentionMapping::last, norm);
    options.positions = {.kind = PositionEmbeddingType::relative, .relative_max_distance = 2};
    options.common.dropout = options.common.attention_dropout = 0.3;
    const auto model = make_encoder_decoder(options, tiny_setting());
    testing::expect_model_gradients(*model, reading(), {.training = true, .random = Random(3)});
  }
}

// Relative biases, score scale and logit scale of T5.
TEST(EncoderDecoderModel, RelativeBiasGradientsMatchFiniteDifferences) {
  for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
    EncoderDecoderOptions options = tiny(CrossAttentionMapping::last, norm);
    options.positions = {
        .kind = PositionEmbeddingType::relative_bias, .relative_max_distance = 3, .buckets = 4};
    options.common.scale_attn_weights = false;
    options.common.scale_decoder_outputs = true;
    options.common.dropout = options.common.attention_dropout = 0.3;
    const auto model = make_encoder_decoder(options, tiny_setting());
    testing::expect_model_gradients(*model, reading(), {.training = true, .random = Random(3)});
  }
}

TEST(EncoderDecoderModel, StacksHaveOneRelativeBiasTableEach) {
  EncoderDecoderOptions options = tiny(CrossAttentionMapping::last);
  const auto count = [&] {
    return make_encoder_decoder(options, tiny_setting())->parameters().all().size();
  };
  const std::size_t before = count();
  options.positions = {
      .kind = PositionEmbeddingType::relative_bias, .relative_max_distance = 5, .buckets = 6};
  EXPECT_EQ(count(), before + 2);
  const auto model = make_encoder_decoder(options, tiny_setting());
  for (const char* table : {"encoder/relative_bias", "decoder/relative_bias"})
    EXPECT_EQ(model->parameters().named(table).global_shape, (Shape{options.common.heads, 6}));
  EXPECT_EQ(model->body().max_segment_length(), 0);
}

TEST(EncoderDecoderModel, ScoreScaleAppliesToCrossAttention) {
  EncoderDecoderOptions options = tiny(CrossAttentionMapping::last);
  const auto losses = [&](double of_queries) {
    const auto model = make_encoder_decoder(options, tiny_setting());
    for (const auto& parameter : model->parameters().all())
      if (parameter->name.find("/query/") != std::string::npos)
        for (double& weight : parameter->master.span<double>()) weight *= of_queries;
    model->parameters().refresh_compute();
    return losses_after(*model, reading());
  };
  const Values plain = losses(1);
  options.common.scale_attn_weights = false;
  const double root = std::sqrt(static_cast<double>(options.common.head_dim()));
  expect_close(losses(1 / root), plain, 1e-13);
}

TEST(EncoderDecoderModel, LayersHaveOwnRelativePositionTables) {
  EncoderDecoderOptions options = tiny(CrossAttentionMapping::last);
  const auto count = [&] {
    return make_encoder_decoder(options, tiny_setting())->parameters().all().size();
  };
  const std::size_t before = count();
  options.positions = {.kind = PositionEmbeddingType::relative, .relative_max_distance = 5};
  EXPECT_EQ(count(), before + 2 * (3 + 2));
  const auto model = make_encoder_decoder(options, tiny_setting());
  for (const char* layer : {"encoder/layers/2", "decoder/layers/1"})
    for (const char* table : {"relative_keys", "relative_values"})
      EXPECT_EQ(
          model->parameters().named(fmt::format("{}/attention/{}", layer, table)).global_shape,
          (Shape{11, 3}));
  EXPECT_EQ(model->body().max_segment_length(), 0);
}

// The mixture starts at 0; nonzero values test its gradient elsewhere.
TEST(EncoderDecoderModel, NonzeroMixtureGradientsMatchFiniteDifferences) {
  const auto model = make_encoder_decoder(tiny(CrossAttentionMapping::mix), tiny_setting());
  std::uint64_t mixtures = 0;
  for (const auto& parameter : model->parameters().all())
    if (parameter->name.ends_with("mixture"))
      parameter->master.copy_from(testing::random_tensor(parameter->shape, ++mixtures));
  EXPECT_EQ(mixtures, 2u);
  testing::expect_model_gradients(*model, reading(), ForwardContext());
}

TEST(EncoderDecoderModel, SharesOrSeparatesEmbeddings) {
  const auto names = [](const EncoderDecoderOptions& options) {
    std::vector<std::string> tables;
    const auto model = make_encoder_decoder(options, tiny_setting());
    for (const auto& parameter : model->parameters().all())
      if (parameter->global_shape[0] == testing::vocabulary) tables.push_back(parameter->name);
    std::ranges::sort(tables);
    return tables;
  };
  using Names = std::vector<std::string>;
  EncoderDecoderOptions options = tiny(CrossAttentionMapping::last);
  EXPECT_EQ(names(options), (Names{"embedding/weight"}));
  options.embeddings = Embeddings::apart;
  EXPECT_EQ(names(options), (Names{"embedding/weight", "source_embedding/weight"}));
  options.common.tied_embeddings = false;
  EXPECT_EQ(names(options),
            (Names{"embedding/weight", "output/weight", "source_embedding/weight"}));
}

TEST(EncoderDecoderModel, DependsOnlyOnEarlierTargetsAndItsSource) {
  for (const CrossAttentionMapping wiring : all_wirings) {
    SCOPED_TRACE(static_cast<int>(wiring));
    const auto model = make_encoder_decoder(tiny(wiring), tiny_setting());
    const Values before = losses_after(*model, reading());
    const ModelInput later = reading();
    change(later, "tokens", 0, 3);
    const ModelInput earliest = reading();
    change(earliest, "source", 0, 3);
    const Values of_later = losses_after(*model, later);
    const Values of_source = losses_after(*model, earliest);
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (std::size_t column = 0; column < target_columns; ++column) {
        const double value = at(before, row, column);
        EXPECT_EQ(at(of_later, row, column) == value, row > 0 || column < 3);
        EXPECT_EQ(at(of_source, row, column) == value, row > 0);
      }
  }
}

TEST(EncoderDecoderModel, DoesNotDependOnPadding) {
  for (const CrossAttentionMapping wiring : all_wirings) {
    const auto model = make_encoder_decoder(tiny(wiring), tiny_setting());
    const Values before = losses_after(*model, reading());
    const ModelInput changed = reading();
    for (std::size_t column = 2; column < 4; ++column) change(changed, "source", 1, column);
    for (std::size_t column = 0; column < 4; ++column) change(changed, "source", 2, column);
    for (std::size_t column = 3; column < 5; ++column) change(changed, "tokens", 1, column);
    for (std::size_t column = 0; column < 5; ++column) change(changed, "tokens", 3, column);
    EXPECT_EQ(losses_after(*model, changed), before);
    for (std::size_t column = 0; column < target_columns; ++column) {
      EXPECT_EQ(at(before, 1, column) == 0, column >= 3);
      EXPECT_EQ(at(before, 2, column) == 0, column >= 4);
      EXPECT_EQ(at(before, 3, column), 0);
    }
  }
}

// Padding adds nothing to gradients of shared weights.
TEST(EncoderDecoderModel, DoesNotDependOnBatchWidth) {
  const auto gradients = [](Model& model, const ModelInput& reading) {
    model.parameters().clear_gradients();
    backward(sum(losses_of(model, reading)));
    std::vector<Values> all;
    for (const auto& parameter : model.parameters().all())
      all.push_back(values_of(parameter->gradient));
    return all;
  };
  for (const CrossAttentionMapping wiring : all_wirings)
    for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
      EncoderDecoderOptions options = tiny(wiring, norm);
      if (norm == NormPosition::post)
        options.positions = {.kind = PositionEmbeddingType::relative, .relative_max_distance = 2};
      const auto model = make_encoder_decoder(options, tiny_setting());
      const Values narrow = losses_after(*model, reading());
      const auto expected = gradients(*model, reading());
      const ModelInput wider = reading({9, 7});
      const Values wide = losses_after(*model, wider);
      for (std::size_t row = 0; row < rows.size(); ++row)
        for (std::size_t column = 0; column < 7; ++column)
          EXPECT_NEAR(at(wide, row, column, 7), column < 5 ? at(narrow, row, column) : 0, 1e-13);
      const auto found = gradients(*model, wider);
      for (std::size_t i = 0; i < expected.size(); ++i) expect_close(found[i], expected[i], 1e-12);
    }
}

// Decoding column by column gives the logits of the full target.
void expect_cached_logits(const EncoderDecoderOptions& options) {
  const NoGradGuard unrecorded;
  const auto model = make_encoder_decoder(options, tiny_setting());
  const ModelInput all = reading();
  const Values expected = values_of(model->scores(all, ForwardContext()).scores.value());
  const auto cache = std::make_shared<KVCache>();
  for (std::int64_t column = 0; column < target_columns; ++column) {
    Fields fields = {{"tokens", testing::columns(field_of(all.fields, "tokens"), column, 1)}};
    if (column == 0)
      for (const char* name : {"source", "source_length"}) fields[name] = all.fields.at(name);
    const Values found = values_of(
        model->scores({.fields = fields, .only_last = true}, ForwardContext{.kv_cache = cache})
            .scores.value());
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (std::size_t id = 0; id < testing::vocabulary; ++id) {
        if (column >= rows[row].target) continue;
        const std::size_t place = row * target_columns + static_cast<std::size_t>(column);
        EXPECT_NEAR(found[row * testing::vocabulary + id],
                    expected[place * testing::vocabulary + id],
                    1e-12);
      }
  }
}

TEST(EncoderDecoderModel, CachedLogitsMatchFullPass) {
  for (const CrossAttentionMapping wiring : all_wirings)
    for (const PositionEmbeddingType positions : {PositionEmbeddingType::sinusoidal,
                                                  PositionEmbeddingType::learned,
                                                  PositionEmbeddingType::relative,
                                                  PositionEmbeddingType::relative_bias}) {
      SCOPED_TRACE(static_cast<int>(wiring));
      EncoderDecoderOptions options = tiny(wiring);
      options.positions = {.kind = positions, .relative_max_distance = 3, .buckets = 4};
      if (positions == PositionEmbeddingType::relative_bias)
        options.common.scale_attn_weights = false;
      if (positions == PositionEmbeddingType::learned)
        options.common.residual = ResidualKind::reversible;
      expect_cached_logits(options);
    }
}

TEST(EncoderDecoderModel, CachedLogitsMatchFullPassWithAdditiveScores) {
  for (const CrossAttentionScore scores :
       {CrossAttentionScore::additive, CrossAttentionScore::location})
    for (const CrossAttentionMapping wiring :
         {CrossAttentionMapping::last, CrossAttentionMapping::full}) {
      EncoderDecoderOptions options = tiny(wiring);
      options.scores = {.kind = scores, .kernel_size = 3};
      options.common.attention.kinds = {"additive"};
      expect_cached_logits(options);
    }
}

TEST(EncoderDecoderModel, AdditiveScoreGradientsMatchFiniteDifferences) {
  for (const CrossAttentionScore scores :
       {CrossAttentionScore::additive, CrossAttentionScore::location})
    for (const ResidualKind residual : {ResidualKind::plain, ResidualKind::reversible}) {
      EncoderDecoderOptions options = tiny(CrossAttentionMapping::last);
      options.scores = {.kind = scores, .kernel_size = 3};
      options.common.attention.kinds = {"additive"};
      options.common.residual = residual;
      options.common.dropout = options.common.attention_dropout = 0.2;
      const auto model = make_encoder_decoder(options, tiny_setting());
      testing::expect_model_gradients(*model, reading(), {.training = true, .random = Random(3)});
    }
}

TEST(EncoderDecoderModel, ReducesLossOnRepeatedBatch) {
  const auto model = make_encoder_decoder(tiny(CrossAttentionMapping::last), tiny_setting());
  const auto [first, last] = testing::descend(*model, reading(), 100, 0.5);
  EXPECT_LT(last, 0.5 * first);
}

TEST(EncoderDecoderModel, RejectsSequencesLongerThanPositionTable) {
  EncoderDecoderOptions options = tiny(CrossAttentionMapping::last);
  options.positions.kind = PositionEmbeddingType::learned;
  options.positions.longest = 5;
  const auto model = make_encoder_decoder(options, tiny_setting());
  EXPECT_EQ(model->body().max_segment_length(), 5);
  EXPECT_NO_THROW(model->losses(reading({5, 5}), ForwardContext()));
  for (const Lengths columns : {Lengths{6, 5}, Lengths{5, 6}}) {
    const std::string message =
        message_of<Failure>([&] { model->losses(reading(columns), ForwardContext()); });
    EXPECT_NE(message.find("expected at most model.max_position_embeddings = 5 tokens, found 6"),
              std::string::npos)
        << message;
  }
  EXPECT_EQ(make_encoder_decoder(tiny(CrossAttentionMapping::last), tiny_setting())
                ->body()
                .max_segment_length(),
            0);
}

TEST(EncoderDecoderModel, RejectsRecomputingMoreLayersThanEncoderHas) {
  EncoderDecoderOptions options = tiny(CrossAttentionMapping::last);
  options.encoder_layers = 1;
  ModelBuildOptions setting = tiny_setting();
  setting.memory.recompute_granularity = RecomputeGranularity::full;
  setting.memory.recompute_num_layers = 2;
  EXPECT_EQ(message_of<ConfigurationError>([&] { make_encoder_decoder(options, setting); }),
            "memory.recompute_num_layers: expected at most model.num_encoder_layers = 1, found 2");
}

TEST(EncoderDecoderModel, SupportsSeparateEncoderAttentionTypes) {
  EncoderDecoderOptions options = tiny(CrossAttentionMapping::last);
  options.common.attention.linformer = {.keys = 2, .longest = 8};
  const auto weights = [&] {
    return make_encoder_decoder(options, tiny_setting())->parameters().all().size();
  };
  const std::size_t softmax_weights = weights();
  options.common.attention.encoder_kinds = {"linformer"};
  EXPECT_GT(weights(), softmax_weights);
  const auto model = make_encoder_decoder(options, tiny_setting());
  const Values before = losses_after(*model, reading());
  ModelInput changed = reading();
  change(changed, "source", 0, 3);
  EXPECT_NE(at(losses_after(*model, changed), 0, 0), at(before, 0, 0));

  options.common.attention.kinds = {"linformer"};
  EXPECT_NE(message_of<ConfigurationError>([&] {
              make_encoder_decoder(options, tiny_setting());
            }).find("does not support a KV cache"),
            std::string::npos);
}

TEST(EncoderDecoderModel, LimitsSequenceLengthToSmallestTable) {
  EncoderDecoderOptions options = tiny(CrossAttentionMapping::last);
  options.common.attention.linformer = {.keys = 2, .longest = 8};
  options.common.attention.encoder_kinds = {"linformer"};
  EXPECT_EQ(make_encoder_decoder(options, tiny_setting())->body().max_segment_length(), 8);
  options.positions = {.kind = PositionEmbeddingType::learned, .longest = 7};
  EXPECT_EQ(make_encoder_decoder(options, tiny_setting())->body().max_segment_length(), 7);
}

TEST(EncoderDecoderModel, RejectsLayerMappingWithUnequalStacks) {
  for (const CrossAttentionMapping wiring :
       {CrossAttentionMapping::same, CrossAttentionMapping::reverse}) {
    EncoderDecoderOptions options = tiny(wiring);
    options.encoder_layers = 3;
    EXPECT_EQ(
        message_of<ConfigurationError>([&] { make_encoder_decoder(options, tiny_setting()); }),
        fmt::format("model.cross_attention.layer_mapping: {} requires equal numbers of encoder and "
                    "decoder layers, found 3 and 2",
                    wiring == CrossAttentionMapping::same ? "same" : "reverse"));
  }
}

}  // namespace
}  // namespace longspan::encoder_decoder_test
