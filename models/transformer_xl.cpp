#include "models/transformer_xl.h"

#include <cmath>

#include "framework/nn/attention/relative_attention.h"
#include "framework/nn/embedding.h"
#include "framework/nn/positions.h"
#include "models/stack.h"

namespace longspan {
namespace {

class TransformerXl : public Model {
 public:
  TransformerXl(const TransformerXlOptions& options,
                const ModelSetting& setting,
                std::unique_ptr<Parameters> parameters)
      : Model(std::move(parameters)),
        options_(options),
        vocabulary_size_(vocabulary_of(options.common, setting.vocabulary)),
        embedding_(Scope(this->parameters()).child("embedding"),
                   vocabulary_size_,
                   options.common.width,
                   options.common.initial()),
        patterns_(attention_patterns(options.common.attention,
                                     options.common.attention_setting(true, setting.segment))),
        layers_(layers(Scope(this->parameters()), setting.memory)),
        residual_(make_residual(options.common, setting.memory)),
        output_(Scope(this->parameters()).child("output"),
                {.vocabulary = vocabulary_size_,
                 .width = options.common.output_width(),
                 .bias = options.output_bias,
                 .initial = options.common.initial(),
                 .chunks = setting.memory.loss_chunks},
                options.common.tied_embeddings ? embedding_.table() : nullptr) {
    if (options.common.has_final_norm())
      final_norm_.emplace(Scope(this->parameters()).child("final_norm"),
                          options.common.output_width(),
                          initial_gain());
    this->parameters().allocate(setting.random);
  }

  SegmentResult losses_of(const Segment& segment, const Pass& pass) const override {
    SegmentResult result;
    const Variable hidden = run(segment, pass, result.memory);
    result.losses = output_.losses(hidden, segment.targets, pass.time);
    return result;
  }
  SegmentResult logits_of(const Segment& segment, const Pass& pass) const override {
    SegmentResult result;
    const Variable hidden = run(segment, pass, result.memory);
    result.logits = output_.logits(hidden, pass.time, segment.only_last);
    return result;
  }

  std::int64_t longest_memory() const override { return options_.memory; }
  std::int64_t memory_layers() const override { return options_.common.layers; }
  std::int64_t memory_width() const override { return options_.common.width; }
  const Part& vocabulary() const override { return output_.part(); }

  FlopCount flops(std::int64_t streams, std::int64_t time, std::int64_t memory) const override {
    return stack_flops(options_.common,
                       {.streams = streams,
                        .time = time,
                        .memory = memory,
                        .vocabulary = vocabulary_size_,
                        .pairs = stack_pairs(options_.common,
                                             patterns_,
                                             rules(options_.memory),
                                             time,
                                             memory,
                                             parameters().device()),
                        .relative = true});
  }

 private:
  Initial initial_gain() const { return Initial::normal(options_.common.initial_deviation, 1); }

  std::vector<Layer> layers(const Scope& scope, const MemoryOptions& memory) const {
    const ModelOptions& common = options_.common;
    std::optional<PositionBiases> shared;
    const auto biases = [&](const Scope& where) {
      return PositionBiases(where, common.heads, common.head_dim(), common.initial());
    };
    if (options_.share_position_biases) shared = biases(scope);
    return make_layers(scope,
                       {.common = common,
                        .attention_bias = false,
                        .initial_out = common.initial(),
                        .memory = memory,
                        .initial_gain = initial_gain()},
                       [&](const Scope& attention, std::int64_t layer) {
                         return std::make_unique<RelativeAttention>(
                             attention,
                             RelativeAttention::Options{.width = common.width,
                                                        .heads = common.heads,
                                                        .dim = common.head_dim(),
                                                        .dropout = common.attention_dropout,
                                                        .initial = common.initial()},
                             shared ? *shared : biases(attention),
                             patterns_[static_cast<std::size_t>(layer)]);
                       });
  }

  Mask rules(std::int64_t longest_memory) const {
    return options_.same_length && longest_memory > 0
               ? masks::causal() & masks::window(longest_memory - 1, 0)
               : masks::causal();
  }

