// Recurrent layers of encoder-decoders, with a fixed number of steps or adaptive computation time
// (ACT).
#include "models/recurrence.h"

#include "framework/nn/attention/kv_cache.h"
#include "tests/models/encoder_decoder_testing.h"

namespace longspan::recurrence_test {
namespace {

using testing::expect_close;
using testing::make_encoder_decoder;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

EncoderDecoderOptions tiny(RecurrenceType count) {
  EncoderDecoderOptions options;
  options.common = testing::tiny_options(NormPosition::pre);
  options.common.activation = FeedForwardActivation::gelu_tanh;  // differentiable everywhere
  options.encoder_layers = 1;
  options.recurrence.count = count;
  options.recurrence.halting = {.steps = 3, .bias = -0.4};
  return options;
}

// Lengths of a full row, a short one, one without a source, and an empty one.
const std::vector<Lengths> rows = {{4, 5}, {2, 3}, {0, 4}, {0, 0}};
constexpr std::int64_t target_columns = 5;

ModelInput reading(const Lengths& columns = {4, target_columns}) {
  return {.fields = testing::pair_fields(rows, columns, 1)};
}

const LossTerm& term_of(const Losses& losses, const std::string& name) {
  const auto found = std::ranges::find(losses.terms, name, &LossTerm::name);
  require(found != losses.terms.end(), "no term is named {}", name);
  return *found;
}

// Losses per target; padding has none.
Tensor of_targets(const Losses& losses) {
  return std::ranges::find(losses.terms, "tokens", &LossTerm::count)->values.value();
}

Values scores_of(const Model& model, const ModelInput& of) {
  const NoGradGuard unrecorded;
  return values_of(model.scores(of, ForwardContext()).scores.value());
}

const RecurrenceType counts[] = {RecurrenceType::fixed, RecurrenceType::adaptive};

TEST(Recurrence, GradientsMatchFiniteDifferences) {
  for (const RecurrenceType count : counts)
    for (const bool recomputes : {false, true}) {
      EncoderDecoderOptions options = tiny(count);
      options.common.dropout = options.common.attention_dropout = 0.3;
      if (recomputes) options.recurrence.transition = Transition::separable_convolution;
      options.recurrence.signals.kind =
          recomputes ? StepTimingSignalType::learned : StepTimingSignalType::sinusoidal;
      if (recomputes) options.positions.kind = PositionEmbeddingType::learned;
      ModelBuildOptions setting = tiny_setting();
      if (recomputes) setting.memory.recompute_granularity = RecomputeGranularity::full;
      const auto model = make_encoder_decoder(options, setting);
      const ForwardContext pass = {.training = true, .random = Random(3)};
      testing::expect_layer_gradients(model->parameters(),
                                      [&](const std::vector<Variable>&) -> Variable {
                                        const Losses losses = model->losses(reading(), pass);
                                        Variable total;
                                        for (const LossTerm& term : losses.terms) {
                                          const Variable weighed = sum(term.values, term.weight);
                                          total = total.defined() ? add(total, weighed) : weighed;
                                        }
                                        return total;
                                      },
                                      {},
                                      {.directions = 1, .elements = 1});
    }
}

// The first of two layers makes keys for the second at all positions.
TEST(Recurrence, PassesActiveRowsToLastLayerOnly) {
  Parameters parameters = testing::one_process_parameters();
  const Scope scope(parameters);
  RecurrenceOptions options;
  options.count = RecurrenceType::adaptive;
  options.halting = {.steps = 9, .bias = -1};
  const Recurrence recurrence(
      scope, {.recurrence = options, .positions = {}, .width = 4}, tiny_setting());
  std::vector<std::vector<bool>> active(2);
  std::vector<Layer> layers(2);
  for (std::size_t i = 0; i < 2; ++i)
    layers[i].sublayers.push_back(
        {.norm = Norm(scope.child("layers").child(i), 4),
         .run = [&active, i](const Variable& x, const SublayerInputs&, const ForwardContext& pass) {
           active[i].push_back(pass.active_rows != nullptr);
           return x;
         }});
  testing::allocate_randomly(parameters, 3, 1);
  const StandardResidual residual(NormPosition::pre, 0);
  const ForwardContext pass = {.time = replicate_sequence(6)};
  recurrence.run(layers, residual, Variable(testing::random_tensor({2, 6, 4}, 1)), {}, pass);
  ASSERT_GT(active[1].size(), 2u);
  EXPECT_EQ(active[0], std::vector<bool>(active[1].size()));
  EXPECT_FALSE(active[1].front());
  EXPECT_TRUE(active[1].back());
}

// Halted rows skip the products of the last layer.
TEST(Recurrence, SkippingHaltedRowsDoesNotChangeResults) {
  const std::vector<Lengths> many = {{4, 5}, {2, 3}, {6, 8}, {9, 2}, {1, 7}};
  const ModelInput read = {.fields = testing::pair_fields(many, {9, 8}, 1)};
  for (const std::int64_t layers : {1, 2})
    for (const RecomputeGranularity recompute :
         {RecomputeGranularity::none, RecomputeGranularity::full}) {
      std::vector<Values> found;
      for (const bool compaction : {false, true}) {
        EncoderDecoderOptions options = tiny(RecurrenceType::adaptive);
        options.encoder_layers = options.common.layers = layers;
        options.common.dropout = options.common.attention_dropout = 0.3;
        options.common.initial_deviation = 0.6;
        options.recurrence.halting = {.steps = 5, .bias = 0.7, .compaction = compaction};
        // Location-aware queries read the attention of the previous query, also of a halted one.
        if (layers == 1) options.scores = {.kind = CrossAttentionScore::location, .kernel_size = 3};
        ModelBuildOptions setting = tiny_setting();
        setting.memory.recompute_granularity = recompute;
        if (layers == 2) setting.memory.feed_forward_chunks = 2;
        const auto model = make_encoder_decoder(options, setting);
        const Losses losses = model->losses(read, {.training = true, .random = Random(3)});
        Variable total;
        Values here;
        for (const LossTerm& term : losses.terms) {
          here.push_back(sum(term.values).value().item());
          total = total.defined() ? add(total, sum(term.values)) : sum(term.values);
        }
        std::vector<double> steps;
        for (const AuxiliaryMetric& each : losses.watched)
          if (each.name.ends_with("steps")) steps.push_back(each.sum);
        EXPECT_GT(steps.at(0), 22);            // some tokens take a second step
        EXPECT_LT(steps.at(0), 0.9 * 22 * 5);  // and some halt early
        backward(total);
        for (const auto& parameter : model->parameters().all())
          for (const double each : values_of(parameter->gradient)) here.push_back(each);
        found.push_back(here);
      }
      expect_close(found[1], found[0], 1e-11);
    }
}

TEST(Recurrence, CachedLogitsMatchFullPass) {
  const NoGradGuard unrecorded;
  for (const RecurrenceType count : counts)
    for (const PositionEmbeddingType positions :
         {PositionEmbeddingType::sinusoidal, PositionEmbeddingType::relative}) {
      EncoderDecoderOptions options = tiny(count);
      options.positions = {.kind = positions, .relative_max_distance = 2};
      if (count == RecurrenceType::fixed && positions == PositionEmbeddingType::sinusoidal)
        options.common.residual = ResidualKind::reversible;
      if (positions == PositionEmbeddingType::relative)
        options.recurrence.transition = Transition::separable_convolution;
      const auto model = make_encoder_decoder(options, tiny_setting());
      const ModelInput all = reading();
      const Values expected = scores_of(*model, all);
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
}

// A later token may change the number of steps of the batch.
TEST(Recurrence, DoesNotAttendToLaterTokens) {
  for (const RecurrenceType count : counts) {
    const auto model = make_encoder_decoder(tiny(count), tiny_setting());
    const ModelInput later = reading();
    std::int64_t& id = row_of(field_of(later.fields, "tokens"), 0)[3];
    id = (id + 1) % testing::vocabulary;
    const Values before = values_of(of_targets(model->losses(reading(), {})));
    const Values after = values_of(of_targets(model->losses(later, {})));
    for (std::size_t column = 0; column < target_columns; ++column) {
      if (column < 3)
        EXPECT_NEAR(after[column], before[column], 1e-12);
      else
        EXPECT_GT(std::abs(after[column] - before[column]), 1e-9);
    }
  }
}

// Results depend neither on the values nor on the amount of padding.
TEST(Recurrence, PaddingDoesNotTakeSteps) {
  for (const RecurrenceType count : counts)
    for (const Transition transition :
         {Transition::feed_forward, Transition::separable_convolution}) {
      EncoderDecoderOptions options = tiny(count);
      options.recurrence.transition = transition;
      const auto model = make_encoder_decoder(options, tiny_setting());
      const Losses narrow = model->losses(reading(), {}), wide = model->losses(reading({9, 7}), {});
      ASSERT_EQ(narrow.terms.size(), count == RecurrenceType::adaptive ? 3u : 1u);
      for (std::size_t i = 0; i < narrow.terms.size(); ++i)
        EXPECT_NEAR(sum(narrow.terms[i].values).value().item(),
                    sum(wide.terms[i].values).value().item(),
                    1e-11);
      if (count == RecurrenceType::fixed) continue;
      std::map<std::string, double> steps;
      for (const AuxiliaryMetric& each : narrow.watched) steps[each.name] = each.sum;
      EXPECT_GE(steps.at("encoder_act_steps"), 6);
      EXPECT_LE(steps.at("encoder_act_steps"), 6 * 3);
      EXPECT_GE(steps.at("decoder_act_steps"), 12);
      EXPECT_LE(steps.at("decoder_act_steps"), 12 * 3);
    }
}

// A very low bias runs all steps with all weight on the last one; a very high bias runs one step.
TEST(Recurrence, HaltingBiasControlsStepCount) {
  const auto with = [](RecurrenceType count, double bias, std::int64_t steps) {
    EncoderDecoderOptions options = tiny(count);
    options.recurrence.halting.bias = bias;
    options.recurrence.halting.steps = steps;
    return make_encoder_decoder(options, tiny_setting());
  };
  for (const auto& [bias, steps] : {std::pair(30.0, 1), std::pair(-60.0, 3)}) {
    const auto adaptive = with(RecurrenceType::adaptive, bias, 3);
    const auto fixed = with(RecurrenceType::fixed, 0, steps);
    const Losses losses = adaptive->losses(reading(), {});
    expect_close(
        values_of(of_targets(losses)), values_of(of_targets(fixed->losses(reading(), {}))), 1e-11);
    EXPECT_NEAR(
        sum(term_of(losses, "encoder_ponder_cost").values).value().item(), 6.0 * (steps + 1), 1e-9);
    EXPECT_NEAR(sum(term_of(losses, "decoder_ponder_cost").values).value().item(),
                12.0 * (steps + 1),
                1e-9);
  }
}

TEST(Recurrence, RejectsIncompatibleOptions) {
  EncoderDecoderOptions reversible = tiny(RecurrenceType::adaptive);
  reversible.common.residual = ResidualKind::reversible;
  EXPECT_THROW(make_encoder_decoder(reversible, tiny_setting()), ConfigurationError);
  EncoderDecoderOptions wired = tiny(RecurrenceType::fixed);
  wired.wiring = CrossAttentionMapping::mix;
  EXPECT_THROW(make_encoder_decoder(wired, tiny_setting()), ConfigurationError);
  EncoderDecoderOptions copies = tiny(RecurrenceType::adaptive);
  copies.source.copies = true;
  EXPECT_THROW(make_encoder_decoder(copies, tiny_setting()), ConfigurationError);
}

}  // namespace
}  // namespace longspan::recurrence_test
