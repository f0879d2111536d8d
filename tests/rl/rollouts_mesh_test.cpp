// Rollouts and training match one process on every layout.
#include <cstdlib>

#include "framework/rl/rollouts.h"
#include "tests/models/layouts_testing.h"
#include "tests/rl/rollouts_testing.h"

namespace longspan::rollouts_mesh_test {
namespace {

constexpr std::int64_t environments = 8;
constexpr std::int64_t segment = 5;

struct Result {
  std::vector<double> losses;
  std::vector<double> metrics;
};

Result learn(const TransformerXlOptions& options,
             std::int64_t minibatches,
             const ProcessMesh& mesh,
             const MemoryOptions& memory = {}) {
  const Environment maze = parse_environment("memory_maze side 3 steps 8", "world");
  TrainingOptions training;
  training.steps = 8;
  training.learning_rate = 0.01;
  Trainer trainer(testing::acting_model(options, maze, segment, mesh, DType::f64, memory),
                  training,
                  Random(1).child("steps"));
  RolloutContext setting = testing::rollouts_in(
      maze, environments, segment, {.epochs = 2, .minibatches = minibatches}, mesh);
  setting.staggered = true;
  RolloutSource source(setting, trainer.model());
  Result result;
  for (int step = 0; step < 8; ++step) {
    result.losses.push_back(trainer.step(source.next()).loss);
    for (const auto& [name, value] : source.metric_values()) result.metrics.push_back(value);
  }
  return result;
}

// Each residual type runs on every layout with one number of minibatches, or with both if
// LONGSPAN_ALL is set. Each number of minibatches covers every layout. Half of the layouts read
// their segments in chunks.
TEST(RolloutSource, TrainingMatchesSingleProcessOnEveryLayout) {
  const bool full = std::getenv("LONGSPAN_ALL") != nullptr;
  std::vector<MeshShape> layouts = testing::data_and_tensor_layouts();
  for (const MeshShape& layout : testing::time_layouts()) layouts.push_back(layout);
  std::size_t place = 0;
  for (const ResidualKind residual :
       {ResidualKind::gated, ResidualKind::plain, ResidualKind::reversible}) {
    TransformerXlOptions options = testing::acting_options(7, residual);
    options.common.dropout = 0.1;
    options.common.attention_dropout = 0.1;
    for (const std::int64_t minibatches : {1, 2}) {
      const Result expected = learn(options, minibatches, ProcessMesh());
      for (std::size_t i = full ? 0 : place % 2; i < layouts.size(); i += full ? 1 : 2)
        testing::for_each_layout({layouts[i]}, [&](const ProcessMesh& mesh) {
          MemoryOptions memory;
          if (i / 2 % 2 == 0) memory.bptt_chunk_length = 2;
          const Result found = learn(options, minibatches, mesh, memory);
          ASSERT_EQ(found.metrics.size(), expected.metrics.size());
          for (std::size_t j = 0; j < found.metrics.size(); ++j)
            EXPECT_NEAR(found.metrics[j], expected.metrics[j], 1e-12) << "other actions were taken";
          for (std::size_t j = 0; j < found.losses.size(); ++j)
            EXPECT_NEAR(found.losses[j], expected.losses[j], 1e-9) << "step " << j;
        });
      ++place;
    }
    ++place;
  }
}

}  // namespace
}  // namespace longspan::rollouts_mesh_test
