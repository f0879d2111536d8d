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
            "activations that the backward pass computes again: none; those of each attention "
            "sublayer (selective); or all of a group of memory.recompute_num_layers layers, of "
            "which only the input is stored (full)",
            {{"none", RecomputeGranularity::none},
             {"selective", RecomputeGranularity::selective},
             {"full", RecomputeGranularity::full}});
  table.add("memory.recompute_num_layers",
            options.recompute_num_layers,
            "layers of a group. Only with memory.recompute_granularity: full",
            between(1, 1 << 16));
  table.warn("memory.recompute_num_layers", [&options]() -> std::string {
    return options.recompute_granularity == RecomputeGranularity::full
               ? ""
               : "memory.recompute_granularity is not full";
  });
  table.add("memory.num_feed_forward_chunks",
            options.feed_forward_chunks,
            "pieces of the rows that a feed-forward layer takes one after another, each computed "
            "again in the backward pass; where there are fewer rows, a piece is a row",
            at_least(1));
  table.add("memory.num_loss_chunks",
            options.loss_chunks,
            "the same for the output layer and the loss, so that the logits of a whole segment "
            "never exist at once",
            at_least(1));
  table.add("memory.reconstruction_check_interval",
            options.reconstruction_check_every,
            "steps between measurements of the error of a reversible stack's rebuilt streams, for "
            "which such a step keeps the true ones; 0: never",
            at_least(0));
  table.add("memory.reconstruction_tolerance",
            options.reconstruction_bound,
            "the largest relative error of a rebuilt stream with which a run goes on",
            more_than(0.0));
  table.warn("memory.reconstruction_tolerance", [&options]() -> std::string {
    return options.reconstruction_check_every > 0 ? ""
                                                  : "memory.reconstruction_check_interval is 0";
  });
}

}  // namespace longspan
