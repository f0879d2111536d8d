// The meta device: no computation and no storage.
#include <gtest/gtest.h>

#include "framework/core/dispatch.h"
#include "framework/core/tensor.h"

namespace longspan::dry_device_test {
namespace {

TEST(MetaDevice, CountsTensorsLargerThanMemory) {
  const Device device = Device::meta();
  const std::int64_t terabytes = std::int64_t{8} << 40;
  {
    const Tensor large = Tensor::zeros({terabytes}, DType::u8, device);
    const Tensor copy = large.clone();
    EXPECT_EQ(device.allocator().report().total.live, 2 * terabytes);
  }
  EXPECT_EQ(device.allocator().report().total.live, 0);
  EXPECT_EQ(device.allocator().report().total.peak, 2 * terabytes);
  EXPECT_EQ(device.allocator().report().reserved, 2 * terabytes);
}

TEST(MetaDevice, MatchesCpuMemoryReport) {
  const Device meta = Device::meta(), cpu = Device::cpu();
  for (const Device& device : {meta, Device::meta(Processor::gpu), cpu}) {
    Tensor kept = Tensor::empty({1000, 7}, DType::f32, device, MemoryTag::activations);
    for (const std::int64_t rows : {10, 100000, 3})
      Tensor::zeros({rows, 5}, DType::bf16, device, MemoryTag::workspace);
    kept = kept.clone(MemoryTag::recurrent_state);
  }
  const MemoryReport found = meta.allocator().report(), expected = cpu.allocator().report();
  for (std::size_t tag = 0; tag < memory_tags; ++tag)
    EXPECT_EQ(found.by_tag[tag].peak, expected.by_tag[tag].peak);
  EXPECT_EQ(found.total.peak, expected.total.peak);
  EXPECT_EQ(found.reserved, expected.reserved);
  EXPECT_EQ(found.allocated, expected.allocated);
}

TEST(MetaDevice, SkipsKernelsExceptForScratchEstimates) {
  int calls = 0;
  on(Device::meta(), [&](auto) { ++calls; });
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(on(Device::meta(), [&](auto) { return ++calls; }), 0);
  dispatch_or_meta(Device::meta(), [&](auto backend) { calls += backend.state->is_meta(); });
  EXPECT_EQ(calls, 1);
  on(Device::cpu(), [&](auto) { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(MetaDevice, SupportsGpuWithoutHardware) {
  const Device device = Device::meta(Processor::gpu);
  EXPECT_TRUE(device.on_gpu());
  const Device host = device.host();
  EXPECT_FALSE(host.on_gpu());
  const Tensor there = Tensor::zeros({1000}, DType::f32, host).to(device);
  const Tensor copy = there.clone();
  EXPECT_EQ(copy.slice(0, 1).item(), 0);
  device.synchronize();
  dispatch_on_host(copy.device(), [] { FAIL() << "nothing is written by the host"; });
  const auto peak = [](const Device& where) { return where.allocator().report().total.peak; };
  EXPECT_EQ(peak(device), 2 * peak(host));
  dispatch_or_meta(device, [](auto backend) { EXPECT_TRUE(backend.state->is_meta()); });
#ifdef LONGSPAN_WITH_CUDA
  EXPECT_TRUE(on(device, [](auto backend) { return std::is_same_v<decltype(backend), Cuda>; }));
#else
  EXPECT_FALSE(on(device, [](auto) { return true; }));
#endif
}

TEST(MetaDevice, DoesNotExposeFreedHostValues) {
  const Device device = Device::meta();
  {
    const Tensor value = Tensor::empty({1}, DType::f64, device);
    *value.data<double>() = std::numeric_limits<double>::infinity();
  }
  EXPECT_EQ(*Tensor::empty({1}, DType::f64, device).data<double>(), 0);
}

TEST(MetaDevice, RejectsSizesAboveAddressSpace) {
  EXPECT_THROW(Tensor::empty({std::int64_t{1} << 50}, DType::u8, Device::meta()),
               ConfigurationError);
}

}  // namespace
}  // namespace longspan::dry_device_test
