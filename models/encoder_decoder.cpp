#include "models/encoder_decoder.h"

#include <algorithm>
#include <cmath>

#include "framework/core/queued_copy.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/kept_keys.h"
#include "framework/nn/embedding.h"
#include "models/masked_decoder.h"
#include "models/mechanisms.h"
#include "models/stack.h"

namespace longspan {
namespace {

// What keeps the encoder from being computed again as the decoder is; empty where nothing does.
std::string encoder_recompute_problem(const EncoderDecoderOptions& options,
                                      const MemoryOptions& memory) {
  if (!options.encoder_layers || memory.recomputation().together <= *options.encoder_layers)
    return "";
  return fmt::format(
      "memory.recompute is {}, but model.encoder_layers is {}; set it to at most that many",
      memory.recompute,
      *options.encoder_layers);
}

// What keeps the decoder from writing one token after another; empty where nothing does.
std::string writing_problem(const EncoderDecoderOptions& options) {
  const MechanismKind* const kind = kind_that_reads_anew(options.common.attention);
  if (kind == nullptr || options.decoder == EncoderDecoderOptions::Decoder::masked) return "";
  return fmt::format(
      "model.attention: found {}, which cannot read on from kept keys, as a decoder of pairs does "
      "when it writes; it may be in model.encoder_attention",
      kind->name);
}

constexpr FamilyTraits encoder_traits = {.causal = false, .sequences = Sequences::examples};
constexpr FamilyTraits decoder_traits = {.sequences = Sequences::examples, .looks_at_side = true};

// A sentence about attention, with the keys of the encoder where it has its own.
std::string said_of_encoder(std::string sentence, const EncoderDecoderOptions& options) {
  const auto replace = [&](const std::string& key, const std::string& by) {
    std::size_t at = 0;
    while ((at = sentence.find(key, at)) != std::string::npos) {
      const std::size_t end = at + key.size();
      if (end == sentence.size() || sentence[end] != '_') sentence.replace(at, key.size(), by);
      at += by.size();
    }
  };
  if (!options.common.attention.encoder_kinds.empty())
    replace("model.attention", "model.encoder_attention");
  if (options.encoder_layers) replace("model.layers", "model.encoder_layers");
  return sentence;
}

// What is wrong with the attention of the encoder; empty where nothing is, or where it is the
// decoder's, of which the same is told.
std::string encoder_attention_problem(const EncoderDecoderOptions& options,
                                      const PlannedSetting& planned) {
  const ModelOptions encoder = options.encoder();
  const auto problem = [&](const ModelOptions& of, const FamilyTraits& traits) {
    std::string found = problem_of(of.attention, of.attention_setting(traits, 0));
    if (found.empty() && planned) found = attention_problem(of, planned(), traits);
    return found.empty() ? distances_problem(options.positions, of) : found;
  };
  const bool is_told = options.common.attention.encoder_kinds.empty() &&
                       !problem(options.common, decoder_traits).empty();
  return is_told ? "" : said_of_encoder(problem(encoder, encoder_traits), options);
}

// What keeps the heads and the layer that are looked at from being there; empty where they are.
std::string alignment_problem(const EncoderDecoderOptions& options) {
  const ModelOptions& common = options.common;
  if (options.alignment_heads > common.heads)
    return fmt::format("model.alignment_heads is {}, but model.heads is {}; set it to at most that",
                       options.alignment_heads,
                       common.heads);
  if (options.alignment_layer.value_or(1) > common.layers)
    return fmt::format(
        "model.alignment_layer is {}, but model.layers is {}; set it to at most that",
        *options.alignment_layer,
        common.layers);
  return "";
}

void declare_encoder_attention(OptionTable& table,
                               EncoderDecoderOptions& options,
                               const PlannedSetting& planned) {
  table.add("model.encoder_attention",
            options.common.attention.encoder_kinds,
            "what each layer of the encoder sees, as in model.attention, whose other keys it "
            "shares; empty: the same as in the decoder",
            fixes_weights([&options](const std::string& kinds) {
              const ModelOptions encoder = options.encoder();
              const AttentionOptions& attention = options.common.attention;
              return layers_of_other_weights(
                  kinds == "[]" ? fmt::format("{}", fmt::join(attention.kinds, ",")) : kinds,
                  encoder.layers,
                  attention.global_projections);
            }));
  table.check({"model.attention", "model.decoder"}, [&options]() -> std::string {
    const bool is_told =
        !problem_of(options.common.attention, options.common.attention_setting(decoder_traits, 0))
             .empty();
    return is_told ? "" : writing_problem(options);
  });
  std::vector<std::string> keys = {
      "model.encoder_attention", "model.attention", "model.encoder_layers", "model.positions"};
  if (planned) std::ranges::copy(attention_keys_beside(encoder_traits), std::back_inserter(keys));
  table.check(std::move(keys),
              [&options, planned] { return encoder_attention_problem(options, planned); });
}

void declare_source_look(OptionTable& table, EncoderDecoderOptions& options) {
  SourceLookOptions& source = options.source;
  table.add("model.copy",
            source.copies,
            "a word may be copied from the source: by a gate, from where the alignment heads look "
            "(See et al. 2017); not with training.label_smoothing",
            fixes_weights());
  table.add("model.coverage",
            source.coverage,
            "weight of a loss of looking again where the alignment heads have looked (See et al. "
            "2017: 1); 0: there is none",
            between(0, 1e6));
  table.add("model.guide",
            source.guide,
            "where the alignment heads are taught to look: nowhere; at the same part of the source "
            "as the target's (Tachibana et al. 2018); or where data.train_alignments says",
            {{"none", AttentionGuide::none},
             {"diagonal", AttentionGuide::diagonal},
             {"alignments", AttentionGuide::alignments}});
  table.add("model.guide_weight",
            source.guide_weight,
            "weight of the loss of model.guide",
            between(0, 1e6));
  table.add("model.guide_width",
            source.guide_width,
            "with model.guide: diagonal, how far from it, in parts of a sequence, costs little",
            between(1e-3, 10));
  table.add("model.alignment_heads",
            options.alignment_heads,
            "the first heads of one layer's cross-attention, whose average model.copy, "
            "model.coverage and model.guide look at",
            between(1, 1 << 16));
  table.add("model.alignment_layer",
            options.alignment_layer,
            "the decoder's layer of those heads, counted from 1; none: the last one",
            between(1, 1 << 16));
  table.check({"model.alignment_heads", "model.heads", "model.alignment_layer", "model.layers"},
              [&options] { return alignment_problem(options); });
  const auto unread = [&source]() -> std::string {
    return source.is_wanted() ? ""
                              : "model.copy is false, model.coverage is 0 and model.guide is none";
  };
  table.warn("model.alignment_heads", unread);
  table.warn("model.alignment_layer", unread);
  table.warn("model.guide_weight", [&source]() -> std::string {
    return source.guide == AttentionGuide::none ? "model.guide is none" : "";
  });
  table.warn("model.guide_width", [&source]() -> std::string {
    return source.guide == AttentionGuide::diagonal ? "" : "model.guide is not diagonal";
  });
}

class EncoderDecoder : public Body {
 public:
  EncoderDecoder(const Scope& scope,
                 const EncoderDecoderOptions& options,
                 const ModelSetting& setting)
      : options_(options),
        setting_(setting),
        vocabulary_size_(vocabulary_of(options.common, setting.vocabulary) + (masked() ? 1 : 0)),
        embedding_(scope.child("embedding"),
                   vocabulary_size_,
                   options.common.width,
                   options.common.table_initial()),
        encoder_(scope.child("encoder"),
                 encoder_stack(),
                 mechanisms_of(options_.encoder(), encoder_traits)),
        decoder_(scope.child("decoder"),
                 decoder_stack(),
                 mechanisms_of(options_.common, traits_of_decoder())),
        source_embedding_(source_embedding(scope)),
        source_positions_(scope.child("encoder"), options.positions, options.common, setting),
        positions_(scope.child("decoder"), options.positions, options.common, setting) {}

