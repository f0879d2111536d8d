// Output heads of the tasks.
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

// Predicts ModelBuildOptions::classes tags, in the scope "output", with OutputHeadSpec::tags. Loss
// term "loss", over "tokens": the negative log-likelihood of `targets` [rows, time] in nats, with a
// softmax per tag or a CRF per sentence. Positions with ignored_target (padding, later tokens of a
// word) are skipped. Neighbors in the CRF chain are the first tokens of adjacent words. Ranks that
// share time first gather the scores, which are narrow. Each then computes the losses of a part of
// the rows.
OutputHeadFactory tagging_head();

// Sequence-to-sequence output head, with optional copying (pointer-generator) and losses on
// cross-attention.

// Loss terms: "loss"; in training also "coverage" and "guided_attention" as OutputHeadSpec::source
// configures.
// Fields in addition to those of the LM head: `source`, `source_length` and `length`. With
// alignment guidance also `links` [rows, n, 2], pairs of a source and a target position, -1 where a
// row has fewer. Counts: "tokens"; "cells", source length times target length, for the diagonal
// guide; "linked", targets with a link, for alignments. The monotonic guide uses "tokens".
//
// With OutputHeadSpec::masked also "length", over "rows", in passes that return
// BackboneOutput::encoder_outputs. Predictions are then length classes (non_autoregressive.h).
// Parameters "length/weight" and "length/bias".
//
// With copying, parameters "copy/hidden" and "copy/embedding" form the gate. Scores are then
// log-probabilities. Throws ConfigurationError for copying with label smoothing.
OutputHeadFactory seq2seq_head();

// In the scope "output", for a backbone with OutputHeadSpec::pixels, which gives the order of the
// values. Loss term "loss", over "tokens" (channel values): the negative log-likelihood of `pixels`
// [rows, columns] in nats. It is 0 for padding and for rows of `length` 0. With
// OutputHeadSpec::mixtures 0 each position predicts one of 256 values. Otherwise a position
// predicts a whole pixel with a mixture of logistics (kernels/logistic_mixture.h), whose parameters
// are replicated on every tensor rank. Throws ConfigurationError for a backbone without pixels.
OutputHeadFactory pixel_head();

// A softmax "policy" over ModelBuildOptions::classes actions, and a "value" at each position.
// Fields, each [rows, time]: `actions`, negative where nothing is learned; `log_probabilities` of
// the actions when they were taken, `advantages` and `returns`, f64.
//
// Loss terms, over "tokens" (PPO, Schulman et al. 2017): "policy", the clipped objective; "value",
// half the squared error; "entropy", with a negative weight. Ranks that share time first gather the
// outputs, which are narrow. Each then computes the losses of a part of the rows.
//
// `scores`: [rows, time, actions + 1] in f64 on the host: policy logits, then the value. They cover
// all positions and are equal on every rank that shares the rows or the weights. Records no
// gradient.
OutputHeadFactory policy_head();

}  // namespace longspan
