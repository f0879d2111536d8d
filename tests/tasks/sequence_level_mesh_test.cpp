// Sequence-level training matches one process on every layout: equal candidates, rewards and
// losses.
#include "tests/support/mesh_runner.h"
#include "tests/tasks/sequence_level_testing.h"

namespace longspan::sequence_level_mesh_test {
namespace {

using testing::candidate_model;
using testing::candidate_task;
using testing::OpenPairs;

struct Learned {
  std::vector<double> losses;
  std::vector<double> metrics;
};

Learned learn(const SequenceLevelOptions& level, const ProcessMesh& mesh, std::int64_t parts) {
  OpenPairs files;
  const auto task = candidate_task(files, level, mesh, parts);
  TrainingOptions training;
  training.steps = 4;
  training.accumulation = parts;
  training.learning_rate = 0.01;
  Trainer trainer(candidate_model(level, mesh, 0.1), training, Random(1).child("steps"));
  const auto source = task->source_by(trainer.model());
  Learned result;
  for (int step = 0; step < 4; ++step) {
    const StepResult found = trainer.step(source->next());
    result.losses.push_back(found.loss);
    result.losses.push_back(found.gradient_norm);
    for (const auto& [name, value] : source->metric_values()) result.metrics.push_back(value);
  }
  return result;
}

TEST(SequenceLevelMesh, TrainingMatchesOneProcess) {
  const std::vector<MeshShape> layouts = {{.data = 2},
                                          {.tensor = 2},
                                          {.context = 2},
                                          {.data = 2, .tensor = 2},
                                          {.data = 2, .context = 2},
                                          {.context = 2, .tensor = 2, .sequence = true},
                                          {.data = 4}};
  for (const SequenceLevelMethod method : {SequenceLevelMethod::minimum_risk,
                                           SequenceLevelMethod::self_critical,
                                           SequenceLevelMethod::leave_one_out}) {
    const bool is_risk = method == SequenceLevelMethod::minimum_risk;
    const SequenceLevelOptions level = {.method = method,
                                        .candidates = 3,
                                        .alpha = 0.3,
                                        .with_reference = is_risk,
                                        .metric = SentenceMetric::error_rate,
                                        .unit = SentenceUnit::tokens,
                                        .cross_entropy_weight = is_risk ? 0.0 : 0.5,
                                        .extra_length = 2};
    const Learned expected = learn(level, ProcessMesh(), 1);
    testing::for_each_layout(layouts, [&](const ProcessMesh& mesh) {
      const Learned found = learn(level, mesh, mesh.shape.data == 2 ? 2 : 1);
      ASSERT_EQ(found.metrics.size(), expected.metrics.size());
      for (std::size_t i = 0; i < found.metrics.size(); ++i)
        EXPECT_NEAR(found.metrics[i], expected.metrics[i], 1e-9) << "other candidates";
      for (std::size_t i = 0; i < found.losses.size(); ++i)
        EXPECT_NEAR(found.losses[i], expected.losses[i], 1e-9 * std::max(1.0, expected.losses[i]))
            << "step " << i / 2;
    });
  }
}

}  // namespace
}  // namespace longspan::sequence_level_mesh_test