  States run(const Reading& reading, const Pass& pass) const override {
    const Device& device = setting_.device;
    StackReads reads;
    reads.sides = reading.sides.empty() ? sides(reading, pass) : reading.sides;
    if (!pass.kept)
      reads.context.mask.key_length = queued_to(field_of(reading.fields, "length"), device);
    if (masked()) reads.context.mask.rules = masks::everything();
    const Pass writing = pass.child("decoder");
    const Tensor tokens = columns_of(reading, "tokens", pass.time, device);
    const Variable guessed = guessed_of(reading, pass.time);
    const Variable y = embed(embedding_, positions_, tokens, writing, guessed);
    States states;
    states.time = pass.time;
    LayerWatch watch;
    if (looks(pass)) watch.side = watched(states.look.attention);
    if (masked() && reading.sides.empty()) {
      states.sides = reads.sides;
      // Context ranks read the same rows.
      states.watched.push_back(far_lengths(reading.fields, options_.masking));
      if (setting_.mesh.context.rank() > 0) states.watched.back().sum = 0;
    }
    states.hidden = decoder_(y, reads, writing, watch);
    if (options_.source.copies)
      states.look.embedding = with(guessed, embedding_(tokens, scale(), pass.time));
    return states;
  }

  BodyEnd end() const override {
    // The decoder's stack ends with its norm.
    BodyEnd end = {.width = options_.common.output_width(),
                   .initial = options_.common.table_initial()};
    if (options_.common.tied_embeddings) end.table = embedding_.table();
    end.source = options_.source;
    end.embedding_width = options_.common.width;
    if (masked())
      end.masked =
          MaskedTargets{options_.masking, vocabulary_size_ - 1, options_.common.output_width()};
    return end;
  }
  Tensor mixed_embeddings(const Tensor& weights) const override {
    return embedding_.mixed(weights, scale());
  }
  Batch prepared(const Batch& batch, const std::optional<Random>& random) const override {
    if (!masked()) return batch;
    std::optional<Random> place;
    if (random) place = random->child("masking");
    return masked_words(batch, vocabulary_size_ - 1, options_.masking, place);
  }
  bool reads_on() const override { return !masked(); }
  std::int64_t vocabulary() const override { return vocabulary_size_; }
  std::int64_t longest_segment() const override {
    std::int64_t longest = positions_.longest();
    for (const ModelOptions& stack : {options_.common, options_.encoder()})
      longest = shorter_of(longest, longest_sequence_of(stack.attention, setting_.segment));
    return longest;
  }

