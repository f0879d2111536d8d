// Pointer-generator, coverage and guided attention of a decoder.
#include "framework/modeling/seq2seq_losses.h"
#include "framework/nn/attention/kv_cache.h"
#include "tests/data/temporary_file.h"
#include "tests/models/source_look_testing.h"

namespace longspan::source_look_test {
namespace {

using testing::expect_close;
using testing::loss_cases;
using testing::LossCase;
using testing::make_encoder_decoder;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

const std::vector<Lengths> rows = {{4, 5}, {2, 3}, {0, 4}, {0, 0}};
constexpr std::size_t columns = 5;

ModelInput reading() {
  Fields fields = testing::pair_fields(rows, {4, columns}, 1);
  testing::add_links(fields);
  return {.fields = fields};
}

EncoderDecoderOptions tiny(const LossCase& kind, NormPosition norm = NormPosition::pre) {
  EncoderDecoderOptions options;
  options.common = testing::tiny_options(norm);
  options.common.activation = FeedForwardActivation::gelu_tanh;
  return testing::with_case(options, kind);
}

// The weighted sum of all loss terms.
Variable total(const Model& model, const ModelInput& read, const ForwardContext& pass) {
  Variable all;
  for (const LossTerm& term : model.losses(read, pass).terms) {
    const Variable one = sum(term.values, term.weight);
    all = all.defined() ? add(all, one) : one;
  }
  return all;
}

TEST(CrossAttentionWeights, GradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const LossCase& kind : loss_cases())
    for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
      SCOPED_TRACE(kind.name);
      EncoderDecoderOptions options = tiny(kind, norm);
      options.common.dropout = options.common.attention_dropout = 0.3;
      const auto model = make_encoder_decoder(options, tiny_setting());
      testing::expect_layer_gradients(
          model->parameters(),
          [&](const std::vector<Variable>&) { return total(*model, reading(), pass); },
          {},
          {.directions = 1, .elements = 1});
    }
}

TEST(CrossAttentionWeights, LossTermsMatchOptions) {
  const auto names = [](const LossCase& kind, bool training) {
    const auto model = make_encoder_decoder(tiny(kind), tiny_setting());
    std::string all;
    for (const LossTerm& term :
         model->losses(reading(), {.training = training, .random = Random(1)}).terms)
      all += fmt::format("{} {} {}; ", term.name, term.count, term.weight);
    return all;
  };
  EXPECT_EQ(names(loss_cases()[0], true), "loss tokens 1; coverage tokens 0.7; ");
  EXPECT_EQ(names(loss_cases()[1], true),
            "loss tokens 1; coverage tokens 0.2; guided_attention linked 0.1; ");
  EXPECT_EQ(names(loss_cases()[2], true), "loss tokens 1; guided_attention cells 2; ");
  EXPECT_EQ(names(testing::monotone(), true), "loss tokens 1; guided_attention tokens 0.5; ");
  for (const LossCase& kind : loss_cases()) EXPECT_EQ(names(kind, false), "loss tokens 1; ");
}

// Probabilities sum to 1, and the negative score of the target is the loss.
TEST(CrossAttentionWeights, PointerGeneratorScoresAreLogProbabilities) {
  const auto model = make_encoder_decoder(tiny(loss_cases()[0]), tiny_setting());
  const NoGradGuard unrecorded;
  const Values losses = values_of(testing::losses_of(*model, reading()).value());
  const Tensor scores = model->scores(reading(), ForwardContext()).scores.value();
  const Tensor target_ids = reading().fields.at("targets");
  const auto targets = target_ids.span<std::int64_t>();
  for (std::size_t place = 0; place < losses.size(); ++place) {
    double sum = 0;
    for (std::size_t id = 0; id < testing::vocabulary; ++id)
      sum += std::exp(scores.data<double>()[place * testing::vocabulary + id]);
    if (targets[place] < 0) continue;
    const bool has_source = rows[place / columns].source > 0;
    if (has_source) {
      EXPECT_NEAR(sum, 1, 1e-12);
    }
    EXPECT_NEAR(losses[place],
                -scores.data<double>()[place * testing::vocabulary +
                                       static_cast<std::size_t>(targets[place])],
                1e-12);
  }
}

// A range of positions gets its rows of the full guide.
TEST(CrossAttentionWeights, MonotonicGuideMatchesReferenceValues) {
  const Fields fields = testing::pair_fields({{2, 3}, {0, 2}, {3, 1}}, {3, 3}, 1);
  const double a[] = {0.5, 0.5, 0,   0.25, 0.75, 0,   1, 0, 0,   // row 0
                      0,   0,   0,   0,    0,    0,   0, 0, 0,   // no source
                      0.2, 0.2, 0.6, 0.2,  0.2,  0.6, 0, 0, 1};  // row 2: one target
  const Tensor attention = Tensor::from<double>(a, {3, 3, 3}, testing::backend_device());
  expect_close(values_of(monotonic_guide(fields, {{0, 3}}, attention)),
               {0.5, 0.5, 0, 0.125, 0.875, 0, 0.125, 0.875, 0,  // attention mass at 1 stays there
                0,   0,   0, 0,     0,     0, 0,     0,     0, 0.2, 0.2, 0.6, 0, 0, 0, 0, 0, 0},
               1e-15);
  expect_close(values_of(monotonic_guide(fields, {{1, 2}}, attention)),
               {0.125, 0.875, 0, 0, 0, 0, 0, 0, 0},
               1e-15);
}

