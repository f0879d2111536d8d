// Kinds of models for tests that compare training in different memory modes and on layouts. A new
// type is one line.
#pragma once

#include <fmt/format.h>

#include "tests/models/equality_testing.h"

namespace longspan::testing {

// Each type masks some keys of the segment and has several blocks.
inline AttentionOptions short_attention(std::vector<std::string> names) {
  return {.kinds = std::move(names),
          .sliding_window = {2},
          .stride = 2,
          .summary = 1,
          .global = {1},
          .random = 1,
          .block = 1,
          .lsh = {.chunk = 2},
          .routing = {.clusters = 2, .width = 3},
          .sinkhorn = {.block = 2},
          .mamba2 = {.dim = 3, .state = 2, .groups = 4},
          .mixing = {.window = 2}};
}

inline AttentionOptions long_attention(std::vector<std::string> names) {
  return {.kinds = std::move(names),
          .sliding_window = {41},
          .stride = 16,
          .summary = 3,
          .summary_groups = 2,
          .global = {1, 70},
          .random = 1,
          .block = 16,
          .lsh = {.chunk = 16},
          .routing = {.clusters = 9},
          .sinkhorn = {.block = 16},
          .mamba2 = {.dim = 3, .state = 5, .groups = 2},
          .mixing = {.window = 41}};
}

// Delta types with fewer key heads than value heads, and other dimensions than the model's heads.
inline AttentionOptions with_own_heads(AttentionOptions attention) {
  attention.delta_rule = {.key_heads = 4, .value_heads = 8, .key_dim = 3, .value_dim = 5};
  return attention;
}

// Numbers of heads that four ranks do not divide: context ranks pass states on.
inline AttentionOptions with_indivisible_heads(AttentionOptions attention) {
  attention.mamba2 = {.heads = 6, .dim = 3, .state = 2, .groups = 2};
  attention.delta_rule = {.key_heads = 2, .value_heads = 6, .key_dim = 3, .value_dim = 5};
  return attention;
}

inline Kind decoder(const AttentionOptions& attention,
                    std::int64_t heads = 4,
                    PositionEmbeddingType positions = PositionEmbeddingType::sinusoidal) {
  return {fmt::format("decoder, {}{}",
                      fmt::join(attention.kinds, ", "),
                      attention.global_projections ? " with projections" : ""),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.heads = heads;
            options.common.residual = residual;
            options.common.attention = attention;
            options.positions.kind = positions;
            return make_decoder(options, setting);
          }};
}

// Recurrent states continue over segments.
inline Kind stateful(const AttentionOptions& attention,
                     std::int64_t heads = 4,
                     PositionEmbeddingType positions = PositionEmbeddingType::sinusoidal) {
  return {fmt::format("stateful decoder, {}", fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            DecoderOptions options = {.stateful = true};
            options.common = dropped_options(NormPosition::pre);
            options.common.heads = heads;
            options.common.residual = residual;
            options.common.attention = attention;
            options.positions.kind = positions;
            if (options.positions.rotary()) options.common.head_width = 4;
            return make_decoder(options, setting);
          }};
}

inline Kind transformer_xl(const AttentionOptions& attention, std::int64_t memory) {
  return {fmt::format("transformer_xl, {}", fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            TransformerXlOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.residual = residual;
            options.common.reversible_output =
                residual == ResidualKind::reversible ? StreamMerge::concatenate : StreamMerge::mean;
            options.common.tied_embeddings = false;
            options.common.attention = attention;
            options.memory = memory;
            return make_transformer_xl(options, setting);
          }};
}

