// ZeRO sharding between replicas: bit-identical training in less memory.
#include "framework/optim/parameter_state.h"
#include "framework/trainer/trainer.h"
#include "tests/models/model_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::zero_mesh_test {
namespace {

using testing::Values;
using testing::values_of;

constexpr std::int64_t streams = 4;
constexpr std::int64_t segment = 5;

struct Kind {
  DType compute = DType::f32;
  DType reduction = DType::f32;
  OptimizerOptions optimizer = {};
  int zero = 0;
  double bucket_megabytes = 0.0005;
  std::int64_t width = 12;
  std::int64_t layers = 2;
};

Trainer make_trainer(const Kind& kind, const ProcessMesh& mesh, const Device& device) {
  DecoderOptions options;
  options.common = {.layers = kind.layers,
                    .width = kind.width,
                    .heads = 2,
                    .feed_forward = 2 * kind.width,
                    .norm = NormPosition::pre,
                    .dropout = 0.1,
                    .attention_dropout = 0.1};
  TrainingOptions training;
  training.clip_norm = 0;  // sharded gradients sum the norm in another order
  training.optimizer = kind.optimizer;
  return Trainer(
      make_decoder(options,
                   {.vocabulary = testing::vocabulary,
                    .segment = segment,
                    .compute = kind.compute,
                    .device = device,
                    .mesh = mesh,
                    .random = Random(3),
                    .sharing = {.zero = kind.zero, .bucket_megabytes = kind.bucket_megabytes}}),
      training,
      Random(1),
      {.compute = kind.compute, .gradient_reduction = kind.reduction});
}

Batch batch_of(int step, const ProcessMesh& mesh) {
  const StreamRange range =
      streams_of_rank(streams, mesh.data.rank(), mesh.data.size(), "data.global_batch_size");
  return testing::batch_of_rows(
      testing::random_ids(streams, segment + 1, static_cast<std::uint64_t>(step)), range);
}

struct Trained {
  Values losses;
  Values weights;  // as the forward pass reads them
};

Trained train(const Kind& kind, const ProcessMesh& mesh, int steps = 4) {
  Trainer trainer = make_trainer(kind, mesh, testing::backend_device());
  Trained result;
  for (int step = 0; step < steps; ++step)
    result.losses.push_back(trainer.step(batch_of(step, mesh)).loss);
  for (const auto& parameter : trainer.model().parameters().all())
    for (const double value : values_of(parameter->compute)) result.weights.push_back(value);
  return result;
}

std::vector<Kind> kinds() {
  const OptimizerOptions decayed = {.kind = OptimizerKind::adam, .weight_decay = 0.1};
  const OptimizerOptions nesterov = {.kind = OptimizerKind::sgd, .momentum = 0.8, .nesterov = true};
  const OptimizerOptions plain = {.kind = OptimizerKind::sgd, .momentum = 0};
  return {{},
          {.optimizer = decayed},
          {.optimizer = nesterov},
          {.optimizer = plain},
          {.compute = DType::bf16},
          {.compute = DType::f16},
          {.reduction = DType::bf16},
          {.compute = DType::bf16, .reduction = DType::bf16, .optimizer = nesterov}};
}

TEST(Zero, TrainingIsBitIdentical) {
  testing::for_each_layout({{.data = 2}, {.data = 4}, {.data = 2, .tensor = 2}},
                           [](const ProcessMesh& mesh) {
                             for (Kind kind : kinds()) {
                               SCOPED_TRACE(name_of(kind.compute));
                               const Trained expected = train(kind, mesh);
                               for (kind.zero = 1; kind.zero <= 2; ++kind.zero) {
                                 const Trained found = train(kind, mesh);
                                 EXPECT_EQ(found.losses, expected.losses);
                                 EXPECT_EQ(found.weights, expected.weights);
                               }
                             }
                           });
}

TEST(Zero, AllRanksHaveEqualWeights) {
  testing::for_each_layout({{.data = 4}}, [](const ProcessMesh& mesh) {
    for (int zero = 0; zero <= 2; ++zero) {
      const Values mine = train({.compute = DType::bf16, .zero = zero}, mesh).weights;
      const Tensor sum = Tensor::from<double>(
          std::span<const double>(mine), {std::ssize(mine)}, testing::backend_device());
      mesh.data.all_reduce(sum, Reduction::maximum);
      EXPECT_EQ(values_of(sum), mine);
    }
  });
}

TEST(Zero, Bf16GradientReductionIsCloseAndReproducible) {
  testing::for_each_layout({{.data = 2}, {.data = 4}}, [](const ProcessMesh& mesh) {
    const Trained exact = train({}, mesh);
    const Trained rounded = train({.reduction = DType::bf16}, mesh);
    EXPECT_NE(rounded.weights, exact.weights);
    for (std::size_t i = 0; i < exact.losses.size(); ++i)
      EXPECT_NEAR(rounded.losses[i], exact.losses[i], 1e-3 * exact.losses[i]);
    EXPECT_EQ(train({.reduction = DType::bf16}, mesh).weights, rounded.weights);
  });
}

// Bytes of each memory tag on this rank, during the second step.
MemoryReport memory_of(const Kind& kind, const ProcessMesh& mesh) {
  const Device device = Device::cpu();
  Trainer trainer = make_trainer(kind, mesh, device);
  trainer.step(batch_of(0, mesh));
  device.allocator().reset_peak();
  trainer.step(batch_of(1, mesh));
  return device.allocator().report();
}

MemoryCount of(const MemoryReport& report, MemoryTag tag) {
  return report.by_tag[static_cast<std::size_t>(tag)];
}

TEST(Zero, OptimizerBytesShrinkWithReplicas) {
  const Kind kind = {.bucket_megabytes = 0.1, .width = 128};
  const MemoryCount whole = of(memory_of(kind, {}), MemoryTag::optimizer);
  testing::for_each_layout(
      {{.data = 2}, {.data = 4}, {.data = 2, .context = 2}}, [&](const ProcessMesh& mesh) {
        for (int zero = 1; zero <= 2; ++zero) {
          Kind shared = kind;
          shared.zero = zero;
          const MemoryCount found = of(memory_of(shared, mesh), MemoryTag::optimizer);
          const double most = 1.02 * static_cast<double>(whole.peak) / mesh.replicas.size();
          EXPECT_LE(static_cast<double>(found.live), most);
          EXPECT_LE(static_cast<double>(found.peak), most);
        }
      });
}

TEST(Zero, ShardsMasterWeightsWithNarrowCompute) {
  const Kind kind = {.compute = DType::bf16, .bucket_megabytes = 0.1, .width = 128};
  const MemoryCount whole = of(memory_of(kind, {}), MemoryTag::weights);  // 4 + 2 bytes per element
  testing::for_each_layout({{.data = 2}, {.data = 4}}, [&](const ProcessMesh& mesh) {
    Kind shared = kind;
    shared.zero = 1;
    const MemoryCount found = of(memory_of(shared, mesh), MemoryTag::weights);
    const double share = (2 + 4.0 / mesh.data.size()) / 6;
    EXPECT_LE(static_cast<double>(found.peak), 1.02 * share * static_cast<double>(whole.peak));
  });
}

TEST(Zero, GradientBytesAreShardPlusPendingBuckets) {
  const Kind kind = {.bucket_megabytes = 0.1, .width = 128, .layers = 6};
  const MemoryCount whole = of(memory_of(kind, {}), MemoryTag::gradients);
  testing::for_each_layout({{.data = 2}, {.data = 4}}, [&](const ProcessMesh& mesh) {
    Kind shared = kind;
    shared.zero = 2;
    const MemoryCount found = of(memory_of(shared, mesh), MemoryTag::gradients);
    const double share = static_cast<double>(whole.peak) / mesh.data.size();
    EXPECT_LE(static_cast<double>(found.live), 1.02 * share);
    // In addition to the shard: one bucket that fills, one in flight, the tied embedding and the
    // vectors, which fill during the full pass.
    const double largest = 128 * 256 * 4;
    EXPECT_LE(static_cast<double>(found.peak), 1.02 * share + 4 * largest);
    EXPECT_LT(found.peak, whole.peak);
  });
}

// The tensor ranks have 15 and 16 rows of the table, about half of their elements.
TEST(Zero, TensorRanksHaveEqualBucketCounts) {
  testing::for_each_layout({{.tensor = 2, .sequence = true}}, [](const ProcessMesh& mesh) {
    Parameters parameters(testing::backend_device(), DType::f64, mesh, {.zero = 2});
    parameters.add("table", {31, 16}, 0, Initializer::constant(0), true);
    for (int i = 0; i < 16; ++i)
      parameters.add(fmt::format("vector{}", i), {16}, -1, Initializer::constant(0), false);
    parameters.allocate(Random(1));
    const auto buckets = std::ssize(parameters.buckets());
    EXPECT_EQ(mesh.world.all_reduce(buckets, Reduction::maximum), buckets);
  });
}

TEST(Zero, RanksSaveEachElementOnce) {
  testing::for_each_layout(
      {{},
       {.data = 2},
       {.data = 4},
       {.data = 2, .tensor = 2},
       {.context = 2},
       {.data = 2, .context = 2},
       {.tensor = 2, .sequence = true},
       {.data = 2, .tensor = 2, .sequence = true},
       {.context = 2, .tensor = 2, .sequence = true}},
      [](const ProcessMesh& mesh) {
        for (int zero = 0; zero <= 2; ++zero) {
          const Trainer trainer = make_trainer({.zero = zero}, mesh, testing::backend_device());
          TrainingState state;
          trainer.save(state, {.total = streams});
          std::int64_t owned = 0;
          for (const StateTensor& piece : state.tensors)
            if (piece.owned) owned += piece.tensor.elements();
          const std::int64_t elements = trainer.model().parameters().global_elements();
          EXPECT_EQ(mesh.world.all_reduce(owned, Reduction::sum), 3 * elements);
        }
      });
}

}  // namespace
}  // namespace longspan::zero_mesh_test
