// Memory modes of full models. equality_matrix_mesh_test.cpp compares training in all modes.
#include "framework/options/options.h"
#include "framework/trainer/trainer.h"
#include "models/stack.h"
#include "tests/models/model_testing.h"

namespace longspan::memory_modes_test {
namespace {

using testing::tiny_options;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

TransformerXlOptions reversible_options(std::int64_t memory) {
  TransformerXlOptions options = {.common = tiny_options(NormPosition::pre), .memory = memory};
  options.common.residual = ResidualKind::reversible;
  return options;
}

std::string refusal(const ModelOptions& options, const MemoryOptions& memory) {
  try {
    make_residual(options, memory);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "no error";
}

TEST(MemoryModes, RejectsIncompatibleOptions) {
  ModelOptions reversible = tiny_options(NormPosition::pre);
  reversible.residual = ResidualKind::reversible;
  EXPECT_EQ(refusal(reversible, {.recompute_granularity = RecomputeGranularity::full}),
            "memory.recompute_granularity: full cannot be combined with model.residual.type: "
            "reversible; set it to none");
  EXPECT_EQ(refusal(reversible, {.reconstruction_check_every = 3}), "no error");
  EXPECT_EQ(refusal(tiny_options(), {.reconstruction_check_every = 3}),
            "memory.reconstruction_check_interval: 3 requires model.residual.type: reversible; set "
            "it to 0");
  EXPECT_EQ(
      refusal(tiny_options(),
              {.recompute_granularity = RecomputeGranularity::full, .recompute_num_layers = 2}),
      "no error");
  EXPECT_EQ(
      refusal(tiny_options(),
              {.recompute_granularity = RecomputeGranularity::full, .recompute_num_layers = 3}),
      "memory.recompute_num_layers: expected at most model.num_hidden_layers = 2, found 3");
}

std::string error_for(const std::vector<std::pair<std::string, std::string>>& settings) {
  ModelOptions options;
  OptionTable table;
  declare(table, options, {});
  std::vector<Assignment> assignments;
  for (const auto& [key, text] : settings)
    assignments.push_back({key, Assignment::Kind::scalar, {{text, false}}, {}});
  table.assign(assignments);
  try {
    table.finish();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "no error";
}

TEST(MemoryModes, ReportsRequirementsForReversibleResiduals) {
  EXPECT_EQ(error_for({{"model.residual.type", "reversible"}}),
            "--set: model.residual.type: reversible requires model.norm.position: pre, found post");
  EXPECT_EQ(error_for({{"model.residual.type", "reversible"}, {"model.norm.position", "pre"}}),
            "no error");
  EXPECT_EQ(error_for({{"model.residual.reversible_output", "concat"}}),
            "--set: model.residual.reversible_output: concat requires model.residual.type: "
            "reversible, found standard");
  EXPECT_EQ(error_for({{"model.residual.type", "reversible"},
                       {"model.norm.position", "pre"},
                       {"model.residual.reversible_output", "concat"}}),
            "--set: model.residual.reversible_output: concat cannot be combined with "
            "model.tie_word_embeddings: true; change one of them");
}

TEST(MemoryModes, ReportsRequirementsForGatedResiduals) {
  const std::pair<std::string, std::string> gated = {"model.residual.type", "gated"};
  const std::pair<std::string, std::string> pre = {"model.norm.position", "pre"};
  EXPECT_EQ(error_for({gated}),
            "--set: model.residual.type: gated requires model.norm.position: pre, found post");
  EXPECT_EQ(error_for({gated,
                       pre,
                       {"model.residual.gate.type", "sigtanh"},
                       {"model.residual.gate.extra_biases", "true"}}),
            "no error");
  EXPECT_EQ(
      error_for({{"model.residual.gate.type", "input"}}),
      "--set: model.residual.gate.type: input requires model.residual.type: gated, found standard");
  EXPECT_EQ(error_for({{"model.residual.gate.bias_init", "1"}}),
            "--set: model.residual.gate.bias_init: 1 requires model.residual.type: gated, found "
            "standard");
  EXPECT_EQ(
      error_for({gated,
                 pre,
                 {"model.residual.gate.type", "input"},
                 {"model.residual.gate.bias_init", "1"}}),
      "--set: model.residual.gate.bias_init: 1 requires model.residual.gate.type: gru, highway, "
      "output or sigtanh, found input");
  EXPECT_EQ(
      error_for({gated,
                 pre,
                 {"model.residual.gate.type", "output"},
                 {"model.residual.gate.extra_biases", "true"}}),
      "--set: model.residual.gate.extra_biases: true requires model.residual.gate.type: gru or "
      "sigtanh, found output");
  ModelOptions options = tiny_options(NormPosition::pre);
  options.residual = ResidualKind::gated;
  EXPECT_EQ(refusal(options, {.recompute_granularity = RecomputeGranularity::full}), "no error");
  EXPECT_EQ(refusal(options, {.reconstruction_check_every = 3}),
            "memory.reconstruction_check_interval: 3 requires model.residual.type: reversible; set "
            "it to 0");
}

// Losses before a changed token stay equal for each gate.
TEST(MemoryModes, GatedModelDoesNotAttendToLaterTokens) {
  for (const GateKind kind : {GateKind::gru, GateKind::sigtanh}) {
    TransformerXlOptions options = {.common = tiny_options(NormPosition::pre), .memory = 4};
    options.common.residual = ResidualKind::gated;
    options.common.gate.kind = kind;
    const auto model = make_transformer_xl(options, tiny_setting());
    const Tensor text = testing::random_ids(1, 9, 3);
    const NoGradGuard unrecorded;
    const ModelInput before = testing::segment_of(text, 0, 8);
    const Values expected = values_of(testing::losses_of(*model, before).value());
    ModelInput changed = before;
    changed.fields["tokens"] = before.fields.at("tokens").clone();
    std::int64_t& token = changed.fields["tokens"].data<std::int64_t>()[5];
    token = (token + 1) % testing::vocabulary;
    const Values found = values_of(testing::losses_of(*model, changed).value());
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(found[i] == expected[i], i < 5) << i;
  }
}

// Single steps with memory match the parallel pass.
TEST(MemoryModes, GatedMemoryMatchesOneLongSegment) {
  TransformerXlOptions options = {.common = tiny_options(NormPosition::pre), .memory = 12};
  options.common.residual = ResidualKind::gated;
  const auto model = make_transformer_xl(options, tiny_setting());
  const Tensor text = testing::random_ids(2, 13, 3);
  const NoGradGuard unrecorded;
  const Values whole =
      values_of(testing::losses_of(*model, testing::segment_of(text, 0, 12)).value());
  RecurrentState memory;
  for (std::int64_t step = 0; step < 12; ++step) {
    const Losses part =
        model->losses(testing::segment_of(text, step, 1, memory, 12), ForwardContext());
    memory = part.carried;
    const Values losses = values_of(testing::loss_values(part).value());
    for (std::size_t row = 0; row < 2; ++row)
      EXPECT_NEAR(losses[row], whole[12 * row + static_cast<std::size_t>(step)], 1e-12);
  }
}

TEST(MemoryModes, ReversibleGradientsMatchFiniteDifferences) {
  TransformerXlOptions options = reversible_options(4);
  options.common.activation =
      FeedForwardActivation::gelu;  // relu has a kink, which a finite difference may cross
  const auto model = make_transformer_xl(options, tiny_setting());
  const Tensor text = testing::random_ids(2, 11, 3);
  const RecurrentState memory =
      model->losses(testing::segment_of(text, 0, 5, {}, 4), ForwardContext()).carried;
  testing::expect_model_gradients(
      *model, testing::segment_of(text, 5, 5, memory, 4), {.training = true, .random = Random(1)});
}

// The memory of a layer is the input of its attention.
TEST(MemoryModes, ReversibleMemoryMatchesOneLongSegment) {
  const auto model = make_transformer_xl(reversible_options(6), tiny_setting());
  const Tensor text = testing::random_ids(2, 13, 3);
  const NoGradGuard unrecorded;
  const Losses first = model->losses(testing::segment_of(text, 0, 6, {}, 6), ForwardContext());
  const Losses second =
      model->losses(testing::segment_of(text, 6, 6, first.carried, 6), ForwardContext());
  const Values whole =
      values_of(testing::losses_of(*model, testing::segment_of(text, 0, 12)).value());
  const Values parts[] = {values_of(testing::loss_values(first).value()),
                          values_of(testing::loss_values(second).value())};
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t part = 0; part < 2; ++part)
      for (std::size_t i = 0; i < 6; ++i)
        EXPECT_NEAR(parts[part][6 * row + i], whole[12 * row + 6 * part + i], 1e-12);
}

TEST(MemoryModes, TrainerMeasuresReconstructionErrorOnRequest) {
  ModelBuildOptions setting = tiny_setting();
  setting.compute = DType::f32;
  TrainingOptions options;
  options.accumulation = 2;
  Trainer trainer(make_transformer_xl(reversible_options(4), setting), options, Random(1));
  Batch batch = testing::batch_of_rows(testing::random_ids(4, 6, 3));
  batch.resets_state = true;
  EXPECT_FALSE(trainer.step(batch).reconstruction_error);
  const std::optional<double> error = trainer.step(batch, {.measure = true}).reconstruction_error;
  ASSERT_TRUE(error);
  EXPECT_GT(*error, 0);
  EXPECT_LT(*error, 1e-5);
  EXPECT_FALSE(trainer.step(batch).reconstruction_error);
}

}  // namespace
}  // namespace longspan::memory_modes_test
