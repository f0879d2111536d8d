// Every optimizer trains on each kind of layout as on one process. Norms cover full tensors,
// however they are sharded.
#include "framework/optim/optimizer_options.h"
#include "tests/models/layouts_testing.h"

namespace longspan::optimizers_mesh_test {
namespace {

using testing::Case;
using testing::expect_same_training;

// No attention biases: the gradient of a key bias is 0 up to rounding, which sign-based and
// normalized updates amplify.
Case case_of(const OptimizerOptions& optimizer, double learning_rate) {
  const auto make = [](const ModelBuildOptions& setting) {
    TransformerXlOptions options;
    options.common = testing::dropped_options(NormPosition::pre);
    options.memory = 3;
    options.share_position_biases = false;
    return make_transformer_xl(options, setting);
  };
  Case result = {.name = entry_of(optimizer.kind).name, .make = make};
  result.optimizer = optimizer;
  result.optimizer.weight_decay = 0.1;
  result.learning_rate = learning_rate;
  result.separate_masters = entry_of(optimizer.kind).separate_masters;
  return result;
}

std::vector<Case> cases() {
  const AdafactorOptions scheduled = {
      .relative_step = false, .scale_by_weights = false, .clipping_threshold = 0.5};
  return {case_of({.kind = OptimizerKind::lamb}, 0.01),
          case_of({.kind = OptimizerKind::adafactor}, 0.01),
          case_of({.kind = OptimizerKind::adafactor, .beta1 = 0.9, .adafactor = scheduled}, 0.01),
          case_of({.kind = OptimizerKind::adagrad, .grad_clip = 0.03}, 0.01),
          case_of({.kind = OptimizerKind::radam, .beta2 = 0.6}, 0.01),
          case_of({.kind = OptimizerKind::lion}, 0.001),
          case_of({.kind = OptimizerKind::muon}, 0.01),
          case_of({.kind = OptimizerKind::schedule_free}, 0.01)};
}

void expect_same_on(int zero, const std::vector<MeshShape>& layouts) {
  std::vector<Case> all = cases();
  const std::vector<testing::Trained> expected = testing::train_on_one_process(all);
  for (Case& c : all) c.zero = zero;
  testing::for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    for (std::size_t i = 0; i < all.size(); ++i) expect_same_training(all[i], expected[i], mesh);
  });
}

TEST(Optimizers, MatchOneProcessOnEveryLayout) {
  expect_same_on(0,
                 {{.data = 2, .tensor = 2},
                  {.tensor = 4},
                  {.tensor = 2, .sequence = true},
                  {.data = 2, .context = 2}});
}

TEST(Optimizers, MatchOneProcessWithShardedState) {
  expect_same_on(1, {{.data = 4}, {.data = 2, .tensor = 2, .sequence = true}});
}

TEST(Optimizers, MatchOneProcessWithShardedGradients) {
  expect_same_on(2, {{.data = 2, .tensor = 2}, {.context = 2, .tensor = 2, .sequence = true}});
}

}  // namespace
}  // namespace longspan::optimizers_mesh_test
