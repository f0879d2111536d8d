#include "tests/benchmarks/support/bench_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "framework/core/dispatch.h"
#include "framework/core/random.h"
#include "framework/kernels/matmul.h"
#include "framework/training_loop/run_device.h"

#ifdef LONGSPAN_WITH_CUDA
#include <cuda_runtime.h>
#endif

namespace longspan::bench {
namespace {

#ifdef LONGSPAN_WITH_CUDA
void check(cudaError_t status) {
  require(status == cudaSuccess, "CUDA: {}", cudaGetErrorString(status));
}

class Event {
 public:
  Event() { check(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  void record(cudaStream_t stream) const { check(cudaEventRecord(event_, stream)); }
  double seconds_until(const Event& later) const {
    check(cudaEventSynchronize(later.event_));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, event_, later.event_));
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

double gpu_seconds(const Device& device, const std::function<void()>& call) {
  device.state().cuda();  // events belong to the selected GPU
  const Event begin, end;
  const auto hold = [](void*) { std::this_thread::sleep_for(std::chrono::microseconds(500)); };
  check(cudaLaunchHostFunc(device.state().stream(), hold, nullptr));
  begin.record(device.state().stream());
  call();
  end.record(device.state().stream());
  return begin.seconds_until(end);
}
#endif

}  // namespace

Device device_from(int& count, char** words, int local_rank) {
  for (int i = 1; i + 1 < count; ++i) {
    if (std::strcmp(words[i], "--device") != 0) continue;
    const std::string_view name = words[i + 1];
    if (name != "cpu" && name != "cuda")
      throw ConfigurationError("--device is \"{}\"; allowed: cpu, cuda", name);
    std::copy(words + i + 2, words + count, words + i);
    count -= 2;
    RunOptions run;
    run.device = name == "cuda" ? DeviceChoice::cuda : DeviceChoice::cpu;
    return run_device(run, {}, Communicator(), local_rank);
  }
  return Device::cpu();
}

Tensor random_tensor(const Shape& shape, DType dtype, const Device& device, const char* name) {
  const Tensor result = Tensor::empty(shape, dtype, Device::cpu());
  const Random random = Random(1).child(name);
  with_floating_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const values = result.data<T>();
#pragma omp parallel for
    for (std::int64_t i = 0; i < result.elements(); ++i)
      values[i] = static_cast<T>(random.uniform_at(static_cast<std::uint64_t>(i)) - 0.5f);
  });
  return result.to(device);
}

double seconds(const Device& device, const std::function<void()>& call) {
#ifdef LONGSPAN_WITH_CUDA
  if (device.on_gpu()) return gpu_seconds(device, call);
#endif
  return wall_seconds(device, call);
}

double wall_seconds(const Device& device, const std::function<void()>& call) {
  device.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  call();
  device.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Times times(const Device& device, int calls, const std::function<void()>& call) {
  for (int i = 0; i < std::max(2, calls / 10); ++i) call();
  device.synchronize();
  std::vector<double> all;
  for (int i = 0; i < calls; ++i) all.push_back(seconds(device, call));
  std::ranges::sort(all);
  return {all.front(), all[all.size() / 2]};
}

double product_peak(const Device& device, DType dtype) {
  const std::int64_t side = device.on_gpu() ? 8192 : 1024;
  const Matmul product = {.a = random_tensor({side, side}, dtype, device, "a"),
                          .b = random_tensor({side, side}, dtype, device, "b"),
                          .c = Tensor::empty({side, side}, dtype, device)};
  const int row = device.on_gpu() ? 10 : 1;
  const auto multiply = [&] {
    for (int i = 0; i < row; ++i) on(device, [&](auto backend) { matmul(backend, product); });
  };
  for (double warm = 0; device.on_gpu() && warm < 0.5;) warm += wall_seconds(device, multiply);
  const Times found = times(device, device.on_gpu() ? 10 : 30, multiply);
  return 2.0 * row * static_cast<double>(side * side * side) / found.best;
}

void figure(const std::string& name, double value) {
  const char* const asked = std::getenv("LONGSPAN_HOPPER_WGMMA");
  const bool warp_groups = asked != nullptr && std::strcmp(asked, "1") == 0;
  std::fflush(stdout);
  fmt::print(stderr, "metric {}{} {:.4f}\n", warp_groups ? "hopper-wgmma/" : "", name, value);
}

}  // namespace longspan::bench