  SegmentContext context(const Segment& segment, const Pass& pass) const {
    const std::int64_t memory = segment.memory.length();
    const Tensor table = sinusoids(SinusoidLayout::halves,
                                   0,
                                   memory + pass.time.total,
                                   options_.common.width,
                                   options_.clamp_length.value_or(-1),
                                   parameters().compute_dtype(),
                                   parameters().device());
    // The encodings are one table for all streams: dropped alike on every rank.
    Pass positions = pass.child("positions");
    positions.first_stream = 0;
    positions.time = {};
    const Shape flat = table.shape();
    const Variable dropped =
        drop(Variable(table.reshape({1, flat[0], flat[1]})), options_.common.dropout, positions);
    return {.mask = {.rules = rules(segment.longest_memory), .query_begin = memory},
            .distances = reshape(dropped, flat)};
  }

  Variable run(const Segment& segment, const Pass& pass, SegmentMemory& next) const {
    const double dropout = options_.common.dropout;
    const double scale = std::sqrt(static_cast<double>(options_.common.width));
    const Variable x =
        drop(embedding_(segment.tokens, scale, pass.time), dropout, pass.child("embedding"));
    std::vector<Variable> memories;
    for (const Tensor& layer : segment.memory.layers) memories.emplace_back(layer);
    const auto keep = [&](std::size_t layer, const Tensor& input) {
      if (segment.longest_memory == 0) return;
      const Tensor before = memories.empty() ? Tensor() : segment.memory.layers[layer];
      next.layers.push_back(remember(before,
                                     segment.memory.length(),
                                     input,
                                     pass.time.total,
                                     segment.longest_memory,
                                     parameters().mesh()));
    };
    Variable hidden =
        residual_->run(layers_, x, memories, context(segment, pass), pass.child("layers"), keep);
    if (final_norm_) hidden = (*final_norm_)(hidden);
    return drop(hidden, dropout, pass.child("output"));
  }

  TransformerXlOptions options_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  std::vector<AttentionPattern> patterns_;  // of each layer
  std::vector<Layer> layers_;
  std::unique_ptr<Residual> residual_;
  OutputLayer output_;
  std::optional<Norm> final_norm_;
};

}  // namespace

void declare(OptionTable& table, TransformerXlOptions& options, const PlannedSetting& planned) {
  declare(table, options.common, planned, {.memory = true});
  table.add("model.memory",
            options.memory,
            "rows of each layer's input that training remembers of earlier segments",
            between(0, longest_sequence));
  table.add("model.same_length",
            options.same_length,
            "every query sees at most as many keys as the memory is long");
  table.add("model.clamp_length",
            options.clamp_length,
            "distances beyond it are encoded as it; none: no limit",
            between(0, longest_sequence));
  table.add("model.share_position_biases",
            options.share_position_biases,
            "one pair of position biases u and v for all layers",
            fixes_weights());
  table.add(
      "model.output_bias", options.output_bias, "a bias of the output layer", fixes_weights());
  table.check({"model.same_length", "model.memory"}, [&options]() -> std::string {
    if (!options.same_length || options.memory > 0) return "";
    return "model.same_length needs model.memory of at least 1";
  });
}

std::unique_ptr<Model> make_transformer_xl(const TransformerXlOptions& options,
                                           const ModelSetting& setting) {
  return std::make_unique<TransformerXl>(
      options,
      setting,
      std::make_unique<Parameters>(setting.device, setting.compute, setting.mesh, setting.sharing));
}

Family transformer_xl_family() {
  return {"transformer_xl",
          "language model with segment memory and relative positions (Dai et al. 2019)",
          [](OptionTable& table, const PlannedSetting& planned) -> ModelFactory {
            const auto options = std::make_shared<TransformerXlOptions>();
            declare(table, *options, planned);
            return [options](const ModelSetting& setting) {
              return make_transformer_xl(*options, setting);
            };
          }};
}

}  // namespace longspan
