// One vector for each row of a batch.
#pragma once

#include <optional>
#include <vector>

#include "framework/modeling/label_readout_options.h"
#include "framework/nn/layers.h"

namespace longspan {

// A value. What classification_head.h says of the kinds.
class Pooler {
 public:
  Pooler(const Scope& scope, Pooling kind, std::int64_t width, const Initializer& initial);

  // x: [rows, time, width] of the positions that `time` gives this rank; length: [rows] i64 for the
  // host. Result: [rows, 1, width] on every rank that shares time; what comes back is summed over
  // them.
  Variable operator()(const Variable& x, const SequenceShard& time, const Tensor& length) const;

 private:
  // x as above, of the positions of all tensor ranks.
  Variable first(const Variable& x, const Ranges& held, const Tensor& length) const;
  Variable maximum(const Variable& x, std::int64_t total, const Tensor& length) const;
  Variable valid_length_mask(const Variable& x, std::int64_t total, const Tensor& length) const;

  ProcessMesh mesh_;
  Device device_;
  Pooling kind_;
  std::int64_t heads_;
  Weight query_;
  std::optional<Linear> key_;
};

}  // namespace longspan
