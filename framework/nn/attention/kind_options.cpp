#include <algorithm>

#include "framework/core/quote.h"
#include "framework/nn/attention/attention_kinds.h"

namespace longspan {
namespace {

// Returns the reason why no layer reads a key of these types.
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
      return fmt::format("model.attention.synthesizer.variants does not contain {}", scores);
    });
  table.warn("model.attention.sinkhorn.num_iterations", [&options]() -> std::string {
    const bool mixes = options.sinkhorn.top.value_or(0) == 0;
    return mixes || !unread(options, {"sinkhorn"}).empty()
               ? ""
               : "model.attention.sinkhorn.num_top_blocks is not 0";
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
  table.add(
      "model.attention.layer_types",
      options.kinds,
      fmt::format("attention type of each layer, repeated to the number of layers: {}. a/b divides "
                  "the heads among types, a+b combines the keys of types in one softmax",
                  describe_kinds()),
      not_empty(),
      affects_weights(std::move(in_weights)));
  table.add(
      "model.attention.sliding_window",
      options.sliding_window,
      "window size w in keys: the query and the w - 1 keys before it, in an encoder also the w - "
      "1 keys after it; one value, or one per layer. Only with layer type sliding_window, dilated "
      "or global_local",
      not_empty(),
      between(1, masks::unlimited));
  table.add("model.attention.local_1d.filter_width",
            options.local_1d.filter_width,
            "number of keys before the query's block, in an encoder as many after it. Only with "
            "layer type local_1d",
            between(0, masks::unlimited));
  table.add("model.attention.local_1d.block_length",
            options.local_1d.block_length,
            "block length in positions. Only with layer type local_1d",
            between(1, masks::unlimited));
  table.add("model.attention.dilation",
            options.dilation,
            "distance between consecutive keys of the window, in positions. Only with layer type "
            "dilated",
            between(1, 1 << 20));
  table.add("model.attention.stride",
            options.stride,
            "stride of strided and block length of block, summary and fixed, in positions. Only "
            "with layer type strided, block, summary or fixed",
            between(1, masks::unlimited));
  table.add("model.attention.summary.num_columns",
            options.summary,
            "number of summary columns at the end of each block. Only with layer type summary or "
            "fixed",
            between(1, 1 << 30));
  table.add("model.attention.summary.num_patterns",
            options.summary_groups,
            "number of head groups with different summary columns, those of later groups farther "
            "from the end of the block. Only with layer type summary or fixed",
            between(1, 1 << 30));
  table.add("model.attention.summary.attend_self",
            options.self,
            "attention of a query to its own key; false: the first queries attend to nothing. "
            "Only with layer type summary");
  table.add(
      "model.attention.global_local.global_positions",
      options.global,
      "positions with global attention, to all earlier keys and from all later queries, in an "
      "encoder to all keys and from all queries. Only with layer type global_local",
      at_least(0));
  table.add(
      "model.attention.global_local.separate_global_projections",
      options.global_projections,
      "separate query, key and value projections for global positions, initialized as copies of "
      "the others (Beltagy et al. 2020). Only with layer type global_local",
      affects_weights());
  table.add("model.attention.global_local.num_random_blocks",
            options.random,
            "number of random key blocks per query block, outside the window. Only with layer "
            "type global_local",
            at_least(0));
  table.add("model.attention.global_local.block_size",
            options.block,
            "size of a query or key block of the random blocks, in positions. Only with "
            "model.attention.global_local.num_random_blocks above 0",
            at_least(1));
  table.add("model.attention.global_local.random_seed",
            options.seed,
            "seed of the random blocks, which are the same in every step. Only with "
            "model.attention.global_local.num_random_blocks above 0",
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
