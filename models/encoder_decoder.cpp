#include "models/encoder_decoder.h"

#include <algorithm>

#include "framework/core/queued_copy.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/kept_keys.h"
#include "framework/nn/embedding.h"
#include "models/declared_body.h"
#include "models/masked_decoder.h"
#include "models/mechanisms.h"
#include "models/stack.h"

namespace longspan {
namespace {

const PonderedNames encoding = {.prefix = "encoder_", .count = "source_positions"};
const PonderedNames decoding = {.prefix = "decoder_", .count = "target_positions"};

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
                 mechanisms_of(scope.child("encoder"),
                               options_.encoder(),
                               EncoderDecoderOptions::encoder_traits()),
                 setting),
        decoder_(scope.child("decoder"),
                 decoder_stack(),
                 mechanisms_of(scope.child("decoder"), options_.common, options_.decoder_traits()),
                 setting),
        source_embedding_(source_embedding(scope)),
        source_input_(input_of(scope.child("encoder"))),
        input_(input_of(scope.child("decoder"))) {}

  States run(const Reading& reading, const Pass& pass) const override {
    const Device& device = setting_.device;
    States states;
    states.time = pass.time;
    StackReads reads;
    reads.sides = reading.sides.empty() ? sides(reading, pass, states) : reading.sides;
    if (!pass.kept)
      reads.context.mask.key_length = queued_to(field_of(reading.fields, "length"), device);
    if (masked()) reads.context.mask.rules = masks::everything();
    const Pass writing = pass.child("decoder");
    const Tensor tokens = columns_of(reading, "tokens", pass.time, device);
    const Variable guessed = guessed_of(reading, pass.time);
    const Variable y = input_(embedding_, tokens, writing, reads.context.mask.key_length, guessed);
    LayerWatch watch;
    if (looks(pass)) watch.side = watched(states.look.attention);
    if (masked() && reading.sides.empty()) {
      states.sides = reads.sides;
      // Context ranks read the same rows.
      states.watched.push_back(far_lengths(reading.fields, options_.masking));
      if (setting_.mesh.context.rank() > 0) states.watched.back().sum = 0;
    }
    states.hidden = decoder_(y, reads, writing, watch, pondered(states, decoding));
    if (options_.source.copies)
      states.look.embedding = with(guessed, embedding_(tokens, scale(), pass.time));
    return states;
  }

  BodyEnd end() const override {
    // The decoder's stack ends with its norm.
    BodyEnd end = {.width = options_.common.output_width(),
                   .logit_scale = options_.common.logits_factor(),
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
    Batch result = batch;
    if (options_.recurrence.adaptive())
      for (const auto& [field, names] :
           {std::pair("source_length", encoding), {"length", decoding}})
        result = counted(std::move(result), field, names.count);
    if (!masked()) return result;
    std::optional<Random> place;
    if (random) place = random->child("masking");
    return masked_words(result, vocabulary_size_ - 1, options_.masking, place);
  }
  bool reads_on() const override { return !masked(); }
  std::int64_t vocabulary() const override { return vocabulary_size_; }
  std::int64_t longest_segment() const override {
    std::int64_t longest = shorter_of(input_.longest(), decoder_.longest());
    for (const ModelOptions& stack : {options_.common, options_.encoder()})
      longest = shorter_of(longest, longest_sequence_of(stack.attention, setting_.segment));
    return longest;
  }

 private:
  bool masked() const { return options_.decoder == EncoderDecoderOptions::Decoder::masked; }
  // Copying is a part of every result, the losses of training alone.
  bool looks(const Pass& pass) const {
    return options_.source.copies || (pass.training && options_.source.is_wanted());
  }
  SideWatch watched(Variable& attention) const {
    const std::int64_t layers = options_.common.layers;
    return {.layer = static_cast<std::size_t>(options_.alignment_layer.value_or(layers - 1)),
            .heads = options_.alignment_heads,
            .give = [&attention](const Variable& seen) { attention = seen; }};
  }
  double scale() const { return options_.input.scale(options_.common.width); }

  TokenInput input_of(const Scope& scope) const {
    return TokenInput(scope,
                      options_.input,
                      positions_of_embedding(options_.positions, options_.recurrence),
                      options_.common,
                      setting_);
  }
  // `states` gets what a stack pondered.
  GivePondered pondered(States& states, const PonderedNames& names) const {
    return [this, &states, names](const Pondered& found) {
      add_pondered(found, options_.recurrence.ponder_weight, names, setting_.mesh, states);
    };
  }

  // What the decoder looks at. Of a reading that goes on its keys are kept already.
  std::vector<Side> sides(const Reading& reading, const Pass& pass, States& states) const {
    if (pass.kept && pass.kept->positions() > 0)
      return std::vector<Side>(static_cast<std::size_t>(
          reads_all_layers(options_.wiring) ? options_.encoder().layers : 1));
    const std::int64_t time = field_of(reading.fields, "source").shape()[1];
    const Side side = {
        .time = pass.kept ? undivided_time(time) : divide_time(setting_.mesh, time),
        .length = queued_to(field_of(reading.fields, "source_length"), setting_.device)};
    Pass reads = pass.child("encoder");
    reads.time = side.time;
    reads.kept = nullptr;
    const Tensor tokens = columns_of(reading, "source", side.time, setting_.device);
    const Variable x =
        source_input_(source_embedding_.value_or(embedding_), tokens, reads, side.length);
    return encoder_.encode(x, side, options_.wiring, reads, pondered(states, encoding));
  }

  std::optional<TokenEmbedding> source_embedding(const Scope& scope) const {
    if (options_.embeddings == EncoderDecoderOptions::Embeddings::shared) return std::nullopt;
    const ModelOptions& common = options_.common;
    return TokenEmbedding(
        scope.child("source_embedding"), vocabulary_size_, common.width, common.table_initial());
  }
  StackOptions stack(const ModelOptions& options) const {
    return {.common = options,
            .memory = setting_.memory,
            .recurrence = options_.recurrence,
            .positions = options_.positions,
            .rotary = rotary_of(options_.positions, options, setting_)};
  }
  StackOptions encoder_stack() const { return stack(options_.encoder()); }
  StackOptions decoder_stack() const {
    StackOptions options = stack(options_.common);
    options.cross = CrossOptions{.wiring = options_.wiring,
                                 .scores = options_.scores,
                                 .encoder_layers = options_.encoder().layers,
                                 .encoder_width = options_.common.output_width()};
    return options;
  }
  MechanismFactory mechanisms_of(const Scope& stack,
                                 const ModelOptions& options,
                                 const FamilyTraits& traits) const {
    return mechanisms(stack, options, options_.positions, traits, setting_.segment);
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

  EncoderDecoderOptions options_;
  ModelSetting setting_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  Stack encoder_;
  Stack decoder_;
  std::optional<TokenEmbedding> source_embedding_;
  TokenInput source_input_;
  TokenInput input_;
};

}  // namespace

BodyFactory encoder_decoder_body(const EncoderDecoderOptions& options) {
  return [options](const Scope& scope, const ModelSetting& setting) {
    refuse(problem_of(options, setting.memory));
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
      declared(encoder_decoder_body)};
}

}  // namespace longspan
