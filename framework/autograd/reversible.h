// Reversible sublayers (Gomez et al. 2017; Kitaev et al. 2020, section 3): what they read is
// rebuilt from what they wrote, so that a stack of any depth keeps two tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "framework/autograd/variable.h"

namespace longspan {

// The two streams of a stack on its way back. A stack has one, which `reversible_add` fills as it
// is recorded and changes as it is walked back.
struct ReversibleStreams {
  // Where it is set, each sublayer keeps the true stream as well, and this is called in the
  // backward pass with the number of the sublayer, counted from 1, the squared norm of what the
  // rebuilt stream is off by, and that of the true one.
  std::function<void(std::int64_t sublayer, double squared_error, double squared_norm)> measure =
      {};

  std::int64_t sublayers = 0;  // recorded and not yet walked back
  Tensor read;                 // b of the last of them
  Tensor written;              // its c
};

using ReversibleFunction =
    std::function<Variable(const Variable& b, const std::vector<Variable>& beside)>;

// One sublayer: c = a + function(b, beside), where `beside` is what it reads that is no stream of
// the stack; it is kept and gets its gradient. The next takes b for a and c for b. Nothing is kept
// but the last b and c: the backward pass computes the function again, with the promises of
// recompute.h, and a = c - function(b, beside). a and b: one shape, f32 (f64 in float64); the
// function's result may be narrower. Writes c over a where nobody else holds it. Throws Failure
// when the chain is walked back in another order.
Variable reversible_add(Variable&& a,
                        const Variable& b,
                        const ReversibleFunction& function,
                        const std::shared_ptr<ReversibleStreams>& streams,
                        const std::vector<Variable>& beside = {});

}  // namespace longspan
