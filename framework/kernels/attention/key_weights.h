// Logarithms of the weights of linear attention's keys: [batch, keys, heads] in f32 or f64.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/range.h"
#include "framework/core/tensor.h"

namespace longspan {

// Largest number of ranges of KeyPaddingMask::positions and ShiftedKeys::parts, both of one rank.
inline constexpr std::int64_t max_key_ranges = 16;

// Sets log_weight to -inf at padding keys. padding: [batch, positions] u8, 1: the key is padding.
// length: [batch] i64, keys at that position and after are padding. Either may be undefined.
// positions: positions of the keys, as ranges.
struct KeyPaddingMask {
  Tensor padding = {};
  Tensor length = {};
  Ranges positions;
  Tensor log_weight;
};
void mask_keys(Cpu, const KeyPaddingMask&);
void mask_keys(Cuda, const KeyPaddingMask&);

// Weights of keys whose features are scaled by exp(-shift), with one shift for each key, -inf at
// hidden keys. If causal, they are weighted relative to the running maximum of the shift, and the
// state decays when that grows. No result for a query then depends on a later key:
//   top_j = max(before, shift of the part's keys up to j)
//   log_weight_j = shift_j - top_j, decay_j = top_(j-1) - top_j
// Otherwise they are weighted relative to `before`, which is then the global maximum. shift,
// log_weight and, if causal, decay: [batch, keys, heads]. before: [parts, batch, heads], or [1,
// ...] if not causal; undefined: -inf. All in one dtype, f32 or f64.
struct ShiftedKeys {
  Tensor shift;
  bool causal = true;
  Ranges parts;  // ranges of rows, in time order
  Tensor before = {};
  Tensor log_weight;
  Tensor decay = {};
};
void weigh_shifted(Cpu, const ShiftedKeys&);
void weigh_shifted(Cuda, const ShiftedKeys&);

// tops[p] = the largest shift of part p, -inf if it is empty. tops: [parts, batch, heads].
void max_shifts(Cpu, const Tensor& shift, const Ranges& parts, const Tensor& tops);
void max_shifts(Cuda, const Tensor& shift, const Ranges& parts, const Tensor& tops);

// Exclusive scan in place: tops[p] = the maximum of `first` and of the preceding tops in time
// order. tops: [parts, batch, heads]; first, last: [batch, heads] or undefined. Overwrites last
// with the total.
struct TopScan {
  Tensor tops;
  std::vector<std::int64_t> order;
  Tensor first = {};
  Tensor last = {};
};
void scan_tops(Cpu, const TopScan&);
void scan_tops(Cuda, const TopScan&);

// log_decay = log sigmoid(gate), log_weight = log(1 - sigmoid(gate)): the retained fraction of the
// state and the weight of the new key (random feature attention, Peng et al. 2021). gate: any
// floating dtype; the outputs have as many elements, in its accumulator dtype.
struct GateLogs {
  Tensor gate;
  Tensor decay;
  Tensor log_weight;
};
void gate_logs(Cpu, const GateLogs&);
void gate_logs(Cuda, const GateLogs&);
// Overwrites the gradient of the gate, from ddecay and dlog_weight.
struct GateLogsGradient {
  Tensor gate;
  Tensor ddecay;
  Tensor dlog_weight;
  Tensor dgate;
};
void gate_logs_backward(Cpu, const GateLogsGradient&);
void gate_logs_backward(Cuda, const GateLogsGradient&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const KeyPaddingMask&);
void check(const ShiftedKeys&);

}  // namespace longspan
