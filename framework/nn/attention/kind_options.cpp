#include <algorithm>

#include "framework/core/quote.h"
#include "framework/nn/attention/attention_kinds.h"

namespace longspan {
namespace {

// Why no layer reads a key that these kinds do.
std::string unread(const AttentionOptions& options, const std::vector<std::string>& kinds) {
  const AttentionOptions of_encoder = {.kinds = options.encoder_kinds};
  for (const std::string& kind : kinds)
    if (has_kind(options, kind) || has_kind(of_encoder, kind)) return "";
  return fmt::format("no layer of model.attention.layer_types has {}", join_or(kinds));
}

void warn_of_unread(OptionTable& table, const AttentionOptions& options) {
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> readers = {
      {{"sliding_window"}, {"sliding_window", "dilated", "global_local"}},
      {{"local_1d.filter_width", "local_1d.block_length"}, {"local_1d"}},
      {{"dilation"}, {"dilated"}},
      {{"stride"}, {"strided", "block", "summary", "fixed"}},
      {{"summary.num_columns", "summary.num_patterns"}, {"summary", "fixed"}},
      {{"summary.attend_self"}, {"summary"}},
      {{"global_local.global_positions",
        "global_local.separate_global_projections",
        "global_local.num_random_blocks"},
       {"global_local"}}};
  for (const auto& [keys, kinds] : readers)
    for (const std::string& key : keys)
      table.warn("model.attention." + key, [&options, kinds] { return unread(options, kinds); });
  for (const auto& [key, kinds] : kinds_by_key())
    table.warn("model." + key, [&options, kinds] { return unread(options, kinds); });
  const std::vector<std::pair<std::string, std::string>> of_scores = {
      {"model.attention.synthesizer.dense_hidden_size", "dense"},
      {"model.attention.synthesizer.factorized_rank", "factorized_random"}};
  for (const auto& [key, scores] : of_scores)
    table.warn(key, [&options, scores]() -> std::string {
      const bool told = !unread(options, {"synthesizer"}).empty();
      if (told || std::ranges::count(options.synthesizer.scores, scores) > 0) return "";
      return fmt::format("model.attention.synthesizer.variants has no {}", scores);
    });
  table.warn("model.attention.sinkhorn.num_iterations", [&options]() -> std::string {
    const bool mixes = options.sinkhorn.top.value_or(0) == 0;
    return mixes || !unread(options, {"sinkhorn"}).empty()
               ? ""
               : "model.attention.sinkhorn.num_top_blocks chooses blocks and mixes none";
  });
  for (const std::string key : {"block_size", "random_seed"})
    table.warn("model.attention.global_local." + key, [&options]() -> std::string {
      const std::string reason = unread(options, {"global_local"});
      return reason.empty() && options.random == 0
                 ? "model.attention.global_local.num_random_blocks is 0"
                 : reason;
    });
}

}  // namespace

void declare(OptionTable& table,
             AttentionOptions& options,
             std::function<std::string(const std::string&)> in_weights) {
  table.add("model.attention.layer_types",
            options.kinds,
            fmt::format("what each layer sees, repeated to the number of layers: {}. a/b divides "
                        "the heads among kinds, a+b unites kinds in one softmax",
                        describe_kinds()),
            not_empty(),
            affects_weights(std::move(in_weights)));
  table.add(
      "model.attention.sliding_window",
      options.sliding_window,
      "keys that sliding_window, dilated and global_local see: the query and that many less one "
      "before it, in an encoder also after it; one number, or one for each layer",
      not_empty(),
      between(1, masks::unlimited));
  table.add("model.attention.local_1d.filter_width",
            options.local_1d.filter_width,
            "keys before the block of the query that local_1d sees, in an encoder as many after "
            "it too",
            between(0, masks::unlimited));
  table.add("model.attention.local_1d.block_length",
            options.local_1d.block_length,
            "positions of a block of local_1d",
            between(1, masks::unlimited));
  table.add("model.attention.dilation",
            options.dilation,
            "from one key of dilated to the next",
            between(1, 1 << 20));
  table.add("model.attention.stride",
            options.stride,
            "positions from one key of strided to the next, and of a block of block, summary "
            "and fixed",
            between(1, masks::unlimited));
  table.add("model.attention.summary.num_columns",
            options.summary,
            "columns at the end of a block that summary and fixed see",
            between(1, 1 << 30));
  table.add("model.attention.summary.num_patterns",
            options.summary_groups,
            "groups of heads with summary columns of their own, the later ones farther from the "
            "end of the block",
            between(1, 1 << 30));
  table.add("model.attention.summary.attend_self",
            options.self,
            "a query of summary sees itself too; without it the first queries see nothing");
  table.add("model.attention.global_local.global_positions",
            options.global,
            "positions that see all earlier ones and are seen by all later ones, in an encoder "
            "both by and of all, for global_local",
            at_least(0));
  table.add(
      "model.attention.global_local.separate_global_projections",
      options.global_projections,
      "global positions see with queries, keys and values by projections of their own (Beltagy "
      "et al. 2020), which start as copies of the others",
      affects_weights());
  table.add("model.attention.global_local.num_random_blocks",
            options.random,
            "random blocks beyond the window that each block of queries sees, for global_local",
            at_least(0));
  table.add("model.attention.global_local.block_size",
            options.block,
            "positions of such a block, of queries or of keys",
            at_least(1));
  table.add("model.attention.global_local.random_seed",
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
