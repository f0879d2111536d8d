// What keys of linear attention weigh, by their logarithms: [batch, keys, heads] in f32 or f64.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/range.h"
#include "framework/core/tensor.h"

namespace longspan {

// log_weight becomes -inf at keys that are padding. padding: [batch, positions] u8, 1: the key is
// padding; length: [batch] i64, keys at that position and after are. Each may be undefined.
// positions: where the keys stand, range by range.
struct KeyPaddingMask {
  Tensor padding = {};
  Tensor length = {};
  Ranges positions;
  Tensor log_weight;
};
void mask_keys(Cpu, const KeyPaddingMask&);
void mask_keys(Cuda, const KeyPaddingMask&);

// Keys whose features are exp(-shift) of what they should be, a number for each that is -inf at
// hidden ones. Causal, they are weighed against the largest shift so far, and what came before
// decays where it grows, so that nothing that is computed for a query depends on a later key:
//   top_j = max(before, shift of the part's keys up to j)
//   log_weight_j = shift_j - top_j, decay_j = top_(j-1) - top_j
// Otherwise against `before`, which is then the largest of all. shift, log_weight and, where
// causal, decay: [batch, keys, heads]; before: [parts, batch, heads], or, where not causal, [1,
// ...]; undefined: -inf. All in one dtype, f32 or f64.
struct ShiftedKeys {
  Tensor shift;
  bool causal = true;
  Ranges parts;  // of the rows, in the order of time
  Tensor before = {};
  Tensor log_weight;
  Tensor decay = {};
};
void weigh_shifted(Cpu, const ShiftedKeys&);
void weigh_shifted(Cuda, const ShiftedKeys&);

// tops[p] = the largest shift of part p, -inf of none. tops: [parts, batch, heads].
void largest_shifts(Cpu, const Tensor& shift, const Ranges& parts, const Tensor& tops);
void largest_shifts(Cuda, const Tensor& shift, const Ranges& parts, const Tensor& tops);

// In place: tops[p] = the largest of `first` and of the tops before it in the order of time. tops:
// [parts, batch, heads]; first, last: [batch, heads] or undefined; last is written.
struct TopScan {
  Tensor tops;
  std::vector<std::int64_t> order;
  Tensor first = {};
  Tensor last = {};
};
void scan_tops(Cpu, const TopScan&);
void scan_tops(Cuda, const TopScan&);

// log_decay = log sigmoid(gate), log_weight = log(1 - sigmoid(gate)): what a gate leaves of what
// came before, and what it takes of what is new (random feature attention, Peng et al. 2021). gate:
// any floating dtype; the others as many elements of its accumulator dtype.
struct GateLogs {
  Tensor gate;
  Tensor decay;
  Tensor log_weight;
};
void gate_logs(Cpu, const GateLogs&);
void gate_logs(Cuda, const GateLogs&);
// Of ddecay and dlog_weight, which are read, the gradient of the gate, which is written.
struct GateLogsGradient {
  Tensor gate;
  Tensor ddecay;
  Tensor dlog_weight;
  Tensor dgate;
};
void gate_logs_backward(Cpu, const GateLogsGradient&);
void gate_logs_backward(Cuda, const GateLogsGradient&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const KeyPaddingMask&);
void check(const ShiftedKeys&);

}  // namespace longspan