// Adaptive spans per head or per token.
inline Kind with_spans(const AttentionOptions& attention,
                       const AdaptiveSpanOptions& form,
                       std::int64_t memory,
                       SpanKind kind = SpanKind::adaptive) {
  const SpanOptions spans = {.kind = kind, .form = form, .penalty = 0.05};
  return {fmt::format("{}, spans{}",
                      memory > 0 ? "transformer_xl" : "decoder",
                      kind == SpanKind::dynamic ? " of tokens" : ""),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            const auto common = [&] {
              ModelOptions options = dropped_options(NormPosition::pre);
              options.residual = residual;
              options.attention = attention;
              options.norm_kind = NormKind::rms;
              return options;
            };
            if (memory > 0) {
              TransformerXlOptions options;
              options.common = common();
              options.memory = memory;
              options.spans = spans;
              return make_transformer_xl(options, setting);
            }
            DecoderOptions options;
            options.common = common();
            options.spans = spans;
            return make_decoder(options, setting);
          }};
}

// Rotary position embeddings.
inline Kind with_rotary(const AttentionOptions& attention, const RotaryOptions& rope) {
  return {fmt::format("decoder, {}, rotary", fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.head_width = 6;
            options.common.residual = residual;
            options.common.attention = attention;
            options.positions = {.kind = PositionEmbeddingType::rotary, .rope = rope};
            return make_decoder(options, setting);
          }};
}

// Options of Llama and Qwen: RoPE, grouped keys, QK norm, SwiGLU.
inline Kind llama_style(const AttentionOptions& attention) {
  return {fmt::format("decoder of today, {}", fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.head_width = 6;
            options.common.key_heads = 2;
            options.common.query_key_norm = true;
            options.common.norm_kind = NormKind::rms;
            options.common.attention_bias = {"query", "key", "value"};
            options.common.activation = FeedForwardActivation::swiglu;
            options.common.residual = residual;
            options.common.attention = attention;
            options.positions = {.kind = PositionEmbeddingType::rotary};
            return make_decoder(options, setting);
          }};
}

// Options of Qwen3.5: delta types and gated softmax attention, norms with gains of 1 + weight, RoPE
// of some features.
inline Kind hybrid_style() {
  return {"hybrid decoder", [](ResidualKind residual, const ModelBuildOptions& setting) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.head_width = 6;
            options.common.key_heads = 2;
            options.common.query_key_norm = true;
            options.common.output_gate = true;
            options.common.norm_kind = NormKind::rms;
            options.common.zero_centered_gains = true;
            options.common.attention_bias = {};
            options.common.feed_forward_bias = false;
            options.common.activation = FeedForwardActivation::swiglu;
            options.common.residual = residual;
            options.common.attention = with_own_heads(short_attention({"gated_delta_net", "full"}));
            options.positions = {.kind = PositionEmbeddingType::rotary, .rope = {.share = 0.4}};
            return make_decoder(options, setting);
          }};
}

// Attention sinks, softcapping and parallel sublayers.
inline Kind with_sinks_and_caps(const AttentionOptions& attention, std::int64_t memory) {
  return {fmt::format("{}, {}, sinks and caps",
                      memory > 0 ? "transformer_xl" : "decoder",
                      fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            const auto change = [&](ModelOptions& options) {
              options = dropped_options(NormPosition::pre);
              options.key_heads = 2;
              options.residual = residual;
              options.attention = attention;
              options.attention_sinks = true;
              options.score_cap = 0.5;
              options.logit_cap = 2;
              options.use_parallel_residual = true;
            };
            if (memory == 0) {
              DecoderOptions options;
              change(options.common);
              return make_decoder(options, setting);
            }
            TransformerXlOptions options;
            change(options.common);
            options.memory = memory;
            return make_transformer_xl(options, setting);
          }};
}

// T5: one relative-bias table for all layers, unscaled scores, scaled logits.
inline Kind with_biases(const AttentionOptions& attention,
                        std::int64_t reach,
                        std::int64_t buckets) {
  return {fmt::format("decoder, {}, biases by distance", fmt::join(attention.kinds, ", ")),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.key_heads = 2;
            options.common.residual = residual;
            options.common.attention = attention;
            options.common.scale_attn_weights = false;
            options.common.scale_decoder_outputs = true;
            options.positions = {.kind = PositionEmbeddingType::relative_bias,
                                 .relative_max_distance = reach,
                                 .buckets = buckets};
            return make_decoder(options, setting);
          }};
}

