// A run whose auxiliary heads end resumes on another layout.
#include "tests/models/intermediate_losses_testing.h"
#include "tests/models/layouts_testing.h"
#include "tests/support/temporary_directory.h"

namespace longspan::intermediate_losses_mesh_test {
namespace {

using testing::Case;
using testing::Trained;

// The loss of layer 1 of 3 ends with step 1 of 5, the loss of layer 2 with step 2.
Case case_of(int zero) {
  return {.name = fmt::format("ZeRO {}", zero),
          .make =
              [](const ModelBuildOptions& given) {
                DecoderOptions options = testing::deep_options();
                options.common.heads = 4;
                options.common.dropout = 0.2;
                ModelBuildOptions setting = given;
                setting.steps = 5;
                return make_decoder(options, setting);
              },
          .zero = zero};
}

struct Training {
  Case c;
  StreamRange rows;
  std::unique_ptr<Trainer> trainer;

  Training(const Case& of, const ProcessMesh& mesh)
      : c(of), rows(testing::streams_of(of, mesh)), trainer(testing::trainer_of(of, mesh)) {}

  double step(int number) const { return trainer->step(testing::batch_of(c, number, rows)).loss; }
  CursorRows cursors() const { return {.begin = rows.begin, .total = c.streams}; }
};

TEST(IntermediateLosses, RunResumesOnAnotherLayout) {
  const Case one = case_of(0);
  const Training whole(one, ProcessMesh());
  std::map<int, double> expected;
  for (int step = 0; step < one.steps; ++step) expected[step] = whole.step(step);
  const Communicator& world = testing::world();
  testing::TemporaryDirectory own;
  const std::filesystem::path directory = world.broadcast(own.path().string(), 0);
  testing::for_each_layout(
      {{.data = 2, .tensor = 2}, {.context = 2, .tensor = 2, .sequence = true}},
      [&](const ProcessMesh& mesh) {
        const Training first(case_of(1), mesh);
        for (int step = 0; step < 2; ++step) EXPECT_NEAR(first.step(step), expected.at(step), 1e-9);
        TrainingState state;
        first.trainer->save(state, first.cursors());
        CheckpointInfo info;
        info.step = 2;
        info.layout = mesh.shape;
        const auto path = save_checkpoint(directory, info, state, mesh.world);
        const Training same(case_of(2), mesh);
        same.trainer->restore(Checkpoint::open(path), same.cursors(), same.rows.count());
        const Training alone(one, ProcessMesh());
        alone.trainer->restore(Checkpoint::open(path), alone.cursors(), alone.rows.count());
        for (int step = 2; step < one.steps; ++step) {
          EXPECT_NEAR(same.step(step), expected.at(step), 1e-9);
          EXPECT_NEAR(alone.step(step), expected.at(step), 1e-9);
        }
      });
}

}  // namespace
}  // namespace longspan::intermediate_losses_mesh_test
