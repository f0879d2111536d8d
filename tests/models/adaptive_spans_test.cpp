// Models with adaptive attention spans per head and per token.
#include "models/adaptive_spans.h"

#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/forward_context.h"
#include "framework/trainer/trainer.h"
#include "tests/models/model_testing.h"

namespace longspan::adaptive_spans_test {
namespace {

using testing::expect_close;
using testing::random_ids;
using testing::segment_of;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

constexpr AdaptiveSpanOptions form = {.limit = 9, .ramp = 3, .initial = 1.6};

DecoderOptions decoder_options(const AdaptiveSpanOptions& spans = form) {
  DecoderOptions options;
  options.common = testing::tiny_options(NormPosition::pre);
  options.spans = {.kind = SpanKind::adaptive, .form = spans, .penalty = 0.01};
  return options;
}

TransformerXlOptions transformer_xl_options(std::int64_t memory,
                                            const AdaptiveSpanOptions& spans = form) {
  TransformerXlOptions options;
  options.common = testing::tiny_options();
  options.spans = {.kind = SpanKind::adaptive, .form = spans, .penalty = 0.01};
  options.memory = memory;
  return options;
}

std::vector<std::unique_ptr<Model>> models() {
  std::vector<std::unique_ptr<Model>> all;
  all.push_back(make_decoder(decoder_options(), tiny_setting()));
  all.push_back(make_transformer_xl(transformer_xl_options(6), tiny_setting()));
  return all;
}

std::unique_ptr<Model> token_model(double penalty = 0.01) {
  DecoderOptions options = decoder_options({.limit = 9, .ramp = 3, .initial = 2.6});
  options.spans.kind = SpanKind::dynamic;
  options.spans.penalty = penalty;
  return make_decoder(options, tiny_setting());
}

// The weights start at 0; these give every token a different span.
void set_token_weights(Model& model, double size) {
  for (const auto& parameter : model.parameters().all())
    if (parameter->name.ends_with("span/weight"))
      for (std::int64_t i = 0; i < parameter->master.elements(); ++i)
        parameter->master.data<double>()[i] = size * std::sin(static_cast<double>(i + 1));
}

TEST(DynamicSpan, GradientsMatchFiniteDifferences) {
  const auto model = token_model(0);
  set_token_weights(*model, 0.4);
  testing::expect_model_gradients(*model, segment_of(random_ids(2, 6, 1), 0, 5), ForwardContext());
}

// Layers add the penalty gradient directly; it must match the reported penalty, also with
// recomputation.
TEST(DynamicSpan, PenaltyGradientMatchesFiniteDifferences) {
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  for (const RecomputeGranularity again :
       {RecomputeGranularity::none, RecomputeGranularity::full, RecomputeGranularity::selective}) {
    SCOPED_TRACE(name_of(again));
    DecoderOptions options = decoder_options({.limit = 9, .ramp = 3, .initial = 2.6});
    options.spans.kind = SpanKind::dynamic;
    ModelBuildOptions setting = tiny_setting();
    setting.memory.recompute_granularity = again;
    const auto model = make_decoder(options, setting);
    set_token_weights(*model, 0.4);
    const Tensor seed = Tensor::from<double>(std::vector<double>{2.0}, {1}, setting.device);
    const auto penalty = [&] {
      const auto inner = std::make_shared<LayerLossCollector>(seed, 0.5);
      const Losses losses = model->losses(segment, {.training = true, .layer_losses = inner});
      EXPECT_EQ(losses.terms.size(), 2u);
      EXPECT_EQ(losses.terms[1].name, "adaptive_span");
      EXPECT_EQ(losses.terms[1].weight, 0.01);
      return losses;
    };
    model->parameters().clear_gradients();
    // Weight 0 removes the token losses and leaves the added gradient.
    backward(sum(penalty().terms[0].values, 0.0));
    for (const auto& parameter : model->parameters().all()) {
      if (parameter->name.find("/span/") == std::string::npos) continue;
      double* const value = parameter->master.data<double>();
      const double middle = *value, step = 1e-5;
      const auto at = [&](double x) {
        *value = x;
        const double found = penalty().terms[1].values.value().item();
        *value = middle;
        return found;
      };
      const double slope = (at(middle + step) - at(middle - step)) / (2 * step);
      EXPECT_NEAR(*parameter->gradient.data<double>(), 2.0 * 0.5 * 0.01 * slope, 1e-9)
          << parameter->name;
    }
  }
}

TEST(DynamicSpan, ZeroWeightsMatchPerHeadSpans) {
  const AdaptiveSpanOptions spans = {.limit = 9, .ramp = 3, .initial = 2.6};
  const auto model = token_model();
  const auto per_head = make_decoder(decoder_options(spans), tiny_setting());
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  expect_close(values_of(testing::losses_of(*model, segment).value()),
               values_of(per_head->losses(segment, ForwardContext()).terms.front().values.value()),
               1e-6);  // the reference adds 1e-8 beyond a span
}

TEST(DynamicSpan, CachedLogitsMatchFullPass) {
  const NoGradGuard unrecorded;
  DecoderOptions options = decoder_options({.limit = 100, .ramp = 3, .initial = 5});
  options.spans.kind = SpanKind::dynamic;
  const auto model = make_decoder(options, tiny_setting(200));
  set_token_weights(*model, 0.3);
  const Tensor text = random_ids(1, 200, 1);
  const auto cache = std::make_shared<KVCache>();
  std::int64_t begin = 0;
  for (const std::int64_t end : {50, 51, 190, 191, 200}) {
    const auto scores = [&](std::int64_t from, const ForwardContext& pass) {
      return values_of(
          model
              ->scores({.fields = {{"tokens", testing::columns(text, from, end - from)}},
                        .only_last = true},
                       pass)
              .scores.value());
    };
    expect_close(
        scores(begin, ForwardContext{.kv_cache = cache}), scores(0, ForwardContext()), 1e-12);
    begin = end;
  }
}

TEST(AdaptiveSpanStack, GradientsMatchFiniteDifferences) {
  for (const auto& model : models())
    testing::expect_layer_gradients(
        model->parameters(),
        [&](const std::vector<Variable>&) {
          const Losses losses =
              model->losses(segment_of(random_ids(2, 6, 1), 0, 5), ForwardContext());
          EXPECT_EQ(losses.terms.size(), 2u);
          EXPECT_EQ(losses.terms[1].name, "adaptive_span");
          return add(sum(losses.terms[0].values), sum(losses.terms[1].values, 0.3));
        },
        {},
        {.directions = 1, .elements = 1});
}

TEST(AdaptiveSpanStack, PenaltyEqualsSumOverLayersAndMeanOverHeads) {
  for (const auto& model : models()) {
    const Losses losses = model->losses(segment_of(random_ids(2, 6, 1), 0, 5), ForwardContext());
    EXPECT_NEAR(losses.terms[1].values.value().item(), 2 * form.initial, 1e-12);
    EXPECT_EQ(losses.terms[1].weight, 0.01);
    const auto metrics = model->body().metric_values();
    ASSERT_EQ(metrics.size(), 2u);
    EXPECT_EQ(metrics[0].first, "adaptive_span_mean");
    EXPECT_NEAR(metrics[0].second, form.initial, 1e-12);
    EXPECT_NEAR(metrics[1].second, form.initial, 1e-12);
  }
}

TEST(AdaptiveSpanStack, DoesNotAttendToLaterTokens) {
  for (const auto& model : models()) {
    const Tensor text = random_ids(1, 6, 1);
    const Tensor changed = text.clone();
    std::int64_t& token = changed.data<std::int64_t>()[3];
    token = (token + 1) % testing::vocabulary;
    const ModelInput segment = segment_of(text, 0, 5);
    ModelInput other = segment;
    other.fields["tokens"] = testing::columns(changed, 0, 5);
    const auto losses = [&](const ModelInput& reading) {
      return values_of(model->losses(reading, ForwardContext()).terms.front().values.value());
    };
    const Values before = losses(segment), after = losses(other);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(before[i] == after[i], i < 3);
  }
}

TEST(AdaptiveSpanStack, LongEnoughMemoryMatchesOneLongSegment) {
  const AdaptiveSpanOptions spans = {.limit = 9, .ramp = 3, .initial = 4.5};
  const auto model = make_transformer_xl(transformer_xl_options(9, spans), tiny_setting(12));
  const Tensor text = random_ids(2, 13, 1);
  const Values whole = values_of(
      model->losses(segment_of(text, 0, 12, {}, 9), ForwardContext()).terms.front().values.value());
  RecurrentState carried;
  std::vector<Values> pieces;
  for (const std::int64_t begin : {0, 4, 8}) {
    Losses losses = model->losses(segment_of(text, begin, 4, carried, 9), ForwardContext());
    pieces.push_back(values_of(losses.terms.front().values.value()));
    carried = losses.carried;
  }
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t t = 0; t < 12; ++t)
      EXPECT_NEAR(pieces[t / 4][row * 4 + t % 4], whole[row * 12 + t], 1e-12);
}

TEST(AdaptiveSpanStack, ClampsSpansAndTrimsMemory) {
  // The penalty dominates the loss: spans shrink to 0.
  TransformerXlOptions options =
      transformer_xl_options(400, {.limit = 400, .ramp = 8, .initial = 300});
  options.spans.penalty = 10;
  TrainingOptions training;
  training.steps = 12;
  training.learning_rate = 1e-4;
  training.optimizer.kind = OptimizerKind::sgd;
  training.clip_norm = 0;
  Trainer trainer(make_transformer_xl(options, tiny_setting(150)), training, Random(1));
  const Batch batch = testing::batch_of_rows(random_ids(1, 151, 1));
  std::vector<std::int64_t> remembered;
  for (int step = 0; step < 12; ++step) {
    const StepResult result = trainer.step(batch);
    ASSERT_EQ(result.terms.size(), 2u);
    remembered.push_back(trainer.recurrent_state_length());
    for (std::int64_t layer = 0; layer < 2; ++layer)
      for (const double part :
           values_of(trainer.model()
                         .parameters()
                         .named("layers/" + std::to_string(layer) + "/attention/span")
                         .master)) {
        EXPECT_GE(part, 0);
        EXPECT_LE(part, 1);
      }
  }
  EXPECT_EQ(remembered.front(), 150);
  EXPECT_EQ(trainer.model().body().metric_values()[1].second, 0);
  EXPECT_EQ(remembered.back(), 128);
}

TEST(AdaptiveSpanStack, CachedLogitsMatchFullPass) {
  const NoGradGuard unrecorded;
  const auto model =
      make_decoder(decoder_options({.limit = 100, .ramp = 3, .initial = 5}), tiny_setting(200));
  const Tensor text = random_ids(1, 200, 1);
  const auto cache = std::make_shared<KVCache>();
  std::int64_t begin = 0;
  for (const std::int64_t end : {50, 51, 52, 190, 191, 192, 200}) {
    const auto scores = [&](std::int64_t from, const ForwardContext& pass) {
      return values_of(
          model
              ->scores({.fields = {{"tokens", testing::columns(text, from, end - from)}},
                        .only_last = true},
                       pass)
              .scores.value());
    };
    expect_close(
        scores(begin, ForwardContext{.kv_cache = cache}), scores(0, ForwardContext()), 1e-12);
    begin = end;
  }
}

TEST(AdaptiveSpanStack, RejectsInvalidOptions) {
  DecoderOptions options = decoder_options({.limit = 9, .ramp = 3, .initial = 10});
  EXPECT_THROW(make_decoder(options, tiny_setting()), ConfigurationError);
  options = decoder_options({.limit = 9, .ramp = 3, .initial = 9});
  options.spans.kind = SpanKind::dynamic;
  EXPECT_THROW(make_decoder(options, tiny_setting()), ConfigurationError);
  options = decoder_options();
  options.common.attention.kinds = {"full", "lsh"};
  EXPECT_THROW(make_decoder(options, tiny_setting()), ConfigurationError);
}

}  // namespace
}  // namespace longspan::adaptive_spans_test
