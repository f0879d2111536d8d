#include "models/encoder_decoder.h"

#include <algorithm>

#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/embedding.h"
#include "models/attention_ops.h"
#include "models/declare_family.h"
#include "models/non_autoregressive_decoder.h"
#include "models/stack.h"

namespace longspan {
namespace {

const PonderedNames encoding = {.prefix = "encoder_", .count = "source_positions"};
const PonderedNames decoding = {.prefix = "decoder_", .count = "target_positions"};

class EncoderDecoder : public Backbone {
 public:
  EncoderDecoder(const Scope& scope,
                 const EncoderDecoderOptions& options,
                 const ModelBuildOptions& setting)
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

  BackboneOutput run(const ModelInput& reading, const ForwardContext& pass) const override {
    const Device& device = setting_.device;
    BackboneOutput states;
    states.time = pass.time;
    StackInputs reads;
    reads.encoder_outputs =
        reading.encoder_outputs.empty() ? sides(reading, pass, states) : reading.encoder_outputs;
    // Later passes over the target see no padding: it comes after all other positions.
    if (!pass.kv_cache)
      reads.context.mask.key_length = copy_async(field_of(reading.fields, "length"), device);
    if (masked()) reads.context.mask.rules = masks::everything();
    const ForwardContext writing = pass.child("decoder");
    const Tensor tokens = columns_of(reading, "tokens", pass.time, device);
    const Variable guessed = guessed_of(reading, pass.time);
    const Variable y = input_(embedding_, tokens, writing, reads.context.mask.key_length, guessed);
    LayerRecorder watch;
    if (looks(pass)) watch.side = watched(states.cross_attention_weights.attention);
    if (masked() && reading.encoder_outputs.empty()) {
      states.encoder_outputs = reads.encoder_outputs;
      // Context ranks read the same rows.
      states.watched.push_back(out_of_range_lengths(reading.fields, options_.masking));
      if (setting_.mesh.context.rank() > 0) states.watched.back().sum = 0;
    }
    states.hidden = decoder_(y, reads, writing, watch, pondered(states, decoding));
    if (options_.source.copies)
      states.cross_attention_weights.embedding =
          with(guessed, embedding_(tokens, scale(), pass.time));
    return states;
  }

  OutputHeadSpec end() const override {
    // The decoder stack includes the final norm.
    OutputHeadSpec end = {.width = options_.common.output_width(),
                          .logit_scale = options_.common.logits_factor(),
                          .initial = options_.common.table_initial()};
    if (options_.common.tied_embeddings) end.table = embedding_.table();
    end.source = options_.source;
    end.embedding_width = options_.common.width;
    if (masked())
      end.masked =
          NatTargets{options_.masking, vocabulary_size_ - 1, options_.common.output_width()};
    return end;
  }
  Tensor mixed_embeddings(const Tensor& weights) const override {
    return embedding_.soft_embedding(weights, scale());
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
    return prepare_nat_batch(result, vocabulary_size_ - 1, options_.masking, place);
  }
  bool supports_kv_cache() const override { return !masked(); }
  std::string whole_sequence_setting() const override { return options_.whole_target_setting(); }
  std::vector<EncoderOutput> encode(const ModelInput& reading,
                                    const ForwardContext& pass) const override {
    BackboneOutput unused;  // without adaptive steps an encoder adds no losses
    return sides(reading, pass, unused);
  }
  std::int64_t vocabulary() const override { return vocabulary_size_; }
  std::int64_t max_segment_length() const override {
    std::int64_t longest = shorter_of(input_.longest(), decoder_.longest());
    for (const ModelOptions& stack : {options_.common, options_.encoder()})
      longest = shorter_of(longest, max_sequence_length_of(stack.attention, setting_.segment));
    return longest;
  }

 private:
  bool masked() const { return options_.decoder == EncoderDecoderOptions::Decoder::masked; }
  // Whether the pass needs cross-attention weights: copying always, losses only in training.
  bool looks(const ForwardContext& pass) const {
    return options_.source.copies || (pass.training && options_.source.is_requested());
  }
  CrossAttentionRecorder watched(Variable& attention) const {
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
  // Adds the ponder cost of a stack to `states`.
  GivePondered pondered(BackboneOutput& states, const PonderedNames& names) const {
    return [this, &states, names](const ActResult& found) {
      add_ponder_loss(found, options_.recurrence.ponder_weight, names, setting_.mesh, states);
    };
  }

  // Encoder outputs for cross-attention. During incremental decoding their keys are cached already.
  std::vector<EncoderOutput> sides(const ModelInput& reading,
                                   const ForwardContext& pass,
                                   BackboneOutput& states) const {
    if (pass.kv_cache && pass.kv_cache->positions() > 0)
      return std::vector<EncoderOutput>(static_cast<std::size_t>(
          reads_all_layers(options_.wiring) ? options_.encoder().layers : 1));
    const std::int64_t time = field_of(reading.fields, "source").shape()[1];
    const EncoderOutput side = {
        .time = pass.kv_cache ? replicate_sequence(time) : shard_sequence(setting_.mesh, time),
        .length = copy_async(field_of(reading.fields, "source_length"), setting_.device)};
    ForwardContext reads = pass.child("encoder");
    reads.time = side.time;
    reads.kv_cache = nullptr;
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
    options.cross = CrossAttentionOptions{.wiring = options_.wiring,
                                          .scores = options_.scores,
                                          .encoder_layers = options_.encoder().layers,
                                          .encoder_width = options_.common.output_width()};
    return options;
  }
  AttentionOpFactory mechanisms_of(const Scope& stack,
                                   const ModelOptions& options,
                                   const FamilyTraits& traits) const {
    return attention_ops(stack, options, options_.positions, traits, setting_.segment);
  }

  // Returns soft embeddings that replace tokens, for this rank's positions outside split regions;
  // undefined if there are none.
  Variable guessed_of(const ModelInput& reading, const SequenceShard& time) const {
    const Tensor& all = reading.soft_embeddings;
    if (!all.defined()) return {};
    const Ranges& positions = time.outside();
    const Tensor own =
        Tensor::empty(all.shape().with(1, total_count(positions)), all.dtype(), all.device());
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
  ModelBuildOptions setting_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  Stack encoder_;
  Stack decoder_;
  std::optional<TokenEmbedding> source_embedding_;
  TokenInput source_input_;
  TokenInput input_;
};

}  // namespace

BackboneFactory encoder_decoder_body(const EncoderDecoderOptions& options) {
  return [options](const Scope& scope, const ModelBuildOptions& setting) {
    throw_if_error(problem_of(options, setting.memory));
    throw_if_error(validate_masked(options, setting.sampling));
    for (const ModelOptions& stack : {options.common, options.encoder()})
      throw_if_error(
          validate_positions(options.positions, stack, Sequences::examples, setting.segment));
    return std::make_unique<EncoderDecoder>(scope, options, setting);
  };
}

Family encoder_decoder_family() {
  return {"encoder_decoder",
          "encoder and decoder with cross-attention (Vaswani et al. 2017), for run.task: "
          "translation",
          {"translation"},
          declared(encoder_decoder_body)};
}

}  // namespace longspan