TEST(CrossAttentionWeights, MonotonicGuideReducesBackwardMass) {
  const auto backward_mass = [](const Model& model) {
    const LossTerm term = model.losses(reading(), {.training = true, .random = Random(3)}).terms[1];
    double sum = 0;
    for (const double value : values_of(term.values.value())) sum += value;
    return sum;
  };
  LossCase kind = testing::monotone();
  kind.source.guide_weight = 1;
  const auto model = make_encoder_decoder(tiny(kind), tiny_setting());
  const double before = backward_mass(*model);
  for (int step = 0; step < 30; ++step) {
    model->parameters().clear_gradients();
    backward(
        sum(model->losses(reading(), {.training = true, .random = Random(3)}).terms[1].values));
    for (const auto& parameter : model->parameters().all())
      for (std::int64_t i = 0; i < parameter->master.elements(); ++i)
        parameter->master.data<double>()[i] -= 0.1 * parameter->gradient.data<double>()[i];
    model->parameters().refresh_compute();
  }
  EXPECT_LT(backward_mass(*model), 0.8 * before);
}

TEST(CrossAttentionWeights, DoesNotAttendToLaterTokens) {
  std::vector<LossCase> kinds = loss_cases();
  kinds.push_back(testing::monotone());
  for (const LossCase& kind : kinds) {
    SCOPED_TRACE(kind.name);
    const auto model = make_encoder_decoder(tiny(kind), tiny_setting());
    const ForwardContext pass = {.training = true, .random = Random(3)};
    const ModelInput later = reading();
    std::int64_t& id = row_of(field_of(later.fields, "tokens"), 0)[3];
    id = (id + 1) % testing::vocabulary;
    const std::vector<LossTerm> before = model->losses(reading(), pass).terms;
    const std::vector<LossTerm> after = model->losses(later, pass).terms;
    for (std::size_t term = 0; term < before.size(); ++term) {
      const Values left = values_of(before[term].values.value());
      const Values right = values_of(after[term].values.value());
      for (std::size_t place = 0; place < left.size(); ++place) {
        if (place >= 3 && place < columns) continue;
        EXPECT_EQ(left[place], right[place]) << before[term].name << " " << place;
      }
      // Coverage losses may stay equal.
      if (before[term].name == "loss") {
        EXPECT_NE(left[3], right[3]);
      }
    }
  }
}

TEST(CrossAttentionWeights, GuidesUseUnpaddedLengths) {
  Fields fields = testing::pair_fields({{2, 4}, {0, 2}, {3, 1}}, {3, 4}, 1);
  const Values costs = values_of(diagonal_guide(fields, {{1, 2}, {3, 4}}, 0.2));
  const auto cost = [](double apart) { return 1 - std::exp(-apart * apart / 0.08); };
  expect_close(costs,
               {cost(0.25),
                cost(0.25),
                0,
                cost(0.75),
                cost(0.25),
                0,  // t = 1 and 3 of 4
                0,
                0,
                0,
                0,
                0,
                0,  // no source
                0,
                0,
                0,
                0,
                0,
                0},  // no such time
               1e-15);
  EXPECT_EQ(testing::add_links(fields), 3);
  expect_close(values_of(alignment_guide(fields, {{1, 2}, {3, 4}})),
               {1, 0, 0, 0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
               1e-15);
}

TEST(CrossAttentionWeights, CachedLogitsMatchFullPass) {
  const NoGradGuard unrecorded;
  for (const LossCase& kind : loss_cases()) {
    if (!kind.source.copies) continue;
    const auto model = make_encoder_decoder(tiny(kind), tiny_setting());
    const ModelInput all = reading();
    const Values expected = values_of(model->scores(all, ForwardContext()).scores.value());
    const auto cache = std::make_shared<KVCache>();
    for (std::size_t column = 0; column < columns; ++column) {
      Fields fields = {
          {"tokens",
           testing::columns(field_of(all.fields, "tokens"), static_cast<std::int64_t>(column), 1)},
          {"source", all.fields.at("source")}};
      if (column == 0) fields["source_length"] = all.fields.at("source_length");
      const Values found = values_of(
          model->scores({.fields = fields, .only_last = true}, ForwardContext{.kv_cache = cache})
              .scores.value());
      for (std::size_t row = 0; row < rows.size(); ++row)
        for (std::size_t id = 0; id < testing::vocabulary; ++id) {
          if (static_cast<std::int64_t>(column) >= rows[row].target) continue;
          EXPECT_NEAR(found[row * testing::vocabulary + id],
                      expected[(row * columns + column) * testing::vocabulary + id],
                      1e-12);
        }
    }
  }
}

TEST(CrossAttentionWeights, RejectsIncompatibleOptions) {
  EncoderDecoderOptions options = tiny(loss_cases()[0]);
  ModelBuildOptions smoothed = tiny_setting();
  smoothed.smoothing.share = 0.1;
  EXPECT_EQ(message_of<ConfigurationError>([&] { make_encoder_decoder(options, smoothed); }),
            "model.use_pointer_generator cannot be combined with training.label_smoothing, found "
            "0.1");
  options.scores.kind = CrossAttentionScore::additive;
  EXPECT_EQ(message_of<ConfigurationError>([&] { make_encoder_decoder(options, tiny_setting()); }),
            "model.cross_attention.score_function: only dot_product supports "
            "model.use_pointer_generator, model.coverage_loss_weight and "
            "model.guided_attention.type; change one of them");
  options.scores = {};
  options.alignment_heads = 3;
  EXPECT_EQ(message_of<ConfigurationError>([&] { make_encoder_decoder(options, tiny_setting()); }),
            "model.alignment_heads: expected at most model.num_attention_heads = 2, found 3");
  options.alignment_heads = 1;
  options.alignment_layer = 2;
  EXPECT_EQ(message_of<ConfigurationError>([&] { make_encoder_decoder(options, tiny_setting()); }),
            "model.alignment_layer: expected less than model.num_hidden_layers = 2, found 2");
}

}  // namespace
}  // namespace longspan::source_look_test
