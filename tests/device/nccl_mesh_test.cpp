// Training on several GPUs with NCCL matches training on one CPU.
// The emulated devices compute while a collective is in progress.
#include "framework/distributed/gpu_collectives.h"
#include "tests/models/layouts_testing.h"

namespace longspan::nccl_mesh_test {
namespace {

using testing::Case;
using testing::expect_same_training;
using testing::train;
using testing::Trained;

Case small_case() {
  Case c;
  c.name = "decoder";
  c.make = [](const ModelBuildOptions& setting) {
    DecoderOptions options;
    options.common = testing::dropped_options(NormPosition::pre);
    options.common.layers = 1;
    return make_decoder(options, setting);
  };
  c.steps = 2;
  c.device = testing::cpu_device();
  return c;
}

void expect_same_by_nccl(const Case& c, const MeshShape& layout) {
  const Trained expected = train(c, ProcessMesh());
  testing::for_each_layout({layout}, [&](const ProcessMesh& mesh) {
    Case on_gpus = c;
    on_gpus.device = Device::cuda();
    const GpuCollectives collectives(GpuTransport::nccl, mesh, *on_gpus.device);
    expect_same_training(on_gpus, expected, mesh);
  });
}

TEST(NcclTraining, DataParallelMatchesCpu) { expect_same_by_nccl(small_case(), {.data = 2}); }

TEST(NcclTraining, ShardedGradientsMatchCpu) {
  Case c = small_case();
  c.zero = 2;
  c.accumulation = 2;
  expect_same_by_nccl(c, {.data = 2});
}

TEST(NcclTraining, RingAttentionMatchesCpu) {
  Case c = small_case();
  c.streams = 1;
  c.steps = 1;
  expect_same_by_nccl(c, {.context = 2});
}

TEST(NcclTraining, SequenceParallelMatchesCpu) {
  expect_same_by_nccl(small_case(), {.tensor = 2, .sequence = true});
}

}  // namespace
}  // namespace longspan::nccl_mesh_test
