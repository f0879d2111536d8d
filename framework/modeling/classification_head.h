// Sequence classification head.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// Predicts ModelBuildOptions::classes classes from one pooled vector per row, in the scope
// "output". OutputHeadSpec::pooling selects the pooling over the `length` [rows] valid positions:
// first position, mean, maximum of each feature, or attention pooling. Attention pooling uses a
// learned query, with heads of at most 64 features and keys of their own ("output/pooling"). With
// OutputHeadSpec::class_layer a linear layer with tanh precedes the classifier ("output/layer"),
// with the dropout of the backbone's output. The pooled vector of a row of length 0 is 0.
//
// Loss term "loss", over "rows": the negative log-likelihood of `label` [rows] in nats; 0 where the
// label is negative. Ranks that share time pool collectively, and each computes the losses of a
// part of the rows.
OutputHeadFactory classification_head();

}  // namespace longspan
