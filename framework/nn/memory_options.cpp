#include "framework/nn/memory_options.h"

#include "framework/options/options.h"

namespace longspan {

const char* name_of(RecomputeGranularity granularity) {
  switch (granularity) {
    case RecomputeGranularity::none:
      return "none";
    case RecomputeGranularity::selective:
      return "selective";
    case RecomputeGranularity::full:
      return "full";
  }
  return "";
}

void declare(OptionTable& table, MemoryOptions& options) {
  table.add("memory.recompute_granularity",
            options.recompute_granularity,
            "activations recomputed in the backward pass: none, selective (those of each "
            "attention sublayer) or full (all of memory.recompute_num_layers layers, of which "
            "only the input is stored)",
            {{"none", RecomputeGranularity::none},
             {"selective", RecomputeGranularity::selective},
             {"full", RecomputeGranularity::full}});
  table.add("memory.recompute_num_layers",
            options.recompute_num_layers,
            "number of layers recomputed as a group",
            between(1, 1 << 16),
            only_with(is("memory.recompute_granularity", {"full"})));
  table.add("memory.num_feed_forward_chunks",
            options.feed_forward_chunks,
            "number of chunks of tokens that a feed-forward layer computes one after another and "
            "recomputes in the backward pass, at most one per token",
            at_least(1));
  table.add("memory.num_loss_chunks",
            options.loss_chunks,
            "number of chunks of tokens of the output layer and the loss, so that the logits of a "
            "whole sequence are never stored at once",
            at_least(1));
  table.add(
      "memory.bptt_chunk_length",
      options.bptt_chunk_length,
      "length in tokens of the chunks in which a step reads its sequences (chunked "
      "backpropagation through time), so that activation memory does not grow with their "
      "length. Exact: the layers pass their recurrent states, keys and values, and the "
      "gradients of these, from chunk to chunk; computes the forward pass of all chunks but "
      "the last one twice. In an encoder-decoder, chunks of the target; none: whole "
      "sequences",
      at_least(1),
      needs(is("model.family",
               {"decoder", "transformer_xl", "universal_transformer", "encoder_decoder"})),
      needs(is_not("model.decoder_type", "non_autoregressive")),
      excludes(is("model.cross_attention.score_function", {"location"})),
      excludes(is_above("model.coverage_loss_weight", 0)),
      excludes(is("model.guided_attention.type", {"monotonic"})),
      excludes(is("training.scheduled_sampling.method", {"sequential", "two_pass", "parallel"})),
      needs(is_not("model.recurrence.type", "act")),
      excludes(is("model.norm.type", {"powernorm"})));
  table.add("memory.reconstruction_check_interval",
            options.reconstruction_check_every,
            "steps between measurements of the reconstruction error, which store the true "
            "activations of that step; 0: never",
            at_least(0),
            needs(is("model.residual.type", {"reversible"})));
  table.add("memory.reconstruction_tolerance",
            options.reconstruction_bound,
            "maximum relative reconstruction error, above which the run is aborted",
            more_than(0.0),
            only_with(is_above("memory.reconstruction_check_interval", 0)));
}

}  // namespace longspan
