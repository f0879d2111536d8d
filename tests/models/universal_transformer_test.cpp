// The Universal Transformer: all steps share the weights of one block.
#include "models/universal_transformer.h"

#include "framework/nn/attention/kv_cache.h"
#include "tests/models/model_testing.h"

namespace longspan::universal_transformer_test {
namespace {

using testing::expect_close;
using testing::random_ids;
using testing::segment_of;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

UniversalTransformerOptions tiny(RecurrenceType count, NormPosition norm = NormPosition::post) {
  UniversalTransformerOptions options;
  options.common = testing::tiny_options(norm);
  options.common.layers = 1;
  options.common.activation = FeedForwardActivation::gelu_tanh;
  options.common.initial_deviation = 0.4;
  options.positions.relative_max_distance = 2;
  options.count = count;
  options.halting.steps = 4;
  options.halting.bias = -0.5;
  return options;
}

// With and without convolutions.
std::vector<UniversalTransformerOptions> tiny_of_transitions(RecurrenceType count) {
  std::vector<UniversalTransformerOptions> result(2, tiny(count));
  result[1].transition = Transition::separable_convolution;
  return result;
}

Variable first_losses(const Model& model,
                      const ModelInput& reading,
                      const ForwardContext& pass = {}) {
  return model.losses(reading, pass).terms.front().values;
}

TEST(UniversalTransformerModel, GradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  for (const auto count : {RecurrenceType::fixed, RecurrenceType::adaptive})
    for (const auto positions : {PositionEmbeddingType::sinusoidal,
                                 PositionEmbeddingType::learned,
                                 PositionEmbeddingType::relative,
                                 PositionEmbeddingType::relative_bias}) {
      UniversalTransformerOptions options = tiny(count);
      options.common.dropout = options.common.attention_dropout = 0.2;
      options.positions = {.kind = positions, .buckets = 8};
      options.signals.kind =
          positions == PositionEmbeddingType::learned    ? StepTimingSignalType::learned
          : positions == PositionEmbeddingType::relative ? StepTimingSignalType::none
                                                         : StepTimingSignalType::sinusoidal;
      if (positions == PositionEmbeddingType::relative)
        options.transition = Transition::separable_convolution;
      const auto model = make_universal_transformer(options, tiny_setting());
      testing::expect_layer_gradients(model->parameters(),
                                      [&](const std::vector<Variable>&) {
                                        const Losses losses = model->losses(segment, pass);
                                        Variable all = sum(losses.terms.front().values);
                                        if (losses.terms.size() > 1)
                                          all = add(all, sum(losses.terms[1].values, 0.3));
                                        return all;
                                      },
                                      {},
                                      {.directions = 1, .elements = 1});
    }
}

// The gradient of a shared weight is the sum of the gradients of its unrolled copies.
TEST(UniversalTransformerModel, SharedLayerMatchesUnrolledLayers) {
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  UniversalTransformerOptions options = tiny(RecurrenceType::fixed);
  const auto one = make_universal_transformer(options, tiny_setting());
  options.common.layers = 4;
  options.halting.steps = 1;
  options.signals.kind = StepTimingSignalType::none;
  options.positions.kind = PositionEmbeddingType::relative;
  const auto apart = make_universal_transformer(options, tiny_setting());
  options.common.layers = 1;
  options.halting.steps = 4;
  const auto shared = make_universal_transformer(options, tiny_setting());
  for (const auto& parameter : apart->parameters().all()) {
    std::string name = parameter->name;
    if (const auto place = name.find("layers/"); place != std::string::npos) name[place + 7] = '0';
    parameter->master.copy_from(shared->parameters().named(name).master);
  }
  apart->parameters().refresh_compute();
  for (Model* const model : {apart.get(), shared.get()})
    backward(sum(first_losses(*model, segment)));
  EXPECT_EQ(values_of(first_losses(*apart, segment).value()),
            values_of(first_losses(*shared, segment).value()));
  EXPECT_NE(values_of(first_losses(*one, segment).value()),
            values_of(first_losses(*shared, segment).value()));
  for (const auto& parameter : shared->parameters().all()) {
    Values sums(static_cast<std::size_t>(parameter->gradient.elements()), 0.0);
    for (const auto& other : apart->parameters().all()) {
      std::string name = other->name;
      if (const auto place = name.find("layers/"); place != std::string::npos)
        name[place + 7] = '0';
      if (name != parameter->name) continue;
      const Values part = values_of(other->gradient);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    }
    expect_close(values_of(parameter->gradient), sums, 1e-11);
  }
}

TEST(UniversalTransformerModel, DoesNotAttendToLaterTokens) {
  std::vector<UniversalTransformerOptions> all;
  for (const auto count : {RecurrenceType::fixed, RecurrenceType::adaptive})
    std::ranges::copy(tiny_of_transitions(count), std::back_inserter(all));
  for (const UniversalTransformerOptions& options : all) {
    const auto model = make_universal_transformer(options, tiny_setting());
    const Tensor text = random_ids(1, 6, 1);
    for (std::int64_t id = 0; id < testing::vocabulary; ++id) {
      const Tensor changed = text.clone();
      if (text.data<std::int64_t>()[3] == id) continue;
      changed.data<std::int64_t>()[3] = id;
      const ModelInput segment = segment_of(text, 0, 5);
      ModelInput other = segment;
      other.fields["tokens"] = testing::columns(changed, 0, 5);
      const Values before = values_of(first_losses(*model, segment).value());
      const Values after = values_of(first_losses(*model, other).value());
      for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(before[i] == after[i], i < 3);
    }
  }
}

TEST(UniversalTransformerModel, ReportsActSteps) {
  UniversalTransformerOptions options = tiny(RecurrenceType::adaptive);
  options.halting.bias = 30;
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  const Losses losses =
      make_universal_transformer(options, tiny_setting())->losses(segment, ForwardContext());
  ASSERT_EQ(losses.watched.size(), 1u);
  EXPECT_EQ(losses.watched[0].name, "act_steps");
  EXPECT_EQ(losses.watched[0].sum, 10);
  EXPECT_EQ(losses.watched[0].largest, 1);
  ASSERT_EQ(losses.terms.size(), 2u);
  EXPECT_EQ(losses.terms[1].name, "ponder_cost");
  EXPECT_NEAR(losses.terms[1].values.value().item(), 20, 1e-9);
}

void expect_cached_logits_match(const UniversalTransformerOptions& options) {
  const NoGradGuard unrecorded;
  const Tensor text = random_ids(2, 6, 1);
  const auto model = make_universal_transformer(options, tiny_setting());
  ASSERT_TRUE(model->body().supports_kv_cache());
  const Values whole =
      values_of(model->scores(segment_of(text, 0, 5), ForwardContext()).scores.value());
  const auto cache = std::make_shared<KVCache>();
  for (const auto& [begin, end] : std::vector<Range>{{0, 2}, {2, 3}, {3, 5}}) {
    const Values now = values_of(
        model->scores(segment_of(text, begin, end - begin), ForwardContext{.kv_cache = cache})
            .scores.value());
    for (std::int64_t row = 0; row < 2; ++row) {
      const auto part = now.begin() + row * (end - begin) * testing::vocabulary;
      const auto expected = whole.begin() + (row * 5 + begin) * testing::vocabulary;
      const std::int64_t elements = (end - begin) * testing::vocabulary;
      expect_close({part, part + elements}, {expected, expected + elements}, 1e-12);
    }
  }
}

// Cached tokens have keys, and rows before a convolution, of every step, also after they halted.
TEST(UniversalTransformerModel, CachedLogitsMatchFullPass) {
  for (const auto count : {RecurrenceType::fixed, RecurrenceType::adaptive})
    for (const bool freeze : {true, false})
      for (UniversalTransformerOptions options : tiny_of_transitions(count)) {
        options.halting.bias = 0.5;
        options.halting.freeze = freeze;
        expect_cached_logits_match(options);
      }
}

TEST(UniversalTransformerModel, PositionShiftAppliesOnlyInTraining) {
  UniversalTransformerOptions options = tiny(RecurrenceType::fixed);
  const auto plain = make_universal_transformer(options, tiny_setting());
  options.signals.max_position_shift = 1000;
  const auto moved = make_universal_transformer(options, tiny_setting());
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  EXPECT_EQ(values_of(first_losses(*plain, segment).value()),
            values_of(first_losses(*moved, segment).value()));
  const ForwardContext training = {.training = true, .random = Random(3)};
  EXPECT_NE(values_of(first_losses(*plain, segment, training).value()),
            values_of(first_losses(*moved, segment, training).value()));
  options.positions.kind = PositionEmbeddingType::learned;
  EXPECT_THROW(make_universal_transformer(options, tiny_setting()), ConfigurationError);
}

TEST(UniversalTransformerModel, RejectsReversibleResidualWithAct) {
  UniversalTransformerOptions options = tiny(RecurrenceType::adaptive, NormPosition::pre);
  options.common.residual = ResidualKind::reversible;
  EXPECT_THROW(make_universal_transformer(options, tiny_setting()), ConfigurationError);
}

TEST(UniversalTransformerModel, RejectsUnsupportedConvolutions) {
  const UniversalTransformerOptions valid = tiny_of_transitions(RecurrenceType::fixed)[1];
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{{3}, {3, 4}, {3, 5, 7}, {0, 1}}) {
    UniversalTransformerOptions options = valid;
    options.kernel_sizes = sizes;
    EXPECT_THROW(make_universal_transformer(options, tiny_setting()), ConfigurationError);
  }
  UniversalTransformerOptions gated = valid;
  gated.common.activation = FeedForwardActivation::swiglu;
  EXPECT_THROW(make_universal_transformer(gated, tiny_setting()), ConfigurationError);
  ModelBuildOptions chunks = tiny_setting();
  chunks.memory.feed_forward_chunks = 2;
  EXPECT_THROW(make_universal_transformer(valid, chunks), ConfigurationError);
}

// The steps of the slowest position depend on the rest of the batch; results must not.
TEST(UniversalTransformerModel, RejectsOptionsThatDependOnSlowestPosition) {
  UniversalTransformerOptions last = tiny(RecurrenceType::adaptive, NormPosition::pre);
  last.halting.output = ActOptions::Output::last;
  make_universal_transformer(last, tiny_setting());
  last.halting.freeze = false;
  EXPECT_THROW(make_universal_transformer(last, tiny_setting()), ConfigurationError);
  UniversalTransformerOptions routing = tiny(RecurrenceType::adaptive, NormPosition::pre);
  routing.common.attention.kinds = {"routing"};
  EXPECT_THROW(make_universal_transformer(routing, tiny_setting()), ConfigurationError);
  UniversalTransformerOptions power = tiny(RecurrenceType::adaptive, NormPosition::pre);
  power.common.norm_kind = NormKind::power;
  EXPECT_THROW(make_universal_transformer(power, tiny_setting()), ConfigurationError);
}

}  // namespace
}  // namespace longspan::universal_transformer_test
