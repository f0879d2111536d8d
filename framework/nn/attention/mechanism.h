// What turns a layer's input, projected to queries, keys and values, into its output.
#pragma once

#include <cstdint>

#include "framework/autograd/ops.h"
#include "framework/nn/parameters.h"
#include "framework/nn/pass.h"

namespace longspan {

// What the layers of a stack share in one pass over a segment.
struct SegmentContext {
  AttentionMask mask;  // mask.query_begin is the memory's length
  Variable distances;  // [memory + time, width]: the encoding of distance d in row d, where a
                       // mechanism asks for it
};

// A layer's input after the projections: this rank's heads. query: [batch, time, heads, dim]; key,
// value: [batch, memory + time, heads, dim].
struct Projected {
  Variable query;
  Variable key;
  Variable value;
  Part heads;
};

// One attention kind. It may own parameters; it is built with the scope of its layer.
class Mechanism {
 public:
  virtual ~Mechanism() = default;
  // [batch, time, heads, dim].
  virtual Variable operator()(const Projected& input,
                              const SegmentContext& context,
                              const Pass& pass) const = 0;
};

}  // namespace longspan
