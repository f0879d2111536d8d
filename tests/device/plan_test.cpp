// What a plan says a GPU will hold, against what the emulated one holds.
#include "framework/train/plan.h"

#include "tests/device/device_training.h"

namespace longspan {
namespace {

using namespace longspan::testing;

Settings settings_of(const MakeModel& make, DType compute) {
  Settings settings;
  settings.family = "test";
  settings.data.batch = streams;
  settings.data.segment = segment;
  settings.precision.compute = compute;
  settings.training.accumulation = 2;
  settings.make_model = make;
  return settings;
}

// Once its memory is full.
MemoryReport measured(const Settings& settings) {
  const Device device = Device::cuda();
  Trainer trainer(settings.make_model(model_setting(settings, vocabulary, {}, device)),
                  settings.training,
                  Random(1),
                  settings.precision);
  for (int step = 0; step < 4; ++step) trainer.step(batch_of(trainer));
  return device.allocator().report();
}

void expect_planned(const Settings& settings) {
  const MemoryReport plan = plan_step(settings, {}, vocabulary, Processor::gpu).memory;
  const MemoryReport truth = measured(settings);
  for (std::size_t tag = 0; tag < memory_tags; ++tag) {
    const auto wanted = static_cast<double>(truth.by_tag[tag].peak);
    EXPECT_NEAR(static_cast<double>(plan.by_tag[tag].peak), wanted, 0.02 * wanted)
        << name_of(static_cast<MemoryTag>(tag));
  }
  const auto total = static_cast<double>(truth.total.peak);
  EXPECT_NEAR(static_cast<double>(plan.total.peak), total, 0.02 * total);
  const auto reserved = static_cast<double>(truth.reserved);
  EXPECT_NEAR(static_cast<double>(plan.reserved), reserved, 0.05 * reserved);
}

void expect_all_planned(const MakeModel& make) {
  for (const DType compute : {DType::f64, DType::bf16}) {
    SCOPED_TRACE(name_of(compute));
    expect_planned(settings_of(make, compute));
  }
}

TEST(CudaPlan, OfADecoder) { expect_all_planned(plain_decoder()); }
TEST(CudaPlan, OfTransformerXl) { expect_all_planned(transformer_xl()); }
TEST(CudaPlan, OfAReversibleStackInPieces) { expect_all_planned(reversible_decoder()); }

}  // namespace
}  // namespace longspan
