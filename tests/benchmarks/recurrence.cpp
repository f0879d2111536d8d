// Gated linear recurrences: FLOP/s of the forward and backward pass against the peak of matrix
// products measured in the same run. One sequence of 4,096 tokens, 4 heads, f32. The FLOPs are
// those needed, without those for the states that the backward pass computes again.
//   benchmark_recurrence [--device cuda]      OMP_NUM_THREADS: number of cores
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "framework/core/dispatch.h"
#include "framework/kernels/attention/gated_recurrence.h"
#include "framework/kernels/elementwise.h"
#include "tests/benchmarks/support/bench_device.h"

namespace longspan {
namespace {

enum class Gates { head, channel, delta_head, delta_channel, given };

const char* name_of(Gates gates) {
  if (gates == Gates::head) return "decay of each head";
  if (gates == Gates::channel) return "decay of each channel";
  if (gates == Gates::given) return "a and b, decay of each channel";
  return gates == Gates::delta_head ? "delta rule, decay of each head"
                                    : "delta rule, decay of each channel";
}

GatedRecurrenceGradient make(std::int64_t dim, Gates gates, const Device& device) {
  constexpr std::int64_t time = 4096, heads = 4;
  const Shape rows = {1, time, heads, dim}, by_head = {1, time, heads};
  const auto random = [&](const Shape& shape, const char* name, double factor) {
    const Tensor x = bench::random_tensor(shape, DType::f32, device, name);
    on(device, [&](auto backend) { scale(backend, factor, x, x); });
    return x;
  };
  const auto constant = [&](const Shape& shape, float value) {
    const std::vector<float> values(static_cast<std::size_t>(shape.elements()), value);
    return Tensor::from<float>(values, shape, device);
  };
  const bool by_channel = gates != Gates::head && gates != Gates::delta_head;
  const bool corrects = gates == Gates::delta_head || gates == Gates::delta_channel;
  const double unit = std::sqrt(12.0 / static_cast<double>(dim));  // keys of length 1
  GatedRecurrence call = {.query = random(rows, "query", 1),
                          .key = random(rows, "key", unit),
                          .value = random(rows, "value", 1),
                          .log_decay = constant(by_channel ? rows : by_head, -0.02F)};
  if (corrects) call.beta = constant(by_head, 0.5F);
  if (gates == Gates::given) {
    call.a = call.key.clone();
    call.b = call.key.clone();
    on(device, [&](auto backend) {
      scale(backend, -1, call.a, call.a);
      scale(backend, 0.5, call.b, call.b);
    });
  }
  call.out = call.value.empty_like();
  call.checkpoints = Tensor::empty({call.segments(), 1, heads, dim, dim}, DType::f32, device);
  GatedRecurrenceGradient result = {.forward = call,
                                    .dout = random(rows, "dout", 1),
                                    .dquery = call.query.empty_like(),
                                    .dkey = call.key.empty_like(),
                                    .dvalue = call.value.empty_like()};
  result.dlog_decay = call.log_decay.empty_like();
  if (call.beta.defined()) result.dbeta = call.beta.empty_like();
  if (call.a.defined()) result.da = call.a.empty_like();
  if (call.b.defined()) result.db = call.b.empty_like();
  return result;
}

void measure(std::int64_t dim, Gates gates, const Device& device) {
  const GatedRecurrenceGradient call = make(dim, gates, device);
  const double peak = bench::product_peak(device, DType::f32);
  const double forward =
      bench::times(device, 5, [&] {
        on(device, [&](auto backend) { gated_recurrence(backend, call.forward); });
      }).best;
  const double backward =
      bench::times(device, 5, [&] {
        on(device, [&](auto backend) { gated_recurrence_backward(backend, call); });
      }).best;
  const double needed = gated_recurrence_flops(call.forward).needed;
  const double both = needed + gated_recurrence_backward_flops(call.forward).needed;
  fmt::print(
      "K = V = {:>3}, {}: forward {:.2f}, forward and backward {:.2f} of {:.0f} GFLOP/s, {:.1f} "
      "ms\n",
      dim,
      name_of(gates),
      needed / forward / peak,
      both / (forward + backward) / peak,
      1e-9 * peak,
      1e3 * (forward + backward));
}

}  // namespace
}  // namespace longspan

int main(int count, char** words) {
  using namespace longspan;
  const Device device = bench::device_from(count, words);
  for (const std::int64_t dim : {64, 128})
    for (const Gates gates :
         {Gates::head, Gates::channel, Gates::delta_head, Gates::delta_channel, Gates::given})
      measure(dim, gates, device);
  return 0;
}
