#include "framework/kernels/attention/shared/key_weights.h"

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/element.h"

namespace longspan {
namespace {

// Calls f(i) for every i below count, each with a cost in elements.
template <typename F>
void each(std::int64_t count, std::int64_t elements, const F& f) {
  for_ranges(count, elements, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

}  // namespace

void mask_keys(Cpu, const KeyPaddingMask& hidden) {
  check(hidden);
  with_accumulator_type(hidden.log_weight.dtype(), [&]<typename A>(TypeTag<A>) {
    each(hidden.log_weight.elements(), 1, HideKey<A>(hidden));
  });
}

void weigh_shifted(Cpu, const ShiftedKeys& keys) {
  check(keys);
  const Shape& shape = keys.shift.shape();
  with_accumulator_type(keys.shift.dtype(), [&]<typename A>(TypeTag<A>) {
    each(std::ssize(keys.parts) * shape[0] * shape[2], shape[1], WeighShifted<A>(keys));
  });
}

void max_shifts(Cpu, const Tensor& shift, const Ranges& parts, const Tensor& tops) {
  with_accumulator_type(shift.dtype(), [&]<typename A>(TypeTag<A>) {
    each(tops.elements(),
         shift.shape()[1],
         LargestShift<A>{ShiftRows<A>(shift, parts), tops.data<A>()});
  });
}

void scan_tops(Cpu, const TopScan& scan) {
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
      each(count, 1, Nothing<A>{sums.data<A>()});
    for (const std::int64_t part : scan.order)
      each(count, 1, ScanTop<A>{count, part, scan.tops.data<A>(), sums.data<A>()});
  });
}

void gate_logs(Cpu, const GateLogs& call) {
  require_as_many("gate_logs", call.gate, call.decay);
  require_as_many("gate_logs", call.gate, call.log_weight);
  with_floating_type(call.gate.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    each(call.gate.elements(),
         1,
         GateLog<T>{call.gate.data<T>(), call.decay.data<A>(), call.log_weight.data<A>()});
  });
}

void gate_logs_backward(Cpu, const GateLogsGradient& call) {
  require_as_many("gate_logs_backward", call.gate, call.dgate);
  with_floating_type(call.gate.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    each(call.gate.elements(),
         1,
         GateGradient<T>{call.gate.data<T>(),
                         call.ddecay.data<A>(),
                         call.dlog_weight.data<A>(),
                         call.dgate.data<T>()});
  });
}

}  // namespace longspan
