#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/encoder_decoder.h"
#include "models/non_autoregressive_decoder.h"

namespace longspan {
namespace {

// What keeps the encoder from being computed again as the decoder is; empty where nothing does.
std::string encoder_recompute_problem(const EncoderDecoderOptions& options,
                                      const MemoryOptions& memory) {
  if (!options.encoder_layers || memory.recomputation().num_layers <= *options.encoder_layers)
    return "";
  return fmt::format(
      "memory.recompute_num_layers is {}, but model.num_encoder_layers is {}; set it to at most "
      "that "
      "many",
      memory.recompute_num_layers,
      *options.encoder_layers);
}

// What keeps the decoder from writing one token after another; empty where nothing does.
std::string writing_problem(const EncoderDecoderOptions& options) {
  const AttentionKind* const kind = first_kind_without_kv_cache(options.common.attention);
  if (kind == nullptr || options.decoder == EncoderDecoderOptions::Decoder::masked) return "";
  return fmt::format(
      "model.attention.layer_types: found {}, which cannot read on from kept keys, as a decoder of "
      "pairs does "
      "when it writes; it may be in model.attention.encoder_layer_types",
      kind->name);
}

// What keeps the layers of both from running several times; empty where nothing does.
std::string steps_problem(const EncoderDecoderOptions& options) {
  const RecurrenceOptions& recurrence = options.recurrence;
  for (const ModelOptions& stack : {options.common, options.encoder()}) {
    std::string problem = recurrence_problem(recurrence, stack, "model.recurrence.type");
    if (!problem.empty()) return problem;
  }
  if (recurrence.is_recurrent() && options.wiring != CrossAttentionMapping::last)
    return "model.cross_attention.layer_mapping: found other than last with model.recurrence.type, "
           "whose decoder "
           "looks at what the encoder gives after its last step; set one of them otherwise";
  if (recurrence.adaptive() && options.source.is_wanted())
    return "model.recurrence.type: found act with a key that looks at the attention of a layer of "
           "the decoder (model.use_pointer_generator, model.coverage_loss_weight, "
           "model.guided_attention.type), which is of no one step; set it "
           "to fixed";
  return "";
}

// Of what is declared before anyone knows whether it is masked.
constexpr FamilyTraits causal_decoder = {.sequences = Sequences::examples,
                                         .has_cross_attention = true};

// A sentence about attention, with the keys of the encoder where it has its own.
std::string said_of_encoder(std::string sentence, const EncoderDecoderOptions& options) {
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

// What is wrong with the attention of the encoder; empty where nothing is, or where it is the
// decoder's, of which the same is told.
std::string encoder_attention_problem(const EncoderDecoderOptions& options,
                                      const PlannedBuildOptions& planned) {
  const ModelOptions encoder = options.encoder();
  const auto problem = [&](const ModelOptions& of, const FamilyTraits& traits) {
    std::string found = problem_of(of.attention, of.attention_setting(traits, 0));
    if (found.empty() && planned) found = attention_problem(of, planned(), traits);
    if (found.empty()) found = distances_problem(options.positions, of);
    return found.empty() ? softmax_form_problem(of) : found;
  };
  const bool is_told = options.common.attention.encoder_kinds.empty() &&
                       !problem(options.common, options.decoder_traits()).empty();
  return is_told
             ? ""
             : said_of_encoder(problem(encoder, EncoderDecoderOptions::encoder_traits()), options);
}

// What keeps the heads and the layer that are looked at from being there; empty where they are.
std::string alignment_problem(const EncoderDecoderOptions& options) {
  const ModelOptions& common = options.common;
  if (options.alignment_heads > common.heads)
    return fmt::format(
        "model.alignment_heads is {}, but model.num_attention_heads is {}; set it to at most that",
        options.alignment_heads,
        common.heads);
  if (options.alignment_layer.value_or(0) >= common.layers)
    return fmt::format(
        "model.alignment_layer is {}, but model.num_hidden_layers is {}; set it to less than that",
        *options.alignment_layer,
        common.layers);
  return "";
}

void declare_encoder_attention(OptionTable& table,
                               EncoderDecoderOptions& options,
                               const PlannedBuildOptions& planned) {
  table.add(
      "model.attention.encoder_layer_types",
      options.common.attention.encoder_kinds,
      "what each layer of the encoder sees, as in model.attention.layer_types, whose other keys it "
      "shares; empty: the same as in the decoder",
      affects_weights([&options](const std::string& kinds) {
        const ModelOptions encoder = options.encoder();
        const AttentionOptions& attention = options.common.attention;
        return layers_of_other_weights(
            kinds == "[]" ? fmt::format("{}", fmt::join(attention.kinds, ",")) : kinds,
            encoder.layers,
            attention.global_projections);
      }));
  table.check({"model.attention.layer_types", "model.decoder_type"}, [&options]() -> std::string {
    const bool is_told =
        !problem_of(options.common.attention, options.common.attention_setting(causal_decoder, 0))
             .empty();
    if (is_told) return "";
    const std::string problem = writing_problem(options);
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
    std::ranges::copy(attention_keys_beside(EncoderDecoderOptions::encoder_traits()),
                      std::back_inserter(keys));
  table.check(std::move(keys),
              [&options, planned] { return encoder_attention_problem(options, planned); });
}

// What keeps the decoder from looking as it is to; empty where nothing does.
std::string look_problem(const EncoderDecoderOptions& options, const MeshShape& mesh) {
  if (options.scores.kind != CrossAttentionScore::dot_product && options.source.is_wanted())
    return "model.cross_attention.score_function: found others than dot_product with "
           "model.use_pointer_generator, model.coverage_loss_weight or "
           "model.guided_attention.type, which look at products of queries and keys; set one of "
           "them otherwise";
  const ModelOptions& common = options.common;
  if (common.score_scale != ScoreScale::head && options.source.is_wanted())
    return "model.attention.scale_attn_weights: found false with model.use_pointer_generator, "
           "model.coverage_loss_weight or model.guided_attention.type, which "
           "look "
           "at scaled products of queries and keys; set one of them otherwise";
  return cross_scores_problem(options.scores, common.heads, common.head_dim(), mesh);
}

void declare_cross_scores(OptionTable& table,
                          EncoderDecoderOptions& options,
                          const PlannedBuildOptions& planned) {
  table.add("model.cross_attention.score_function",
            options.scores.kind,
            "how cross-attention scores a position of the source: by a product; by a small network "
            "of query and key (additive, Bahdanau et al. 2015); or by one that also hears where "
            "the position before has looked (location, Chorowski et al. 2015), so that positions "
            "follow one another",
            {{"dot_product", CrossAttentionScore::dot_product},
             {"additive", CrossAttentionScore::additive},
             {"location", CrossAttentionScore::location}},
            affects_weights());
  table.add("model.cross_attention.location_kernel_size",
            options.scores.kernel_size,
            "with model.cross_attention.score_function: location, the places around a key that are "
            "heard; odd",
            between(1, 255),
            affects_weights());
  table.warn("model.cross_attention.location_kernel_size", [&options]() -> std::string {
    return options.scores.kind == CrossAttentionScore::location
               ? ""
               : "model.cross_attention.score_function is not location";
  });
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
    return look_problem(options, planned ? planned().mesh.shape : MeshShape());
  });
}

void declare_source_look(OptionTable& table, EncoderDecoderOptions& options) {
  CrossAttentionLossOptions& source = options.source;
  table.add("model.use_pointer_generator",
            source.copies,
            "a word may be copied from the source: by a gate, from where the alignment heads look "
            "(See et al. 2017); not with training.label_smoothing",
            affects_weights());
  table.add("model.coverage_loss_weight",
            source.coverage,
            "weight of a loss of looking again where the alignment heads have looked (See et al. "
            "2017: 1); 0: there is none",
            between(0, 1e6));
  table.add("model.guided_attention.type",
            source.guide,
            "where the alignment heads are taught to look: nowhere; at the same part of the source "
            "as the target's (Tachibana et al. 2018); on from where they have looked, never back "
            "(after Raffel et al. 2017); or where data.train_alignments says",
            {{"none", GuidedAttentionType::none},
             {"diagonal", GuidedAttentionType::diagonal},
             {"monotonic", GuidedAttentionType::monotonic},
             {"alignment", GuidedAttentionType::alignments}});
  table.add("model.guided_attention.loss_weight",
            source.guide_weight,
            "weight of the loss of model.guided_attention.type",
            between(0, 1e6));
  table.add("model.guided_attention.sigma",
            source.guide_width,
            "with model.guided_attention.type: diagonal, how far from it, in parts of a sequence, "
            "costs little",
            between(1e-3, 10));
  table.add(
      "model.alignment_heads",
      options.alignment_heads,
      "the first heads of one layer's cross-attention, whose average model.use_pointer_generator, "
      "model.coverage_loss_weight and model.guided_attention.type look at",
      between(1, 1 << 16));
  table.add("model.alignment_layer",
            options.alignment_layer,
            "the decoder's layer of those heads, counted from 0; none: the last one",
            between(0, (1 << 16) - 1));
  table.check({"model.alignment_heads",
               "model.num_attention_heads",
               "model.alignment_layer",
               "model.num_hidden_layers"},
              [&options] { return alignment_problem(options); });
  const auto unread = [&source]() -> std::string {
    return source.is_wanted() ? ""
                              : "model.use_pointer_generator is false, model.coverage_loss_weight "
                                "is 0 and model.guided_attention.type is none";
  };
  table.warn("model.alignment_heads", unread);
  table.warn("model.alignment_layer", unread);
  table.warn("model.guided_attention.loss_weight", [&source]() -> std::string {
    return source.guide == GuidedAttentionType::none ? "model.guided_attention.type is none" : "";
  });
  table.warn("model.guided_attention.sigma", [&source]() -> std::string {
    return source.guide == GuidedAttentionType::diagonal
               ? ""
               : "model.guided_attention.type is not diagonal";
  });
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

std::string problem_of(const EncoderDecoderOptions& options, const MemoryOptions& memory) {
  for (const std::string& problem : {writing_problem(options),
                                     alignment_problem(options),
                                     look_problem(options, MeshShape()),
                                     steps_problem(options),
                                     encoder_recompute_problem(options, memory)})
    if (!problem.empty()) return problem;
  return "";
}

void declare(OptionTable& table,
             EncoderDecoderOptions& options,
             const PlannedBuildOptions& planned) {
  declare(table, options.common, planned, causal_decoder);
  table.add("model.num_encoder_layers",
            options.encoder_layers,
            "layers of the encoder; none: model.num_hidden_layers, which are the decoder's",
            between(1, 1 << 16),
            affects_weights());
  table.add(
      "model.cross_attention.layer_mapping",
      options.wiring,
      "which of the encoder's outputs a layer of the decoder looks at: that of the last layer; "
      "of the same layer; of the same layer counted from the end; a learned mixture of all "
      "(transparent, Bapna et al. 2018); or "
      "each of all",
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
            "source and target have one table; false: one each",
            {{"true", EncoderDecoderOptions::Embeddings::shared},
             {"false", EncoderDecoderOptions::Embeddings::apart}},
            affects_weights());
  table.check({"model.cross_attention.layer_mapping",
               "model.num_encoder_layers",
               "model.num_hidden_layers"},
              [&options] {
                return wiring_problem(options.wiring,
                                      options.encoder_layers.value_or(options.common.layers),
                                      options.common.layers);
              });
  declare_source_look(table, options);
  declare_cross_scores(table, options, planned);
  declare_nat(table, options, planned);
  declare_encoder_attention(table, options, planned);
  table.check({"model.recurrence.type",
               "model.residual.type",
               "model.act.output",
               "model.act.freeze_halted",
               "model.attention.layer_types",
               "model.attention.encoder_layer_types",
               "model.cross_attention.layer_mapping",
               "model.use_pointer_generator",
               "model.guided_attention.type"},
              [&options] { return steps_problem(options); });
  if (planned)
    table.check({"model.guided_attention.type", "data.train_alignments"},
                [&options, &table]() -> std::string {
                  const bool is_guided = options.source.guide == GuidedAttentionType::alignments;
                  if (table.is_default("data.train_alignments") != is_guided) return "";
                  return is_guided ? "model.guided_attention.type is alignment, and "
                                     "data.train_alignments is not set; set "
                                     "it to the file that has them"
                                   : "data.train_alignments is set, and "
                                     "model.guided_attention.type is not alignment; set "
                                     "one to the other";
                });
  if (planned)
    table.check({"model.use_pointer_generator", "training.label_smoothing"},
                [&options, planned]() -> std::string {
                  if (!options.source.copies || planned().smoothing.share == 0) return "";
                  return "model.use_pointer_generator is true, and training.label_smoothing is "
                         "set; what is copied has one "
                         "target: set training.label_smoothing to 0";
                });
  if (planned)
    table.check(
        {"memory.recompute_num_layers", "memory.recompute_granularity", "model.num_encoder_layers"},
        [&options, planned] { return encoder_recompute_problem(options, planned().memory); });
}

}  // namespace longspan
