// The readout of classes: one of so many for a whole text.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// As many classes as ModelBuildOptions::classes, in the scope "output", from one vector of each row
// that OutputHeadSpec::pooling makes of its `length` [rows] positions, padding left out: the first;
// the mean; the largest of each feature; or what a learned query sees, with heads of at most 64
// features and keys of their own ("output/pooling"). With OutputHeadSpec::class_layer the classes
// are read from the hyperbolic tangent of a linear layer of it ("output/layer"), dropped as what
// the body ends with. A row of length 0 has the vector 0. One term, "loss", over "rows": minus the
// log-probability of `label` [rows] in nats; 0 where that is negative. Ranks that share time pool
// together, and each makes the losses of a part of the rows.
OutputHeadFactory classification_head();

}  // namespace longspan
