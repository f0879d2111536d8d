#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/mesh_runner.h"
#include "tests/tasks/translation_testing.h"

namespace longspan::translate_mesh_test {
namespace {

using testing::for_each_layout;
using testing::format_results;
using testing::small_encoder_decoder;
using testing::translated;

const std::vector<std::string> lines = {
    "abc", "", "a longer line", "x", "yet another line of these", "abd", "q"};

TEST(TranslateMesh, ResultsMatchSingleProcess) {
  const std::vector<MeshShape> layouts = {{.data = 2},
                                          {.data = 4},
                                          {.tensor = 2},
                                          {.tensor = 2, .sequence = true},
                                          {.context = 2},
                                          {.data = 2, .tensor = 2},
                                          {.context = 2, .tensor = 2}};
  std::vector<TranslateOptions> all = {{.beam = 3, .n_best = 2},
                                       {.n_best = 2, .sampling = SamplingOptions()}};
  for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    for (const CrossAttentionMapping wiring :
         {CrossAttentionMapping::mix, CrossAttentionMapping::full})
      for (TranslateOptions options : all)
        for (const std::int64_t batch_tokens : {1, 40}) {
          options.max_extra_length = 4;
          options.batch_tokens = batch_tokens;  // some ranks may have no batch at the end
          EXPECT_EQ(
              format_results(translated(*small_encoder_decoder(wiring, mesh), lines, options)),
              format_results(translated(*small_encoder_decoder(wiring), lines, options)))
              << testing::to_string(mesh.shape);
        }
  });
}

TEST(TranslateMesh, NonAutoregressiveResultsMatchSingleProcess) {
  EncoderDecoderOptions made;
  made.decoder = EncoderDecoderOptions::Decoder::masked;
  made.wiring = CrossAttentionMapping::mix;
  for_each_layout(
      {{.data = 2},
       {.tensor = 2},
       {.tensor = 2, .sequence = true},
       {.context = 2},
       {.context = 4},
       {.context = 2, .tensor = 2, .sequence = true}},
      [&](const ProcessMesh& mesh) {
        for (const NatObjective masking : {NatObjective::random, NatObjective::refined}) {
          made.masking.masking = masking;
          made.masking.first = NatDecoderInput::source;
          const TranslateOptions options = {
              .n_best = 2, .max_extra_length = 60, .iterations = 3, .length_beam = 2};
          EXPECT_EQ(format_results(translated(*small_encoder_decoder(made, mesh), lines, options)),
                    format_results(translated(*small_encoder_decoder(made), lines, options)))
              << testing::to_string(mesh.shape);
        }
      });
}

// Data ranks translate different lines. Only data rank 1 has NaN weights.
TEST(TranslateMesh, ThrowsOnEveryRankIfOneHasInvalidLogits) {
  for_each_layout({{.data = 2}, {.data = 2, .tensor = 2}}, [&](const ProcessMesh& mesh) {
    const auto model = small_encoder_decoder(CrossAttentionMapping::last, mesh);
    if (mesh.data.rank() == 1)
      for (const auto& parameter : model->parameters().all())
        std::ranges::fill(parameter->master.span<double>(),
                          std::numeric_limits<double>::quiet_NaN());
    model->parameters().refresh_compute();
    EXPECT_THROW(translated(*model, lines, {.beam = 1, .batch_tokens = 1}), InvalidLogits);
    mesh.world.barrier();
  });
}

EncoderDecoderOptions pondering(std::int64_t steps, double bias) {
  EncoderDecoderOptions options;
  options.recurrence.count = RecurrenceType::adaptive;
  options.recurrence.halting = {.steps = steps, .bias = bias};
  return options;
}

// Curves contain the steps of each position.
TEST(TranslateMesh, AdaptiveStepsMatchSingleProcess) {
  for_each_layout(
      {{.data = 2},
       {.tensor = 2},
       {.tensor = 2, .sequence = true},
       {.context = 2},
       {.data = 2, .context = 2},
       {.context = 2, .tensor = 2, .sequence = true}},
      [&](const ProcessMesh& mesh) {
        testing::OpenPairs files;
        files.data.buckets.batch_tokens = 200;
        const EncoderDecoderOptions options = pondering(4, -0.5);
        const Measurement one = files.open()->validate(*small_encoder_decoder(options)).value();
        const Measurement many =
            files.open(mesh)->validate(*small_encoder_decoder(options, mesh)).value();
        ASSERT_EQ(one.curves.size(), 2u);
        ASSERT_EQ(many.curves.size(), 2u);
        // Lengths of "a long line" and of "eine andere zeile" with its end token.
        EXPECT_EQ(one.curves[0].values.size(), 11u);
        EXPECT_EQ(one.curves[1].values.size(), 18u);
        for (std::size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(many.curves[i].name, one.curves[i].name);
          EXPECT_EQ(many.curves[i].values, one.curves[i].values) << testing::to_string(mesh.shape);
        }
        for (const char* name : {"encoder_act_steps_mean", "decoder_act_steps_max"})
          EXPECT_EQ(many.find(name), one.find(name)) << name;
      });
}

// One line for two ranks: both must throw.
TEST(TranslateMesh, RejectsBadOptionsOnEveryRank) {
  for_each_layout({{.data = 2}}, [&](const ProcessMesh& mesh) {
    const auto model = small_encoder_decoder(CrossAttentionMapping::last, mesh);
    EXPECT_THROW(translated(*model, {"abc"}, {.beam = 2, .n_best = 3}), ConfigurationError);
  });
}

TEST(TranslateMesh, ValidationMatchesSingleProcess) {
  const std::vector<MeshShape> layouts = {
      {.data = 2}, {.data = 4}, {.tensor = 2}, {.context = 2}, {.context = 2, .tensor = 2}};
  const testing::OpenPairs alone;
  const auto expected = alone.open({}, 0, 3)->validate(*small_encoder_decoder()).value();
  for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    const auto model = small_encoder_decoder(CrossAttentionMapping::last, mesh);
    const auto measured = alone.open(mesh, 0, 3)->validate(*model).value();
    ASSERT_EQ(measured.metric_values.size(), expected.metric_values.size());
    for (std::size_t i = 0; i < expected.metric_values.size(); ++i) {
      const double reference = expected.metric_values[i].value;
      EXPECT_NEAR(measured.metric_values[i].value, reference, 1e-9 * std::abs(reference))
          << testing::to_string(mesh.shape) << ", " << expected.metric_values[i].name;
    }
  });
}

}  // namespace
}  // namespace longspan::translate_mesh_test
