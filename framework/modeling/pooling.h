// Pools positions into one vector for each row.
#pragma once

#include <optional>
#include <vector>

#include "framework/modeling/label_readout_options.h"
#include "framework/nn/layers.h"

namespace longspan {

// Value type. heads.h describes the pooling types.
class Pooler {
 public:
  Pooler(const Scope& scope, Pooling kind, std::int64_t width, const Initializer& initial);

  // Returns [rows, 1, width] on every rank that shares time; the backward pass sums gradients over
  // them. x: [rows, time, width] of this rank's positions of `time`. length: [rows] i64 on the
  // host.
  Variable operator()(const Variable& x, const SequenceShard& time, const Tensor& length) const;

 private:
  // x as above, with the positions of all tensor ranks.
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
