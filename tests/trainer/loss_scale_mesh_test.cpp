// Training with gradients that overflow f16, on one rank or several.
#include <limits>

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/modeling/lm_head.h"
#include "framework/trainer/trainer.h"
#include "tests/models/embedding_body.h"
#include "tests/models/model_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::loss_scale_mesh_test {
namespace {

using testing::backend_device;
using testing::Values;
using testing::values_of;

constexpr std::int64_t width = 8;

enum class Fault { none, gradient, loss };

using FaultAt = std::function<Fault(int pass)>;

// A language-model head whose losses or gradients are infinite on this rank in the passes that
// `fault` selects.
class FaultyHead : public OutputHead {
 public:
  FaultyHead(std::unique_ptr<OutputHead> sound, FaultAt fault)
      : sound_(std::move(sound)), fault_(std::move(fault)) {}

  std::vector<LossTerm> losses(const BackboneOutput& states,
                               const ModelInput& reading,
                               const ForwardContext& pass) const override {
    std::vector<LossTerm> terms = sound_->losses(states, reading, pass);
    const Fault fault = fault_(passes_++);
    if (fault == Fault::none) return terms;
    Variable& losses = terms.front().values;
    losses = record(
        scaled(losses.value(), fault == Fault::loss ? infinity : 1),
        {losses},
        [](BackwardContext& gradients) { gradients.set(0, scaled(gradients.output(), infinity)); });
    return terms;
  }
  Variable scores(const BackboneOutput& states,
                  const ModelInput& reading,
                  const ForwardContext& pass) const override {
    return sound_->scores(states, reading, pass);
  }
  const ShardRange& part() const override { return sound_->part(); }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  static Tensor scaled(const Tensor& tensor, double factor) {
    const Tensor result = tensor.empty_like();
    on(tensor.device(), [&](auto backend) { scale(backend, factor, tensor, result); });
    return result;
  }

