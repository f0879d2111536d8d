// Reversible sublayers (Gomez et al. 2017; Kitaev et al. 2020, section 3). Their inputs are
// reconstructed from their outputs, so that a stack of any depth stores two tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "framework/autograd/variable.h"

namespace longspan {

// The two streams of a stack in the backward pass. Each stack has one: `reversible_add` sets it in
// the forward pass and updates it in the backward pass.
struct ReversibleStreams {
  // If set, each sublayer also stores the true stream. Called in the backward pass with the
  // sublayer index from 1, the squared norm of the reconstruction error, and that of the true
  // stream.
  std::function<void(std::int64_t sublayer, double squared_error, double squared_norm)> measure =
      {};

  std::int64_t sublayers = 0;  // recorded, with backward still pending
  Tensor read;                 // b of the last of them
  Tensor written;              // c of the last of them
};

using ReversibleFunction =
    std::function<Variable(const Variable& b, const std::vector<Variable>& extra)>;

// One sublayer: c = a + f(b, y), where f is `function` and y the inputs other than the streams.
// These are stored and receive gradients. The next sublayer reads b as a and c as b. Stores only
// the last b and c: the backward pass recomputes f, which must satisfy recompute.h, and a = c -
// f(b, y). a and b: equal shape, f32 (f64 in float64). The result of f may be narrower. Writes c
// over a if it has no other owner. Throws Failure if backward runs in another order.
Variable reversible_add(Variable&& a,
                        const Variable& b,
                        const ReversibleFunction& function,
                        const std::shared_ptr<ReversibleStreams>& streams,
                        const std::vector<Variable>& extra = {});

}  // namespace longspan