// Layer 1 of 2 has a loss only in the first step.
inline Kind with_inner_losses() {
  return {"decoder, inner losses", [](ResidualKind residual, const ModelBuildOptions& given) {
            DecoderOptions options;
            options.common = dropped_options(NormPosition::pre);
            options.common.residual = residual;
            options.positions.kind = PositionEmbeddingType::learned;
            options.positions_each_layer = true;
            options.auxiliary = {.inner = AuxiliaryLossOptions::Inner::drop, .targets = 2};
            ModelBuildOptions setting = given;
            setting.steps = 3;
            return make_decoder(options, setting);
          }};
}

// Rows hold documents of about `length` tokens that span segments and do not attend to each other.
inline Kind with_documents(Kind kind, std::int64_t length) {
  kind.name += ", documents apart";
  kind.batch = [length](const Case& c, int step, const StreamRange& range) {
    Batch batch = batch_of(c, step, range);
    const Tensor places = batch.field("tokens").empty_like();
    std::int64_t* to = places.data<std::int64_t>();
    for (std::int64_t row = range.begin; row < range.end; ++row)
      for (std::int64_t i = 0; i < c.segment; ++i)
        *to++ = (step * c.segment + i) % (length + 2 * row);
    batch.fields["document_position"] = places;
    return batch;
  };
  return kind;
}

// Episodes that start between segments hide a part of the memory. apart: others start within
// segments.
inline Kind with_episodes(Kind kind, bool apart) {
  kind.name += apart ? ", episodes apart" : ", episodes";
  kind.batch = [apart](const Case& c, int step, const StreamRange& range) {
    Batch batch = batch_of(c, step, range);
    const Tensor earlier = Tensor::zeros({range.count()}, DType::i64, backend_device().host());
    const Tensor episodes = batch.field("tokens").empty_like();
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      earlier.data<std::int64_t>()[row - range.begin] = row % 2 == 0 ? row : 100;
      for (std::int64_t i = 0; i < c.segment; ++i)
        episodes.data<std::int64_t>()[(row - range.begin) * c.segment + i] = i / (row + 2);
    }
    batch.fields["earlier"] = earlier;
    if (apart) batch.fields["episodes"] = episodes;
    return batch;
  };
  return kind;
}

// Step 1 uses batch statistics (warm-up), step 2 the running statistics.
inline Kind with_power_norms(std::int64_t memory) {
  return {fmt::format("{}, power norms", memory > 0 ? "transformer_xl" : "decoder"),
          [=](ResidualKind residual, const ModelBuildOptions& setting) {
            const auto change = [&](ModelOptions& options) {
              options = dropped_options(NormPosition::pre);
              options.residual = residual;
              options.norm_kind = NormKind::power;
              options.power.warmup = 1;
            };
            if (memory == 0) {
              DecoderOptions options;
              change(options.common);
              if (residual == ResidualKind::plain) options.common.norm = NormPosition::post;
              return make_decoder(options, setting);
            }
            TransformerXlOptions options;
            change(options.common);
            options.memory = memory;
            return make_transformer_xl(options, setting);
          }};
}