 private:
  bool masked() const { return options_.decoder == EncoderDecoderOptions::Decoder::masked; }
  FamilyTraits traits_of_decoder() const {
    FamilyTraits traits = decoder_traits;
    traits.causal = !masked();
    return traits;
  }
  // Copying is a part of every result, the losses of training alone.
  bool looks(const Pass& pass) const {
    return options_.source.copies || (pass.training && options_.source.is_wanted());
  }
  SideWatch watched(Variable& attention) const {
    const std::int64_t layers = options_.common.layers;
    return {.layer = static_cast<std::size_t>(options_.alignment_layer.value_or(layers) - 1),
            .heads = options_.alignment_heads,
            .give = [&attention](const Variable& seen) { attention = seen; }};
  }
  double scale() const { return std::sqrt(static_cast<double>(options_.common.width)); }

  // What the decoder looks at. Of a reading that goes on its keys are kept already.
  std::vector<Side> sides(const Reading& reading, const Pass& pass) const {
    if (pass.kept && pass.kept->positions() > 0)
      return std::vector<Side>(reads_all_layers(options_.wiring) ? options_.encoder().layers : 1);
    const std::int64_t time = field_of(reading.fields, "source").shape()[1];
    const Side side = {
        .time = pass.kept ? undivided_time(time) : divide_time(setting_.mesh, time),
        .length = queued_to(field_of(reading.fields, "source_length"), setting_.device)};
    Pass encoding = pass.child("encoder");
    encoding.time = side.time;
    encoding.kept = nullptr;
    const Tensor tokens = columns_of(reading, "source", side.time, setting_.device);
    const Variable x =
        embed(source_embedding_.value_or(embedding_), source_positions_, tokens, encoding);
    return encoder_.encode(x, side, options_.wiring, encoding);
  }

  std::optional<TokenEmbedding> source_embedding(const Scope& scope) const {
    if (options_.embeddings == EncoderDecoderOptions::Embeddings::shared) return std::nullopt;
    const ModelOptions& common = options_.common;
    return TokenEmbedding(
        scope.child("source_embedding"), vocabulary_size_, common.width, common.table_initial());
  }
  StackOptions stack(const ModelOptions& options) const {
    return {.common = options, .memory = setting_.memory};
  }
  StackOptions encoder_stack() const {
    refuse(encoder_recompute_problem(options_, setting_.memory));
    return stack(options_.encoder());
  }
  StackOptions decoder_stack() const {
    StackOptions options = stack(options_.common);
    options.cross = CrossOptions{.wiring = options_.wiring,
                                 .encoder_layers = options_.encoder().layers,
                                 .encoder_width = options_.common.output_width()};
    return options;
  }
  MechanismFactory mechanisms_of(const ModelOptions& options, const FamilyTraits& traits) const {
    return mechanisms(options, options_.positions, traits, setting_.segment);
  }

  // What is read in place of tokens, of the positions that this rank has outside; undefined where
  // nothing is.
  Variable guessed_of(const Reading& reading, const TimeDivision& time) const {
    const Tensor& all = reading.guessed;
    if (!all.defined()) return {};
    const Ranges& positions = time.outside();
    const Tensor own =
        Tensor::empty(all.shape().with(1, count_of(positions)), all.dtype(), all.device());
    std::int64_t row = 0;
    for (const Range& range : positions) {
      on(all.device(), [&](auto backend) {
        copy_rows(backend, all, range.begin, own, row, range.count(), false);
      });
      row += range.count();
    }
    return Variable(own);
  }
  static Variable with(const Variable& guessed, const Variable& x) {
    return guessed.defined() ? add(x, guessed) : x;
  }

