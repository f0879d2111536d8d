#include "framework/kernels/attention/shared/key_weights.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/element.h"

namespace longspan {
namespace {

// Calls f(i) for every i below count, each with a cost in elements.
template <typename F>
void each(Cuda cuda, std::int64_t count, std::int64_t, const F& f) {
  for_each_element(cuda, count, f);
}

}  // namespace

void mask_keys(Cuda cuda, const KeyPaddingMask& hidden) {
  check(hidden);
  with_accumulator_type(hidden.log_weight.dtype(), [&]<typename A>(TypeTag<A>) {
    each(cuda, hidden.log_weight.elements(), 1, HideKey<A>(hidden));
  });
}

void weigh_shifted(Cuda cuda, const ShiftedKeys& keys) {
  check(keys);
  const Shape& shape = keys.shift.shape();
  with_accumulator_type(keys.shift.dtype(), [&]<typename A>(TypeTag<A>) {
    each(cuda, std::ssize(keys.parts) * shape[0] * shape[2], shape[1], WeighShifted<A>(keys));
  });
}

void max_shifts(Cuda cuda, const Tensor& shift, const Ranges& parts, const Tensor& tops) {
  with_accumulator_type(shift.dtype(), [&]<typename A>(TypeTag<A>) {
    each(cuda,
         tops.elements(),
         shift.shape()[1],
         LargestShift<A>{ShiftRows<A>(shift, parts), tops.data<A>()});
  });
}

void scan_tops(Cuda cuda, const TopScan& scan) {
  const Shape& shape = scan.tops.shape();
  const std::int64_t count = shape[1] * shape[2];
  const Tensor sums =
      scan.last.defined()
          ? scan.last
          : Tensor::empty(
                {shape[1], shape[2]}, scan.tops.dtype(), scan.tops.device(), MemoryTag::workspace);
  with_accumulator_type(scan.tops.dtype(), [&]<typename A>(TypeTag<A>) {
    if (scan.first.defined())
      sums.copy_from(scan.first);
    else
      each(cuda, count, 1, Nothing<A>{sums.data<A>()});
    for (const std::int64_t part : scan.order)
      each(cuda, count, 1, ScanTop<A>{count, part, scan.tops.data<A>(), sums.data<A>()});
  });
}

void gate_logs(Cuda cuda, const GateLogs& call) {
  require_as_many("gate_logs", call.gate, call.decay);
  require_as_many("gate_logs", call.gate, call.log_weight);
  with_floating_type(call.gate.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    each(cuda,
         call.gate.elements(),
         1,
         GateLog<T>{call.gate.data<T>(), call.decay.data<A>(), call.log_weight.data<A>()});
  });
}

void gate_logs_backward(Cuda cuda, const GateLogsGradient& call) {
  require_as_many("gate_logs_backward", call.gate, call.dgate);
  with_floating_type(call.gate.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    each(cuda,
         call.gate.elements(),
         1,
         GateGradient<T>{call.gate.data<T>(),
                         call.ddecay.data<A>(),
                         call.dlog_weight.data<A>(),
                         call.dgate.data<T>()});
  });
}

}  // namespace longspan
