// Weights of keys: padding, shifted keys, gates.
#include "framework/kernels/attention/key_weights.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "framework/core/host_device.h"
#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

template <typename A>
struct HideKey {
  std::int64_t keys, heads, positions;
  const std::uint8_t* padding;
  const std::int64_t* length;
  A* log_weight;
  std::int64_t ranges;
  Range range[max_key_ranges];

  explicit HideKey(const KeyPaddingMask& hidden)
      : keys(hidden.log_weight.shape()[1]),
        heads(hidden.log_weight.shape()[2]),
        positions(hidden.padding.defined() ? hidden.padding.shape()[1] : 0),
        padding(hidden.padding.defined() ? hidden.padding.data<std::uint8_t>() : nullptr),
        length(hidden.length.defined() ? hidden.length.data<std::int64_t>() : nullptr),
        log_weight(hidden.log_weight.data<A>()),
        ranges(std::ssize(hidden.positions)) {
    std::ranges::copy(hidden.positions, range);
  }

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t b = i / (keys * heads);
    std::int64_t row = i / heads % keys, r = 0;
    while (r + 1 < ranges && row >= range[r].end - range[r].begin) {
      row -= range[r].end - range[r].begin;
      ++r;
    }
    const std::int64_t position = range[r].begin + row;
    const bool hidden = (length != nullptr && position >= length[b]) ||
                        (padding != nullptr && padding[b * positions + position] != 0);
    if (hidden) log_weight[i] = -std::numeric_limits<A>::infinity();
  }
};

// Element i is a part of a head of a batch row: [parts, batch, heads].
template <typename A>
struct ShiftRows {
  std::int64_t batch, keys, heads;
  const A* shift;
  Range part[max_key_ranges] = {};

  ShiftRows(const Tensor& shifts, const Ranges& parts)
      : batch(shifts.shape()[0]),
        keys(shifts.shape()[1]),
        heads(shifts.shape()[2]),
        shift(shifts.data<A>()) {
    std::ranges::copy(parts, part);
  }
  LONGSPAN_HOST_DEVICE const Range& rows(std::int64_t i) const { return part[i / (batch * heads)]; }
  LONGSPAN_HOST_DEVICE std::int64_t place(std::int64_t i, std::int64_t row) const {
    return (i / heads % batch * keys + row) * heads + i % heads;
  }
};

template <typename A>
constexpr A no_shift = -std::numeric_limits<A>::infinity();

template <typename A>
struct WeighShifted {
  ShiftRows<A> rows;
  const A* before;
  A *log_weight, *decay;
  bool causal;

  explicit WeighShifted(const ShiftedKeys& keys)
      : rows(keys.shift, keys.parts),
        before(keys.before.defined() ? keys.before.data<A>() : nullptr),
        log_weight(keys.log_weight.data<A>()),
        decay(keys.decay.defined() ? keys.decay.data<A>() : nullptr),
        causal(keys.causal) {}

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t heads = rows.batch * rows.heads;
    A top = before == nullptr ? no_shift<A> : before[causal ? i : i % heads];
    for (std::int64_t row = rows.rows(i).begin; row < rows.rows(i).end; ++row) {
      const std::int64_t place = rows.place(i, row);
      const A shift = rows.shift[place], larger = shift > top ? shift : top;
      log_weight[place] = shift == no_shift<A> ? shift : shift - larger;
      if (decay != nullptr) decay[place] = top == no_shift<A> ? A{0} : top - larger;
      top = causal ? larger : top;
    }
  }
};

template <typename A>
struct LargestShift {
  ShiftRows<A> rows;
  A* tops;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    A top = no_shift<A>;
    for (std::int64_t row = rows.rows(i).begin; row < rows.rows(i).end; ++row) {
      const A shift = rows.shift[rows.place(i, row)];
      top = shift > top ? shift : top;
    }
    tops[i] = top;
  }
};

template <typename A>
struct Nothing {
  A* tops;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const { tops[i] = no_shift<A>; }
};

template <typename A>
struct ScanTop {
  std::int64_t count, part;
  A *tops, *sums;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    A& top = tops[part * count + i];
    const A own = top;
    top = sums[i];
    sums[i] = own > sums[i] ? own : sums[i];
  }
};

template <typename T>
struct GateLog {
  using A = Accumulator<T>;
  const T* gate;
  A *decay, *log_weight;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    decay[i] = -softplus(-wide(gate[i]));
    log_weight[i] = -softplus(wide(gate[i]));
  }
};

template <typename T>
struct GateGradient {
  using A = Accumulator<T>;
  const T* gate;
  const A *ddecay, *dlog_weight;
  T* dgate;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const A kept = sigmoid(wide(gate[i]));
    put(dgate[i], ddecay[i] * (1 - kept) - dlog_weight[i] * kept);
  }
};

}  // namespace

void mask_keys(Backend backend, const KeyPaddingMask& hidden) {
  check(hidden);
  with_accumulator_type(hidden.log_weight.dtype(), [&]<typename A>(TypeTag<A>) {
    parallel_rows(backend, hidden.log_weight.elements(), 1, HideKey<A>(hidden));
  });
}

void weigh_shifted(Backend backend, const ShiftedKeys& keys) {
  check(keys);
  const Shape& shape = keys.shift.shape();
  with_accumulator_type(keys.shift.dtype(), [&]<typename A>(TypeTag<A>) {
    parallel_rows(
        backend, std::ssize(keys.parts) * shape[0] * shape[2], shape[1], WeighShifted<A>(keys));
  });
}

void max_shifts(Backend backend, const Tensor& shift, const Ranges& parts, const Tensor& tops) {
  with_accumulator_type(shift.dtype(), [&]<typename A>(TypeTag<A>) {
    parallel_rows(backend,
                  tops.elements(),
                  shift.shape()[1],
                  LargestShift<A>{ShiftRows<A>(shift, parts), tops.data<A>()});
  });
}

void scan_tops(Backend backend, const TopScan& scan) {
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
      parallel_rows(backend, count, 1, Nothing<A>{sums.data<A>()});
    for (const std::int64_t part : scan.order)
      parallel_rows(
          backend, count, 1, ScanTop<A>{count, part, scan.tops.data<A>(), sums.data<A>()});
  });
}

void gate_logs(Backend backend, const GateLogs& call) {
  require_as_many("gate_logs", call.gate, call.decay);
  require_as_many("gate_logs", call.gate, call.log_weight);
  with_floating_type(call.gate.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    parallel_rows(backend,
                  call.gate.elements(),
                  1,
                  GateLog<T>{call.gate.data<T>(), call.decay.data<A>(), call.log_weight.data<A>()});
  });
}

void gate_logs_backward(Backend backend, const GateLogsGradient& call) {
  require_as_many("gate_logs_backward", call.gate, call.dgate);
  with_floating_type(call.gate.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    parallel_rows(backend,
                  call.gate.elements(),
                  1,
                  GateGradient<T>{call.gate.data<T>(),
                                  call.ddecay.data<A>(),
                                  call.dlog_weight.data<A>(),
                                  call.dgate.data<T>()});
  });
}

}  // namespace longspan
