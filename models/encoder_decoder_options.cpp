#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/encoder_decoder.h"
#include "models/non_autoregressive_decoder.h"

namespace longspan {
namespace {

// Returns why the encoder does not support the decoder's activation recomputation; empty if it
// does.
std::string validate_encoder_recompute(const EncoderDecoderOptions& options,
                                       const MemoryOptions& memory) {
  if (!options.encoder_layers || memory.recomputation().num_layers <= *options.encoder_layers)
    return "";
  return fmt::format(
      "memory.recompute_num_layers: expected at most model.num_encoder_layers = {}, found {}",
      *options.encoder_layers,
      memory.recompute_num_layers);
}

// Returns why the decoder does not support autoregressive decoding; empty if it does.
std::string validate_writing(const EncoderDecoderOptions& options) {
  const AttentionKind* const kind = first_kind_without_kv_cache(options.common.attention);
  if (kind == nullptr || options.decoder == EncoderDecoderOptions::Decoder::masked) return "";
  return fmt::format(
      "model.attention.layer_types: {} does not support a KV cache, which decoding "
      "requires; use it in model.attention.encoder_layer_types",
      kind->name);
}

// Returns why the stacks do not support recurrence; empty if they do.
std::string validate_steps(const EncoderDecoderOptions& options) {
  const RecurrenceOptions& recurrence = options.recurrence;
  for (const ModelOptions& stack : {options.common, options.encoder()}) {
    std::string problem = validate_recurrence(recurrence, stack);
    if (!problem.empty()) return problem;
  }
  if (recurrence.is_recurrent() && options.wiring != CrossAttentionMapping::last)
    return "model.cross_attention.layer_mapping: only last supports model.recurrence.type; change "
           "one of them";
  if (recurrence.adaptive() && options.source.is_requested())
    return "model.recurrence.type: act does not support the alignment heads of "
           "model.use_pointer_generator, model.coverage_loss_weight and "
           "model.guided_attention.type; set it to fixed";
  return "";
}

// For declarations before the decoder type is known.
constexpr FamilyTraits causal_decoder = {.sequences = Sequences::examples,
                                         .has_cross_attention = true};

// Returns a message about attention with the encoder's keys, where the encoder has its own.
std::string with_encoder_keys(std::string sentence, const EncoderDecoderOptions& options) {
  const auto replace = [&](const std::string& key, const std::string& by) {
    std::size_t at = 0;
    while ((at = sentence.find(key, at)) != std::string::npos) {
      sentence.replace(at, key.size(), by);
      at += by.size();
    }
  };
  if (!options.common.attention.encoder_kinds.empty())
    replace("model.attention.layer_types", "model.attention.encoder_layer_types");
  if (options.encoder_layers) replace("model.num_hidden_layers", "model.num_encoder_layers");
  return sentence;
}

// Returns why the attention of the encoder is unsupported. Empty if it is supported, or equal to
// the decoder's, which reports the error.
std::string validate_encoder_attention(const EncoderDecoderOptions& options,
                                       const PlannedBuildOptions& planned) {
  const ModelOptions encoder = options.encoder();
  const auto problem = [&](const ModelOptions& of, const FamilyTraits& traits) {
    std::string found = problem_of(of.attention, of.attention_setting(traits, 0));
    if (found.empty() && planned) found = validate_attention(of, planned(), traits);
    if (found.empty()) found = validate_distances(options.positions, of);
    return found.empty() ? validate_softmax_type(of) : found;
  };
  const bool is_reported = options.common.attention.encoder_kinds.empty() &&
                           !problem(options.common, options.decoder_traits()).empty();
  return is_reported ? ""
                     : with_encoder_keys(problem(encoder, EncoderDecoderOptions::encoder_traits()),
                                         options);
}

// Returns why the alignment heads or the alignment layer do not exist; empty if they do.
std::string validate_alignment(const EncoderDecoderOptions& options) {
  const ModelOptions& common = options.common;
  if (options.alignment_heads > common.heads)
    return fmt::format(
        "model.alignment_heads: expected at most model.num_attention_heads = {}, found {}",
        common.heads,
        options.alignment_heads);
  if (options.alignment_layer.value_or(0) >= common.layers)
    return fmt::format(
        "model.alignment_layer: expected less than model.num_hidden_layers = {}, found {}",
        common.layers,
        *options.alignment_layer);
  return "";
}

void declare_encoder_attention(OptionTable& table,
                               EncoderDecoderOptions& options,
                               const PlannedBuildOptions& planned) {
  table.add(
      "model.attention.encoder_layer_types",
      options.common.attention.encoder_kinds,
      "attention type of each encoder layer, as in model.attention.layer_types, with the same "
      "other keys; empty: as in the decoder",
      affects_weights([&options](const std::string& kinds) {
        const ModelOptions encoder = options.encoder();
        const AttentionOptions& attention = options.common.attention;
        return layers_of_other_weights(
            kinds == "[]" ? fmt::format("{}", fmt::join(attention.kinds, ",")) : kinds,
            encoder.layers,
            attention.global_projections);
      }));
  table.check({"model.attention.layer_types", "model.decoder_type"}, [&options]() -> std::string {
    const bool is_reported =
        !problem_of(options.common.attention, options.common.attention_setting(causal_decoder, 0))
             .empty();
    if (is_reported) return "";
    const std::string problem = validate_writing(options);
    return problem.empty()
               ? problem_of(options.common.attention,
                            options.common.attention_setting(options.decoder_traits(), 0))
               : problem;
  });
  std::vector<std::string> keys = {"model.attention.encoder_layer_types",
                                   "model.attention.layer_types",
                                   "model.num_encoder_layers",
                                   "model.position_embedding_type",
                                   "model.attention.learned_sinks",
                                   "model.attention.logit_softcapping",
                                   "model.attention.scale_attn_weights"};
  if (planned)
    std::ranges::copy(attention_keys_and_common(table, EncoderDecoderOptions::encoder_traits()),
                      std::back_inserter(keys));
  table.check(std::move(keys),
              [&options, planned] { return validate_encoder_attention(options, planned); });
}

// Returns why the decoder does not support the losses on cross-attention; empty if it does.
std::string validate_waitk(const EncoderDecoderOptions& options, const MeshShape& mesh) {
  if (options.scores.kind != CrossAttentionScore::dot_product && options.source.is_requested())
    return "model.cross_attention.score_function: only dot_product supports "
           "model.use_pointer_generator, model.coverage_loss_weight and "
           "model.guided_attention.type; change one of them";
  const ModelOptions& common = options.common;
  if (!common.scale_attn_weights && options.source.is_requested())
    return "model.attention.scale_attn_weights: false does not support "
           "model.use_pointer_generator, model.coverage_loss_weight and "
           "model.guided_attention.type; change one of them";
  return validate_cross_scores(options.scores, common.heads, common.head_dim(), mesh);
}

void declare_cross_scores(OptionTable& table,
                          EncoderDecoderOptions& options,
                          const PlannedBuildOptions& planned) {
  table.add("model.cross_attention.score_function",
            options.scores.kind,
            "score function of cross-attention: dot_product, additive (Bahdanau et al. 2015) or "
            "location (additive, with the attention of the previous position, Chorowski et al. "
            "2015)",
            {{"dot_product", CrossAttentionScore::dot_product},
             {"additive", CrossAttentionScore::additive},
             {"location", CrossAttentionScore::location}},
            affects_weights());
  table.add("model.cross_attention.location_kernel_size",
            options.scores.kernel_size,
            "kernel size of the convolution over the previous attention, odd",
            between(1, 255),
            affects_weights(),
            only_with(is("model.cross_attention.score_function", {"location"})));
  std::vector<std::string> keys = {"model.cross_attention.score_function",
                                   "model.attention.scale_attn_weights",
                                   "model.cross_attention.location_kernel_size",
                                   "model.num_attention_heads",
                                   "model.head_dim",
                                   "model.hidden_size",
                                   "model.use_pointer_generator",
                                   "model.coverage_loss_weight",
                                   "model.guided_attention.type"};
  if (planned)
    for (const char* const key :
         {"parallel.context_parallel_size", "parallel.tensor_parallel_size"})
      keys.emplace_back(key);
  table.check(std::move(keys), [&options, planned] {
    return validate_waitk(options, planned ? planned().mesh.shape : MeshShape());
  });
}

void declare_source_look(OptionTable& table, EncoderDecoderOptions& options) {
  CrossAttentionLossOptions& source = options.source;
  table.add("model.use_pointer_generator",
            source.copies,
            "pointer-generator output, which can copy source tokens by the attention of the "
            "alignment heads (See et al. 2017)",
            affects_weights(),
            value_excludes("true", is_above("training.label_smoothing", 0)));
  table.add("model.coverage_loss_weight",
            source.coverage,
            "weight of the coverage loss of the alignment heads (See et al. 2017: 1); 0: no loss",
            between(0, 1e6));
  table.add("model.guided_attention.type",
            source.guide,
            "guided attention loss of the alignment heads: none, diagonal (Tachibana et al. "
            "2018), monotonic (after Raffel et al. 2017) or alignment (data.train_alignments)",
            {{"none", GuidedAttentionType::none},
             {"diagonal", GuidedAttentionType::diagonal},
             {"monotonic", GuidedAttentionType::monotonic},
             {"alignment", GuidedAttentionType::alignments}},
            value_needs("alignment", is_set("data.train_alignments")));
  table.add("model.guided_attention.loss_weight",
            source.guide_weight,
            "weight of the guided attention loss",
            between(0, 1e6),
            only_with(is_not("model.guided_attention.type", "none")));
  table.add("model.guided_attention.sigma",
            source.guide_width,
            "width of the diagonal, as a fraction of the sequence length",
            between(1e-3, 10),
            only_with(is("model.guided_attention.type", {"diagonal"})));
  table.add(
      "model.alignment_heads",
      options.alignment_heads,
      "number of alignment heads, the first heads of a layer's cross-attention, which are averaged",
      between(1, 1 << 16),
      only_with(any_of({is_set("model.use_pointer_generator"),
                        is_set("model.coverage_loss_weight"),
                        is_set("model.guided_attention.type")})));
  table.add("model.alignment_layer",
            options.alignment_layer,
            "decoder layer of the alignment heads, counted from 0; none: the last layer",
            between(0, (1 << 16) - 1),
            only_with(any_of({is_set("model.use_pointer_generator"),
                              is_set("model.coverage_loss_weight"),
                              is_set("model.guided_attention.type")})));
  table.check({"model.alignment_heads",
               "model.num_attention_heads",
               "model.alignment_layer",
               "model.num_hidden_layers"},
              [&options] { return validate_alignment(options); });
}

}  // namespace

ModelOptions EncoderDecoderOptions::encoder() const {
  ModelOptions options = common;
  options.layers = encoder_layers.value_or(common.layers);
  if (!common.attention.encoder_kinds.empty())
    options.attention.kinds = common.attention.encoder_kinds;
  return options;
}

FamilyTraits EncoderDecoderOptions::encoder_traits() {
  return {.causal = false, .sequences = Sequences::examples};
}

FamilyTraits EncoderDecoderOptions::decoder_traits() const {
  FamilyTraits traits = causal_decoder;
  traits.causal = decoder != Decoder::masked;
  return traits;
}

std::string EncoderDecoderOptions::whole_target_setting() const {
  if (decoder == Decoder::masked) return "model.decoder_type: non_autoregressive";
  if (recurrence.adaptive()) return "model.recurrence.type: act";
  if (scores.kind == CrossAttentionScore::location)
    return "model.cross_attention.score_function: location";
  if (source.coverage > 0) return fmt::format("model.coverage_loss_weight: {}", source.coverage);
  if (source.guide == GuidedAttentionType::monotonic)
    return "model.guided_attention.type: monotonic";
  return whole_sequence_type(common.attention);
}

std::string problem_of(const EncoderDecoderOptions& options, const MemoryOptions& memory) {
  for (const std::string& problem : {validate_writing(options),
                                     validate_alignment(options),
                                     validate_waitk(options, MeshShape()),
                                     validate_steps(options),
                                     validate_encoder_recompute(options, memory)})
    if (!problem.empty()) return problem;
  return "";
}

void declare(OptionTable& table,
             EncoderDecoderOptions& options,
             const PlannedBuildOptions& planned) {
  declare(table, options.common, planned, causal_decoder);
  table.add("model.num_encoder_layers",
            options.encoder_layers,
            "number of encoder layers; none: model.num_hidden_layers, the number of decoder layers",
            between(1, 1 << 16),
            affects_weights());
  table.add(
      "model.cross_attention.layer_mapping",
      options.wiring,
      "encoder layer that each decoder layer attends to: last, same, reverse (counted from the "
      "end), transparent (learned mixture of all, Bapna et al. 2018) or full (average over all)",
      {{"last", CrossAttentionMapping::last},
       {"same", CrossAttentionMapping::same},
       {"reverse", CrossAttentionMapping::reverse},
       {"transparent", CrossAttentionMapping::mix},
       {"full", CrossAttentionMapping::full}},
      affects_weights());
  declare(table, options.input);
  declare_logit_scale(table, options.common);
  declare(table, options.positions, options.common, Sequences::examples, planned);
  declare_recurrence(table, options.recurrence, options.positions);
  table.add("model.share_encoder_decoder_embeddings",
            options.embeddings,
            "embedding table shared by source and target; false: one table each",
            {{"true", EncoderDecoderOptions::Embeddings::shared},
             {"false", EncoderDecoderOptions::Embeddings::apart}},
            affects_weights());
  table.check({"model.cross_attention.layer_mapping",
               "model.num_encoder_layers",
               "model.num_hidden_layers"},
              [&options] {
                return validate_wiring(options.wiring,
                                       options.encoder_layers.value_or(options.common.layers),
                                       options.common.layers);
              });
  declare_source_look(table, options);
  declare_cross_scores(table, options, planned);
  declare_nat(table, options, planned);
  declare_encoder_attention(table, options, planned);
  if (planned && table.has("training.sequence_level.method"))
    table.caution("training.sequence_level.method", [&options, planned]() -> std::string {
      const bool drops = std::max(options.common.dropout, options.common.attention_dropout) > 0;
      return drops && planned().sequence_level.is_used()
                 ? "candidates are sampled without dropout, which biases gradients; set "
                   "model.dropout and model.attention.dropout to 0"
                 : "";
    });
  table.check({"model.recurrence.type",
               "model.recurrence.transition",
               "model.recurrence.kernel_sizes",
               "model.activation",
               "model.residual.type",
               "model.act.output",
               "model.act.freeze_halted",
               "model.attention.layer_types",
               "model.attention.encoder_layer_types",
               "model.cross_attention.layer_mapping",
               "model.use_pointer_generator",
               "model.guided_attention.type"},
              [&options] { return validate_steps(options); });
  if (planned)
    table.check(
        {"memory.recompute_num_layers", "memory.recompute_granularity", "model.num_encoder_layers"},
        [&options, planned] { return validate_encoder_recompute(options, planned().memory); });
}

}  // namespace longspan