  std::unique_ptr<OutputHead> sound_;
  FaultAt fault_;
  mutable int passes_ = 0;
};

// Predicts the next token from the last one alone.
std::unique_ptr<Model> faulty_model(DType compute, const ProcessMesh& mesh, FaultAt fault) {
  return std::make_unique<Model>(
      ModelBuildOptions{.vocabulary = testing::vocabulary,
                        .compute = compute,
                        .device = backend_device(),
                        .mesh = mesh,
                        .random = Random(1)},
      testing::embedding_body({.width = width, .initial = Initializer::normal(0.5)}),
      [&](const Scope& scope, const Backbone& body, const ModelBuildOptions& setting) {
        return std::make_unique<FaultyHead>(lm_head()(scope, body, setting), std::move(fault));
      });
}

constexpr std::int64_t streams = 4;
constexpr std::int64_t segment = 6;

Batch batch_of(int step, const ProcessMesh& mesh) {
  const StreamRange range =
      streams_of_rank(streams, mesh.data.rank(), mesh.data.size(), "data.global_batch_size");
  return testing::batch_of_rows(
      testing::random_ids(streams, segment + 1, static_cast<std::uint64_t>(step)), range);
}

Trainer make_trainer(const ProcessMesh& mesh,
                     DType compute,
                     const LossScaleOptions& loss_scale,
                     FaultAt fault,
                     const TrainingOptions& options = {}) {
  return Trainer(faulty_model(compute, mesh, std::move(fault)),
                 options,
                 Random(1),
                 {.compute = compute, .loss_scale = loss_scale});
}

Values weights_of(const Trainer& trainer) {
  Values all;
  for (const auto& parameter : trainer.model().parameters().all())
    for (const double value : values_of(parameter->master)) all.push_back(value);
  return all;
}

const std::vector<MeshShape> layouts = {{}, {.data = 2}, {.data = 4}, {.data = 2, .tensor = 2}};

TEST(LossScaleMesh, OverflowOnOneRankSkipsStepOnAllRanks) {
  testing::for_each_layout(layouts, [](const ProcessMesh& mesh) {
    const bool is_last = mesh.world.rank() == mesh.world.size() - 1;
    Trainer trainer = make_trainer(
        mesh, DType::f16, {.initial = 1024, .growth_interval = 3, .hysteresis = 1}, [&](int pass) {
          return is_last && pass == 3 ? Fault::gradient : Fault::none;
        });
    std::vector<double> scales;
    for (int step = 0; step < 8; ++step) {
      const Values before = weights_of(trainer);
      const StepResult result = trainer.step(batch_of(step, mesh));
      EXPECT_EQ(result.skipped, step == 3);
      EXPECT_TRUE(std::isfinite(result.loss));
      EXPECT_EQ(weights_of(trainer) == before, step == 3) << step;
      scales.push_back(result.loss_scale.value());
    }
    EXPECT_EQ(scales, (std::vector<double>{1024, 1024, 1024, 2048, 1024, 1024, 1024, 2048}));
    EXPECT_EQ(trainer.skipped(), 1);
    EXPECT_EQ(trainer.steps(), 8);
  });
}

TEST(LossScaleMesh, SkippedStepDoesNotAdvanceAdamOrSchedule) {
  testing::for_each_layout({{}, {.data = 2}}, [](const ProcessMesh& mesh) {
    TrainingOptions options;
    options.schedule = ScheduleKind::linear;
    options.steps = 4;
    const auto train = [&](int fault_at) {
      Trainer trainer = make_trainer(
          mesh,
          DType::f16,
          {},
          [=](int pass) { return pass == fault_at ? Fault::gradient : Fault::none; },
          options);
      for (int step = 0; step < 5; ++step)
        if (fault_at < 0 ? step != 2 : true) trainer.step(batch_of(step, mesh));
      return weights_of(trainer);
    };
    // Skipping the third batch equals omitting it.
    EXPECT_EQ(train(2), train(-1));
  });
}

TEST(LossScaleMesh, TooLargeScaleIsNotDivergence) {
  testing::for_each_layout({{}, {.data = 2}}, [](const ProcessMesh& mesh) {
    TrainingOptions options;
    options.consecutive_skips = 2;
    Trainer trainer = make_trainer(
        mesh,
        DType::f16,
        {.initial = 0x1p32, .hysteresis = 2},
        [](int) { return Fault::none; },
        options);
    for (int step = 0; step < 30; ++step) trainer.step(batch_of(step, mesh));
    EXPECT_GT(trainer.skipped(), 5);
    EXPECT_LT(trainer.skipped(), 25);
  });
}

std::string divergence(Trainer& trainer, const ProcessMesh& mesh) {
  try {
    for (int step = 0; step < 20; ++step) trainer.step(batch_of(step, mesh));
  } catch (const DivergedError& error) {
    return error.what();
  }
  return "";
}

TEST(LossScaleMesh, OverflowAtScaleOneDiverges) {
  testing::for_each_layout({{}, {.data = 2}}, [](const ProcessMesh& mesh) {
    TrainingOptions options;
    options.consecutive_skips = 3;
    const auto trainer = [&](Fault fault) {
      return make_trainer(
          mesh, DType::f16, {.initial = 4, .hysteresis = 1}, [=](int) { return fault; }, options);
    };
    // Steps 1 and 2 halve the scale to 1; steps 3 to 5 overflow at scale 1.
    Trainer overflowing = trainer(Fault::gradient);
    const std::string overflow = divergence(overflowing, mesh);
    EXPECT_TRUE(
        overflow.starts_with("training diverged: 3 consecutive steps had gradients that "
                             "overflow float16 at loss scale 1; the last is step 5 (loss"))
        << overflow;
    // A non-finite loss does not depend on the scale.
    Trainer lost = trainer(Fault::loss);
    const std::string loss = divergence(lost, mesh);
    EXPECT_NE(loss.find("the last is step 3 (loss inf"), std::string::npos) << loss;
  });
}

TEST(LossScaleMesh, OnlyF16UsesLossScale) {
  Trainer trainer = make_trainer(
      {}, DType::bf16, {}, [](int pass) { return pass ? Fault::gradient : Fault::none; });
  EXPECT_FALSE(trainer.step(batch_of(0, {})).loss_scale.has_value());
  TrainingState state;
  trainer.save(state, {.total = streams});
  for (const auto& [name, value] : state.scalars.values())
    EXPECT_FALSE(name.starts_with("loss_scale")) << name;
}

}  // namespace
}  // namespace longspan::loss_scale_mesh_test
