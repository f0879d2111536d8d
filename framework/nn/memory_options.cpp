#include "framework/nn/memory_options.h"

#include "framework/core/options.h"

namespace longspan {
namespace {

constexpr const char* every = "every";

}  // namespace

Recomputation MemoryOptions::recomputation() const {
  if (recompute == "attention") return Recomputation::attention();
  if (recompute == "layer") return Recomputation::every(1);
  const std::string prefix = fmt::format("{} ", every);
  if (recompute.starts_with(prefix))
    return Recomputation::every(std::stoll(recompute.substr(prefix.size())));
  return {};
}

void declare(OptionTable& table, MemoryOptions& options) {
  table.add("memory.recompute",
            options.recompute,
            "what is computed again in the backward pass instead of being kept: each layer's "
            "attention; each layer, of which only the input is kept; or that many layers together",
            one_of({"none", "attention", "layer"}),
            or_counted(every));
  table.add("memory.feed_forward_chunks",
            options.feed_forward_chunks,
            "pieces of the rows that a feed-forward layer takes one after another, each computed "
            "again in the backward pass; where there are fewer rows, a piece is a row",
            at_least(1));
  table.add("memory.loss_chunks",
            options.loss_chunks,
            "the same for the output layer and the loss, so that the logits of a whole segment "
            "never exist at once",
            at_least(1));
  table.add("memory.reconstruction_check_every",
            options.reconstruction_check_every,
            "steps between measurements of the error of a reversible stack's rebuilt streams, for "
            "which such a step keeps the true ones; 0: never",
            at_least(0));
  table.add("memory.reconstruction_bound",
            options.reconstruction_bound,
            "the largest relative error of a rebuilt stream with which a run goes on",
            more_than(0.0));
  table.warn("memory.reconstruction_bound", [&options]() -> std::string {
    return options.reconstruction_check_every > 0 ? "" : "memory.reconstruction_check_every is 0";
  });
}

}  // namespace longspan