  // Of what the rows of `pass.time` hold.
  Variable embed(const TokenEmbedding& embedding,
                 const Positions& positions,
                 const Tensor& tokens,
                 const Pass& pass,
                 const Variable& guessed = {}) const {
    return drop(with(guessed, positions.embed(embedding, tokens, scale(), pass)),
                options_.common.dropout,
                pass.child("embedding"));
  }

  EncoderDecoderOptions options_;
  ModelSetting setting_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  Stack encoder_;
  Stack decoder_;
  std::optional<TokenEmbedding> source_embedding_;
  Positions source_positions_;
  Positions positions_;
};

}  // namespace

ModelOptions EncoderDecoderOptions::encoder() const {
  ModelOptions options = common;
  options.layers = encoder_layers.value_or(common.layers);
  if (!common.attention.encoder_kinds.empty())
    options.attention.kinds = common.attention.encoder_kinds;
  return options;
}

void declare(OptionTable& table, EncoderDecoderOptions& options, const PlannedSetting& planned) {
  declare(table, options.common, planned, decoder_traits);
  table.add("model.encoder_layers",
            options.encoder_layers,
            "layers of the encoder; none: model.layers, which are the decoder's",
            between(1, 1 << 16),
            fixes_weights());
  table.add(
      "model.cross_attention",
      options.wiring,
      "which of the encoder's outputs a layer of the decoder looks at: that of the last layer; "
      "of the same layer; of the same layer counted from the end; a learned mixture of all; or "
      "each of all",
      {{"last", Wiring::last},
       {"same", Wiring::same},
       {"reverse", Wiring::reverse},
       {"mix", Wiring::mix},
       {"full", Wiring::full}},
      fixes_weights());
  declare(table, options.positions, options.common, Sequences::examples, planned);
  table.add("model.embeddings",
            options.embeddings,
            "source and target have one table, or one each",
            {{"shared", EncoderDecoderOptions::Embeddings::shared},
             {"apart", EncoderDecoderOptions::Embeddings::apart}},
            fixes_weights());
  table.check({"model.cross_attention", "model.encoder_layers", "model.layers"}, [&options] {
    return wiring_problem(options.wiring,
                          options.encoder_layers.value_or(options.common.layers),
                          options.common.layers);
  });
  declare_source_look(table, options);
  declare_masked(table, options, planned);
  declare_encoder_attention(table, options, planned);
  if (planned)
    table.check({"model.guide", "data.train_alignments"}, [&options, &table]() -> std::string {
      const bool is_guided = options.source.guide == AttentionGuide::alignments;
      if (table.is_default("data.train_alignments") != is_guided) return "";
      return is_guided ? "model.guide is alignments, and data.train_alignments is not set; set "
                         "it to the file that has them"
                       : "data.train_alignments is set, and model.guide is not alignments; set "
                         "one to the other";
    });
  if (planned)
    table.check({"model.copy", "training.label_smoothing"}, [&options, planned]() -> std::string {
      if (!options.source.copies || planned().smoothing.share == 0) return "";
      return "model.copy is true, and training.label_smoothing is set; what is copied has one "
             "target: set training.label_smoothing to 0";
    });
  if (planned)
    table.check({"memory.recompute", "model.encoder_layers"}, [&options, planned] {
      return encoder_recompute_problem(options, planned().memory);
    });
}

BodyFactory encoder_decoder_body(const EncoderDecoderOptions& options) {
  return [options](const Scope& scope, const ModelSetting& setting) {
    refuse(writing_problem(options));
    refuse(alignment_problem(options));
    refuse(masked_problem(options, setting.sampling));
    for (const ModelOptions& stack : {options.common, options.encoder()})
      refuse(positions_problem(options.positions, stack, Sequences::examples, setting.segment));
    return std::make_unique<EncoderDecoder>(scope, options, setting);
  };
}

Family encoder_decoder_family() {
  return {
      "encoder_decoder",
      "an encoder and a decoder that looks at it (Vaswani et al. 2017); for run.task: translation",
      {"translation"},
      [](OptionTable& table, const PlannedSetting& planned) -> BodyFactory {
        const auto options = std::make_shared<EncoderDecoderOptions>();
        declare(table, *options, planned);
        return [options](const Scope& scope, const ModelSetting& setting) {
          return encoder_decoder_body(*options)(scope, setting);
        };
      }};
}

}  // namespace longspan
