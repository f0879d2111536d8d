#include "framework/modeling/scheduled_sampling.h"

#include "tests/data/temporary_file.h"
#include "tests/models/source_look_testing.h"

namespace longspan::scheduled_sampling_test {
namespace {

using testing::expect_close;
using testing::make_encoder_decoder;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

const std::vector<Lengths> rows = {{4, 5}, {2, 3}, {0, 4}, {0, 0}};
constexpr std::int64_t columns = 5;

ModelInput reading() { return {.fields = testing::pair_fields(rows, {4, columns}, 1)}; }

EncoderDecoderOptions tiny(double dropout = 0) {
  EncoderDecoderOptions options;
  options.common = testing::tiny_options(NormPosition::pre);
  options.common.activation = FeedForwardActivation::gelu_tanh;
  options.common.dropout = options.common.attention_dropout = dropout;
  return options;
}

// A constant gold probability `share`.
ScheduledSampling with_share(ScheduledSamplingMethod mixing,
                             ScheduledSamplingPrediction guess,
                             double share) {
  return {.mixing = mixing,
          .guess = guess,
          .passes = 2,
          .schedule = GoldProbabilitySchedule::linear,
          .start = share,
          .decay = 0};
}

std::unique_ptr<Model> model_with(const ScheduledSampling& sampling,
                                  const EncoderDecoderOptions& options = tiny()) {
  ModelBuildOptions setting = tiny_setting();
  setting.sampling = sampling;
  return make_encoder_decoder(options, setting);
}

const std::vector<ScheduledSampling>& all_kinds(double share) {
  static std::vector<ScheduledSampling> all;
  all.clear();
  for (const ScheduledSamplingPrediction guess : {ScheduledSamplingPrediction::sample,
                                                  ScheduledSamplingPrediction::argmax,
                                                  ScheduledSamplingPrediction::softmax,
                                                  ScheduledSamplingPrediction::gumbel,
                                                  ScheduledSamplingPrediction::top_five,
                                                  ScheduledSamplingPrediction::sparsemax})
    all.push_back(with_share(ScheduledSamplingMethod::two_pass, guess, share));
  for (const ScheduledSamplingMethod mixing :
       {ScheduledSamplingMethod::parallel, ScheduledSamplingMethod::sequential})
    for (const ScheduledSamplingPrediction guess :
         {ScheduledSamplingPrediction::sample, ScheduledSamplingPrediction::argmax})
      all.push_back(with_share(mixing, guess, share));
  return all;
}

const ForwardContext training = {.training = true, .random = Random(3)};

TEST(ScheduledSampling, GoldProbabilityFollowsSchedule) {
  ScheduledSampling options = {
      .schedule = GoldProbabilitySchedule::linear, .least = 0.25, .decay = 0.1};
  EXPECT_DOUBLE_EQ(options.gold_share(0), 1);
  EXPECT_DOUBLE_EQ(options.gold_share(5), 0.5);
  EXPECT_DOUBLE_EQ(options.gold_share(50), 0.25);
  options = {.schedule = GoldProbabilitySchedule::exponential, .decay = 0.9};
  EXPECT_DOUBLE_EQ(options.gold_share(2), 0.81);
  options = {.schedule = GoldProbabilitySchedule::inverse_sigmoid, .decay = 10};
  EXPECT_DOUBLE_EQ(options.gold_share(0), 10.0 / 11);
  EXPECT_DOUBLE_EQ(options.gold_share(20), 10 / (10 + std::exp(2.0)));
  options = {.schedule = GoldProbabilitySchedule::warmup, .most = 0.5, .warmup = 100};
  EXPECT_DOUBLE_EQ(options.gold_share(0), 1 - 0.0005);
  EXPECT_DOUBLE_EQ(options.gold_share(100), 0.5);
  EXPECT_DOUBLE_EQ(options.gold_share(1000), 0.5);
}

TEST(ScheduledSampling, PredictionWeightsMatchFormulas) {
  const Values scores = {0.2, 1.5, -1, 0.7, 0.1, 0.3, -2};
  double sum = 0;
  Values soft;
  for (const double score : scores) sum += std::exp(2 * score);
  for (const double score : scores) soft.push_back(std::exp(2 * score) / sum);
  expect_close(prediction_weights(ScheduledSamplingPrediction::softmax, 0.5, scores), soft, 1e-14);
  Values five = soft;
  five[2] = five[6] = 0;
  for (double& weight : five) weight /= 1 - soft[2] - soft[6];
  expect_close(prediction_weights(ScheduledSamplingPrediction::top_five, 0.5, scores), five, 1e-14);
  // 1.5 - t + 0.7 - t = 1.
  expect_close(prediction_weights(ScheduledSamplingPrediction::sparsemax, 1, scores),
               {0, 0.9, 0, 0.1, 0, 0, 0},
               1e-14);
  Values noise(7, 0);
  noise[2] = 50;
  EXPECT_NEAR(
      prediction_weights(ScheduledSamplingPrediction::gumbel, 1, scores, noise)[2], 1, 1e-15);
}

TEST(ScheduledSampling, DividesLogitsByTheTemperature) {
  const Values scores = {0.2, 1.5, -1, 0.7};
  Values doubled, halved;
  for (const double score : scores) {
    doubled.push_back(2 * score);
    halved.push_back(score / 2);
  }
  for (const ScheduledSamplingPrediction guess : {ScheduledSamplingPrediction::softmax,
                                                  ScheduledSamplingPrediction::gumbel,
                                                  ScheduledSamplingPrediction::top_five,
                                                  ScheduledSamplingPrediction::sparsemax}) {
    EXPECT_EQ(prediction_weights(guess, 0.5, scores), prediction_weights(guess, 1, doubled));
    EXPECT_EQ(prediction_weights(guess, 2, scores), prediction_weights(guess, 1, halved));
  }
}

TEST(ScheduledSampling, ReadsTheTemperatureFromItsKey) {
  const auto given = [](const std::string& text) {
    ScheduledSampling options;
    OptionTable table;
    declare(table, options);
    table.assign(std::vector<Assignment>{{.key = "training.scheduled_sampling.temperature",
                                          .kind = Assignment::Kind::scalar,
                                          .scalars = {{text}},
                                          .mark = {}}});
    table.finish();
    return options.temperature;
  };
  EXPECT_EQ(given("0.5"), 0.5);
  EXPECT_THROW(given("0"), ConfigurationError);
}

TEST(ScheduledSampling, GoldProbabilityOneEqualsTeacherForcing) {
  const Values expected =
      values_of(testing::losses_of(*model_with({}, tiny(0.3)), reading(), training).value());
  for (const ScheduledSampling& kind : all_kinds(1))
    EXPECT_EQ(
        values_of(testing::losses_of(*model_with(kind, tiny(0.3)), reading(), training).value()),
        expected);
  for (const ScheduledSampling& kind : all_kinds(0.3)) {
    const auto model = model_with(kind, tiny(0.3));
    EXPECT_NE(values_of(testing::losses_of(*model, reading(), training).value()), expected);
    EXPECT_EQ(values_of(testing::losses_of(*model, reading()).value()),
              values_of(testing::losses_of(*model_with({}, tiny(0.3)), reading()).value()));
  }
}

// Sequential argmax predictions are the greedy rollout.
TEST(ScheduledSampling, SequentialArgmaxEqualsGreedyRollout) {
  const NoGradGuard unrecorded;
  const auto options =
      with_share(ScheduledSamplingMethod::sequential, ScheduledSamplingPrediction::argmax, 0);
  const auto model = model_with(options);
  const ModelInput found = mix_in_predictions(options, *model, reading(), training);
  ModelInput greedy = reading();
  for (std::int64_t t = 0; t + 1 < columns; ++t) {
    const Tensor scores = model->scores(greedy, training).scores.value();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const double* const here =
          scores.data<double>() +
          (static_cast<std::int64_t>(row) * columns + t) * testing::vocabulary;
      row_of(greedy.fields["tokens"], row)[static_cast<std::size_t>(t) + 1] =
          std::max_element(here, here + testing::vocabulary) - here;
    }
  }
  const auto ids = [](const ModelInput& read) {
    const auto span = read.fields.at("tokens").span<std::int64_t>();
    return std::vector(span.begin(), span.end());
  };
  EXPECT_EQ(ids(found), ids(greedy));
  // Parallel sampling with as many passes gives equal tokens.
  ScheduledSampling passes =
      with_share(ScheduledSamplingMethod::parallel, ScheduledSamplingPrediction::argmax, 0);
  passes.passes = columns - 1;
  EXPECT_EQ(ids(mix_in_predictions(passes, *model_with(passes), reading(), training)), ids(greedy));
}

// Sampling passes add no token to the centroids.
TEST(ScheduledSampling, SamplingPassesDoNotUpdateCentroids) {
  EncoderDecoderOptions options = tiny();
  options.common.attention.encoder_kinds = {"routing"};
  options.common.attention.routing.clusters = 2;
  const auto counted = [&](const ScheduledSampling& sampling) {
    const auto model = model_with(sampling, options);
    testing::losses_of(*model, reading(), training);
    Values counts;
    for (const auto& centroids : model->parameters().centroids())
      for (const double count : values_of(centroids->counts)) counts.push_back(count);
    return counts;
  };
  const Values once = counted({});
  EXPECT_GT(*std::ranges::max_element(once), 0);
  for (const ScheduledSampling& kind : all_kinds(0.3)) EXPECT_EQ(counted(kind), once);
}

TEST(ScheduledSampling, LowTemperatureMatchesArgmax) {
  const auto losses = [](ScheduledSamplingPrediction guess) {
    ScheduledSampling options = with_share(ScheduledSamplingMethod::two_pass, guess, 0.4);
    options.temperature = 1e-6;
    EncoderDecoderOptions copies = tiny();
    copies.source.copies = true;
    return values_of(testing::losses_of(*model_with(options, copies), reading(), training).value());
  };
  const Values likeliest = losses(ScheduledSamplingPrediction::argmax);
  for (const ScheduledSamplingPrediction guess : {ScheduledSamplingPrediction::softmax,
                                                  ScheduledSamplingPrediction::top_five,
                                                  ScheduledSamplingPrediction::sparsemax})
    expect_close(losses(guess), likeliest, 1e-12);
}

TEST(ScheduledSampling, DoesNotDependOnLaterTokens) {
  for (const ScheduledSampling& kind : all_kinds(0.5)) {
    const auto model = model_with(kind);
    const ModelInput later = reading();
    std::int64_t& id = row_of(field_of(later.fields, "tokens"), 0)[3];
    id = (id + 1) % testing::vocabulary;
    const Values before = values_of(testing::losses_of(*model, reading(), training).value());
    const Values after = values_of(testing::losses_of(*model, later, training).value());
    for (std::size_t place = 0; place < before.size(); ++place) {
      if (place >= 3 && place < static_cast<std::size_t>(columns)) continue;
      EXPECT_EQ(before[place], after[place]) << place;
    }
  }
}

// Predictions have no gradient: gradients are those of the mixed input.
TEST(ScheduledSampling, GradientsMatchFiniteDifferences) {
  const auto model = model_with(
      with_share(ScheduledSamplingMethod::two_pass, ScheduledSamplingPrediction::argmax, 0.4),
      tiny(0.3));
  testing::expect_model_gradients(*model, reading(), training);
}

TEST(ScheduledSampling, RejectsMeanEmbeddingsOutsideTwoPass) {
  EXPECT_EQ(message_of<ConfigurationError>([] {
              model_with(with_share(
                  ScheduledSamplingMethod::parallel, ScheduledSamplingPrediction::softmax, 0.5));
            }),
            "training.scheduled_sampling.prediction: mean embeddings require "
            "training.scheduled_sampling.method: two_pass; set it to sample or argmax");
}

}  // namespace
}  // namespace longspan::scheduled_sampling_test