inline std::vector<Kind> kinds() {
  std::vector<Kind> all = {
      transformer_xl(short_attention({"full"}), 3),
      transformer_xl(short_attention({"sliding_window", "strided/dilated"}), 3)};
  for (const char* const name : {"full",
                                 "sliding_window",
                                 "strided",
                                 "sliding_window+strided",
                                 "dilated",
                                 "fixed",
                                 "block",
                                 "summary",
                                 "global_local",
                                 "lsh",
                                 "linear",
                                 "performer",
                                 "rfa",
                                 "routing",
                                 "sinkhorn",
                                 "memory_compressed",
                                 "additive",
                                 "retention",
                                 "gla",
                                 "delta_net",
                                 "gated_delta_net",
                                 "kimi_delta_attention",
                                 "mamba2",
                                 "rwkv7",
                                 "aft_full",
                                 "aft_local",
                                 "aft_simple",
                                 "gmlp"})
    all.push_back(decoder(short_attention({name})));
  AttentionOptions gates = short_attention({"gmlp"});
  gates.mixing.gate_heads = 2;
  gates.mixing.gate_attention = 3;
  all.push_back(decoder(gates));
  all.push_back(
      decoder(with_own_heads(short_attention({"gated_delta_net", "kimi_delta_attention"}))));
  AttentionOptions projected = short_attention({"global_local/full"});
  projected.global_projections = true;
  all.push_back(decoder(projected));
  const AdaptiveSpanOptions spans = {.limit = 4, .ramp = 2, .initial = 1.3};
  all.push_back(with_spans(short_attention({"full"}), spans, 0));
  all.push_back(with_spans(short_attention({"full", "strided"}), spans, 3));
  AttentionOptions strict = short_attention({"routing"});
  strict.routing.strict = true;
  all.push_back(decoder(strict));
  for (const std::vector<std::string>& scores : std::vector<std::vector<std::string>>{
           {"dense", "dot_product"}, {"random", "factorized_random", "factorized_dense"}}) {
    AttentionOptions synthesizer = short_attention({"synthesizer"});
    synthesizer.synthesizer.scores = scores;
    all.push_back(decoder(synthesizer));
  }
  all.push_back(with_spans(short_attention({"full"}), spans, 0, SpanKind::dynamic));
  all.push_back(with_rotary(short_attention({"full", "sliding_window/strided"}), {.share = 0.7}));
  all.push_back(with_rotary(short_attention({"lsh", "performer"}),
                            {.base = 50,
                             .pairs = RotaryLayout::neighbors,
                             .scaling = RotaryScaling::dynamic,
                             .factor = 2,
                             .original = 3}));
  all.push_back(llama_style(short_attention({"full", "global_local"})));
  all.push_back(hybrid_style());
  all.push_back(stateful(
      short_attention({"retention", "kimi_delta_attention"}), 4, PositionEmbeddingType::rotary));
  all.push_back(stateful(with_own_heads(short_attention({"gated_delta_net", "sliding_window"}))));
  all.push_back(stateful(short_attention({"mamba2", "gla"})));
  all.push_back(stateful(short_attention({"rwkv7", "gmlp"})));
  all.push_back(decoder(short_attention({"retention", "kimi_delta_attention"}), 2));
  all.push_back(decoder(short_attention({"rwkv7"}), 2));
  all.push_back(with_documents(
      decoder(with_indivisible_heads(short_attention({"delta_net", "mamba2"})), 2), 3));
  all.push_back(
      stateful(with_indivisible_heads(short_attention({"gated_delta_net", "mamba2"})), 2));
  all.push_back(with_inner_losses());
  all.push_back(with_power_norms(0));
  all.push_back(with_power_norms(3));
  all.push_back(with_sinks_and_caps(short_attention({"full", "strided"}), 0));
  all.push_back(with_sinks_and_caps(short_attention({"full", "sliding_window"}), 3));
  all.push_back(with_biases(short_attention({"full", "sliding_window/strided"}), 3, 4));
  all.push_back(with_documents(transformer_xl(short_attention({"full", "sliding_window"}), 3), 4));
  for (const bool apart : {false, true})
    all.push_back(
        with_episodes(transformer_xl(short_attention({"full", "sliding_window"}), 3), apart));
  all.push_back(with_documents(decoder(short_attention({"full"})), 2));
  all.push_back(with_documents(with_rotary(short_attention({"full", "strided"}), {}), 3));
  all.push_back(with_documents(decoder(short_attention({"gated_delta_net", "retention"})), 3));
  all.push_back(with_documents(stateful(short_attention({"delta_net", "mamba2"})), 3));
  all.push_back(with_documents(decoder(short_attention({"aft_local", "aft_simple"})), 3));
  all.push_back(with_documents(decoder(short_attention({"aft_full"})), 4));
  return all;
}

}  // namespace longspan::testing
