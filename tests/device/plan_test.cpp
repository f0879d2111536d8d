// GPU memory as planned against memory of the emulated GPU.
#include "framework/planning/plan.h"

#include "framework/kernels/cuda/cublaslt_gemm.h"
#include "tests/device/device_training.h"

namespace longspan::plan_test {
namespace {

using namespace longspan::testing;

RunConfig settings_of(const DeviceModel& model, DType compute) {
  RunConfig settings;
  settings.family = "test";
  settings.data.batch = streams;
  settings.data.segment = segment;
  settings.precision.compute = compute;
  settings.training.accumulation = 2;
  settings.body = model.body;
  settings.memory = model.memory;
  return settings;
}

// After 3 steps: the Transformer-XL memory is full.
MemoryReport measured(const RunConfig& settings) {
  const Device device = Device::cuda();
  Trainer trainer(settings.make_model(model_setting(settings, vocabulary, {}, device)),
                  settings.training,
                  Random(1),
                  settings.precision);
  for (int step = 0; step < 3; ++step) trainer.step(batch_of(trainer));
  return device.allocator().report();
}

void expect_planned(const RunConfig& settings) {
  const MemoryReport plan = plan_step(settings, {}, vocabulary, Processor::gpu).memory;
  const MemoryReport truth = measured(settings);
  // Excludes the workspace of products, which is much larger than the rest.
  constexpr double workspace = product_workspace_bytes;
  const auto expect_near = [](std::int64_t found, std::int64_t expected, double without) {
    const double rest = static_cast<double>(expected) - without;
    EXPECT_NEAR(static_cast<double>(found) - without, rest, 0.02 * rest);
  };
  for (std::size_t i = 0; i < memory_tags; ++i) {
    const auto tag = static_cast<MemoryTag>(i);
    SCOPED_TRACE(name_of(tag));
    expect_near(
        plan.by_tag[i].peak, truth.by_tag[i].peak, tag == MemoryTag::workspace ? workspace : 0);
  }
  expect_near(plan.total.peak, truth.total.peak, workspace);
  expect_near(plan.reserved, truth.reserved, workspace);
}

TEST(CudaPlan, MatchesDecoderMemory) { expect_planned(settings_of(plain_decoder(), DType::f64)); }

TEST(CudaPlan, MatchesTransformerXlMemory) {
  expect_planned(settings_of(transformer_xl(), DType::bf16));
}

TEST(CudaPlan, MatchesReversibleDecoderMemory) {
  expect_planned(settings_of(reversible_decoder(), DType::bf16));
}

}  // namespace
}  // namespace longspan::plan_test
