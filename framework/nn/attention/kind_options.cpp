#include <algorithm>

#include "framework/core/option_text.h"
#include "framework/nn/attention/kinds.h"

namespace longspan {
namespace {

// Why no layer reads a key that these kinds do.
std::string unread(const AttentionOptions& options, const std::vector<std::string>& kinds) {
  const AttentionOptions of_encoder = {.kinds = options.encoder_kinds};
  for (const std::string& kind : kinds)
    if (has_kind(options, kind) || has_kind(of_encoder, kind)) return "";
  return fmt::format("no layer of model.attention has {}", either(kinds));
}

void warn_of_unread(OptionTable& table, const AttentionOptions& options) {
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> readers = {
      {{"attention_window"}, {"local", "dilated", "local_1d", "global"}},
      {{"attention_dilation"}, {"dilated"}},
      {{"attention_stride"}, {"strided", "local_1d", "block", "summary", "fixed"}},
      {{"attention_summary", "attention_summary_groups"}, {"summary", "fixed"}},
      {{"attention_self"}, {"summary"}},
      {{"attention_global", "attention_global_projections", "attention_random"}, {"global"}}};
  for (const auto& [keys, kinds] : readers)
    for (const std::string& key : keys)
      table.warn("model." + key, [&options, kinds] { return unread(options, kinds); });
  for (const auto& [key, kinds] : readers_of_mechanism_keys())
    table.warn("model." + key, [&options, kinds] { return unread(options, kinds); });
  const std::vector<std::pair<std::string, std::string>> of_scores = {
      {"model.synthesizer_hidden", "dense"}, {"model.synthesizer_rank", "factorised_random"}};
  for (const auto& [key, scores] : of_scores)
    table.warn(key, [&options, scores]() -> std::string {
      const bool told = !unread(options, {"synthesizer"}).empty();
      if (told || std::ranges::count(options.synthesizer.scores, scores) > 0) return "";
      return fmt::format("model.synthesizer has no {}", scores);
    });
  table.warn("model.sinkhorn_iterations", [&options]() -> std::string {
    const bool mixes = options.sinkhorn.top.value_or(0) == 0;
    return mixes || !unread(options, {"sinkhorn"}).empty()
               ? ""
               : "model.sinkhorn_top chooses blocks and mixes none";
  });
  for (const std::string key : {"attention_block", "attention_seed"})
    table.warn("model." + key, [&options]() -> std::string {
      const std::string reason = unread(options, {"global"});
      return reason.empty() && options.random == 0 ? "model.attention_random is 0" : reason;
    });
}

}  // namespace

void declare(OptionTable& table,
             AttentionOptions& options,
             std::function<std::string(const std::string&)> in_weights) {
  table.add("model.attention",
            options.kinds,
            fmt::format("what each layer sees, repeated to the number of layers: {}. a/b divides "
                        "the heads among kinds, a+b unites kinds in one softmax",
                        kinds_text()),
            not_empty(),
            fixes_weights(std::move(in_weights)));
  table.add("model.attention_window",
            options.window,
            "keys before the query that local, dilated and global see besides the query itself, "
            "and before its block that local_1d sees, in an encoder as many after it too: one "
            "number, or one for each layer",
            not_empty(),
            between(0, masks::unlimited));
  table.add("model.attention_dilation",
            options.dilation,
            "from one key of dilated to the next",
            between(1, 1 << 20));
  table.add("model.attention_stride",
            options.stride,
            "positions from one key of strided to the next, and of a block of local_1d, block, "
            "summary and fixed",
            between(1, masks::unlimited));
  table.add("model.attention_summary",
            options.summary,
            "columns at the end of a block that summary and fixed see",
            between(1, 1 << 30));
  table.add("model.attention_summary_groups",
            options.summary_groups,
            "groups of heads with summary columns of their own, the later ones farther from the "
            "end of the block",
            between(1, 1 << 30));
  table.add("model.attention_self",
            options.self,
            "a query of summary sees itself too; without it the first queries see nothing");
  table.add("model.attention_global",
            options.global,
            "positions that see all earlier ones and are seen by all later ones, in an encoder "
            "both by and of all, for global",
            at_least(0));
  table.add(
      "model.attention_global_projections",
      options.global_projections,
      "global positions see with queries, keys and values by projections of their own (Beltagy "
      "et al. 2020), which start as copies of the others",
      fixes_weights());
  table.add("model.attention_random",
            options.random,
            "random blocks beyond the window that each block of queries sees, for global",
            at_least(0));
  table.add("model.attention_block",
            options.block,
            "positions of such a block, of queries or of keys",
            at_least(1));
  table.add("model.attention_seed",
            options.seed,
            "of the random blocks, which are the same in every step",
            at_least(0));
  declare(table, options.lsh);
  declare(table, options.features);
  declare(table, options.linformer);
  declare(table, options.routing);
  declare(table, options.sinkhorn);
  declare(table, options.synthesizer);
  declare(table, options.compressed);
  declare(table, options.image);
  warn_of_unread(table, options);
}

}  // namespace longspan
