#include "framework/nn/attention/attention_kinds.h"

namespace longspan {
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
      "model.attention.short_convolution.kernel_size",
      options.convolution_taps,
      "kernel size of the causal convolutions of queries, keys and values, in positions",
      between(1, 64),
      affects_weights(),
      only_with(layer_type({"delta_net", "gated_delta_net", "kimi_delta_attention", "mamba2"})));
  declare(table, options.delta_rule);
  table.add("model.attention.sliding_window",
            options.sliding_window,
            "window size w in keys: the query and the w - 1 keys before it, in an encoder also the "
            "w - 1 keys after it; one value, or one per layer",
            not_empty(),
            between(1, masks::unlimited),
            only_with(layer_type({"sliding_window", "dilated", "global_local"})));
  table.add("model.attention.local_1d.filter_width",
            options.local_1d.filter_width,
            "number of keys before the query's block, in an encoder as many after it",
            between(0, masks::unlimited),
            only_with(layer_type({"local_1d"})));
  table.add("model.attention.local_1d.block_length",
            options.local_1d.block_length,
            "block length in positions",
            between(1, masks::unlimited),
            only_with(layer_type({"local_1d"})));
  table.add("model.attention.dilation",
            options.dilation,
            "distance between consecutive keys of the window, in positions",
            between(1, 1 << 20),
            only_with(layer_type({"dilated"})));
  table.add("model.attention.stride",
            options.stride,
            "stride of strided and block length of block, summary and fixed, in positions",
            between(1, masks::unlimited),
            only_with(layer_type({"strided", "block", "summary", "fixed"})));
  table.add("model.attention.summary.num_columns",
            options.summary,
            "number of summary columns at the end of each block",
            between(1, 1 << 30),
            only_with(layer_type({"summary", "fixed"})));
  table.add("model.attention.summary.num_patterns",
            options.summary_groups,
            "number of head groups with different summary columns, those of later groups farther "
            "from the end of the block",
            between(1, 1 << 30),
            only_with(layer_type({"summary", "fixed"})));
  table.add("model.attention.summary.attend_self",
            options.self,
            "attention of a query to its own key; false: the first queries attend to nothing",
            only_with(layer_type({"summary"})));
  table.add("model.attention.global_local.global_positions",
            options.global,
            "positions with global attention, to all earlier keys and from all later queries, in "
            "an encoder to all keys and from all queries",
            at_least(0),
            only_with(layer_type({"global_local"})));
  table.add("model.attention.global_local.separate_global_projections",
            options.global_projections,
            "separate query, key and value projections for global positions, initialized as copies "
            "of the others (Beltagy et al. 2020)",
            affects_weights(),
            only_with(layer_type({"global_local"})));
  table.add("model.attention.global_local.num_random_blocks",
            options.random,
            "number of random key blocks per query block, outside the window",
            at_least(0),
            only_with(layer_type({"global_local"})));
  table.add("model.attention.global_local.block_size",
            options.block,
            "size of a query or key block of the random blocks, in positions",
            at_least(1),
            only_with(is_above("model.attention.global_local.num_random_blocks", 0)));
  table.add("model.attention.global_local.random_seed",
            options.seed,
            "seed of the random blocks, which are the same in every step",
            at_least(0),
            only_with(is_above("model.attention.global_local.num_random_blocks", 0)));
  declare(table, options.lsh);
  declare(table, options.features);
  declare(table, options.linformer);
  declare(table, options.routing);
  declare(table, options.sinkhorn);
  declare(table, options.synthesizer);
  declare(table, options.compressed);
  declare(table, options.image);
  declare(table, options.mamba2);
  declare(table, options.rwkv7);
  declare(table, options.mixing);
}

}  // namespace longspan
