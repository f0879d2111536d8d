// A GPU device, whose memory the host cannot read; emulated.
#include "framework/core/device.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "framework/core/allocator.h"
#include "framework/core/gpu.h"
#include "framework/core/tensor.h"

namespace longspan::device_test {
namespace {

std::vector<double> values_of(const Tensor& tensor) {
  const Tensor here = tensor.to_host();
  return {here.span<double>().begin(), here.span<double>().end()};
}

Tensor numbers(const Device& device) {
  return Tensor::from<double>(std::vector<double>{1, 2, 3, 4, 5, 6}, {3, 2}, device);
}

TEST(CudaDevice, TensorsRoundTripBetweenDevices) {
  const Device gpu = Device::cuda();
  const Tensor there = numbers(gpu);
  EXPECT_EQ(values_of(there), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values_of(there.slice(1, 2).clone()), (std::vector<double>{3, 4}));
  EXPECT_EQ(values_of(numbers(Device::cpu()).to(gpu).slice(2, 3)), (std::vector<double>{5, 6}));
  EXPECT_TRUE(there.to(gpu).bytes() == there.bytes());
  there.slice(0, 1).copy_from(there.slice(2, 3));
  EXPECT_EQ(values_of(there), (std::vector<double>{5, 6, 3, 4, 5, 6}));
  // Another device of the same GPU has its own stream.
  EXPECT_EQ(values_of(there.to(Device::cuda())), (std::vector<double>{5, 6, 3, 4, 5, 6}));
  there.slice(1, 3).zero();
  EXPECT_EQ(values_of(there), (std::vector<double>{5, 6, 0, 0, 0, 0}));
  EXPECT_EQ(Tensor::scalar(2.5, DType::bf16, gpu).item(), 2.5);
}

TEST(CudaDevice, ToHostReturnsHostTensors) {
  const Device gpu = Device::cuda(), cpu = Device::cpu();
  EXPECT_FALSE(gpu.host().on_gpu());
  EXPECT_TRUE(gpu.host() == gpu.host());
  EXPECT_TRUE(cpu.host() == cpu);
  const Tensor tensor = numbers(cpu);
  EXPECT_TRUE(tensor.to_host().bytes() == tensor.bytes());
}

TEST(CudaDeviceDeath, HostReadCrashes) {
  const Tensor there = numbers(Device::cuda());
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile double*>(there.data<double>())), "");
}

TEST(CudaDevice, NewMemoryContainsNan) {
  for (const double value : values_of(Tensor::empty({5}, DType::f64, Device::cuda())))
    EXPECT_TRUE(std::isnan(value));
}

TEST(CudaDevice, ReleasesOnlyNeededCachedMemory) {
  const Device gpu = Device::cuda();
  const std::size_t free = gpu::memory_bytes(0).free;
  const auto unit = static_cast<std::int64_t>(std::bit_floor(free)) / 32;
  const auto take = [&](std::int64_t bytes, MemoryTag tag = MemoryTag::workspace) {
    return Tensor::empty({bytes}, DType::u8, gpu, tag);
  };
  const auto reserved = [&] { return gpu.allocator().report().reserved; };
  const std::int64_t rest = static_cast<std::int64_t>(free) - 17 * unit;
  const Tensor others = take(rest, MemoryTag::weights), used = take(5 * unit);
  const std::int64_t before = reserved();
  { const Tensor large = take(5 * unit), small = take(2 * unit); }
  EXPECT_EQ(reserved() - before, 7 * unit);
  const Tensor larger = take(6 * unit);
  EXPECT_EQ(reserved() - before, 8 * unit) << "the small one is still there";
  EXPECT_THROW(take(12 * unit), OutOfMemory);
}

TEST(CudaDevice, CountsMemorySeparatelyFromHost) {
  const Device gpu = Device::cuda();
  const Tensor there = Tensor::empty({1000}, DType::f64, gpu, MemoryTag::weights);
  const auto live = [](const Device& device, MemoryTag tag) {
    return device.allocator().report().by_tag[static_cast<std::size_t>(tag)].live;
  };
  EXPECT_EQ(live(gpu, MemoryTag::weights), 8000);
  EXPECT_EQ(live(gpu.host(), MemoryTag::workspace), 0);
  const Tensor here = there.to_host();
  EXPECT_GE(live(gpu.host(), MemoryTag::workspace), 8000);
  EXPECT_EQ(gpu.allocator().report().total.live, 8000);
}

template <typename F>
std::string failure_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CudaDevice, ReportsUsageIfMemoryRunsOut) {
  const Device gpu = Device::cuda();
  const Tensor held = Tensor::empty({1 << 20}, DType::u8, gpu, MemoryTag::gradients);
  EXPECT_EQ(failure_of([&] {
              Tensor::empty({std::int64_t{1} << 40}, DType::u8, gpu, MemoryTag::optimizer);
            }),
            "out of GPU memory: 1099.51 GB requested for optimizer, already allocated: gradients "
            "1.0 MB");
}

TEST(CudaDevice, RejectsMissingGpu) {
  EXPECT_EQ(
      failure_of([] { Device::cuda(1); }),
      "no such GPU: 1; this machine has 1 with compute capability 8.0 or newer and 160 KiB of "
      "shared memory per block");
}

}  // namespace
}  // namespace longspan::device_test
