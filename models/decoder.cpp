#include "models/decoder.h"

#include <cmath>

#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/embedding.h"
#include "framework/nn/positions.h"
#include "models/stack.h"

namespace longspan {
namespace {

class Decoder : public Model {
 public:
  Decoder(const DecoderOptions& options,
          const ModelSetting& setting,
          std::unique_ptr<Parameters> parameters)
      : Model(std::move(parameters)),
        options_(options),
        longest_(options.longest.value_or(setting.segment)),
        vocabulary_size_(vocabulary_of(options.common, setting.vocabulary)),
        embedding_(scope().child("embedding"),
                   vocabulary_size_,
                   options.common.width,
                   options.common.initial()),
        positions_(learned() ? scope().weight("positions/weight",
                                              {longest_, options.common.width},
                                              options.common.initial())
                             : nullptr),
        patterns_(attention_patterns(options.common.attention,
                                     options.common.attention_setting(false, setting.segment))),
        layers_(layers(setting.memory)),
        residual_(make_residual(options.common, setting.memory)),
        output_(scope().child("output"),
                {.vocabulary = vocabulary_size_,
                 .width = options.common.output_width(),
                 .bias = false,
                 .initial = options.common.initial(),
                 .chunks = setting.memory.loss_chunks},
                options.common.tied_embeddings ? embedding_.table() : nullptr) {
    if (options.common.has_final_norm())
      final_norm_.emplace(scope().child("final_norm"), options.common.output_width());
    this->parameters().allocate(setting.random);
  }

  SegmentResult losses_of(const Segment& segment, const Pass& pass) const override {
    return {.losses = output_.losses(run(segment, pass), segment.targets, pass.time)};
  }
  SegmentResult logits_of(const Segment& segment, const Pass& pass) const override {
    return {.logits = output_.logits(run(segment, pass), pass.time, segment.only_last)};
  }

  std::int64_t longest_memory() const override { return 0; }
  std::int64_t longest_segment() const override { return learned() ? longest_ : 0; }
  std::int64_t memory_layers() const override { return 0; }
  std::int64_t memory_width() const override { return 0; }
  const Part& vocabulary() const override { return output_.part(); }

  FlopCount flops(std::int64_t streams, std::int64_t time, std::int64_t) const override {
    return stack_flops(
        options_.common,
        {.streams = streams,
         .time = time,
         .vocabulary = vocabulary_size_,
         .pairs = stack_pairs(
             options_.common, patterns_, masks::causal(), time, 0, parameters().device())});
  }

 private:
  bool learned() const { return options_.positions == DecoderOptions::Positions::learned; }
  Scope scope() { return Scope(parameters()); }

  std::vector<Layer> layers(const MemoryOptions& memory) {
    const ModelOptions& common = options_.common;
    // GPT-2: what writes to the stream starts smaller, so that its variance does not grow with
    // depth.
    const double depth = std::sqrt(2 * static_cast<double>(common.layers));
    return make_layers(scope(),
                       {.common = common,
                        .initial_out = Initial::normal(common.initial_deviation / depth),
                        .memory = memory},
                       [&](const Scope& scope, std::int64_t layer) -> std::unique_ptr<Mechanism> {
                         if (is_lsh(common.attention, layer))
                           return std::make_unique<LshAttention>(
                               scope,
                               LshAttention::Options{.lsh = common.attention.lsh,
                                                     .heads = common.heads,
                                                     .dropout = common.attention_dropout});
                         return std::make_unique<SoftmaxAttention>(
                             common.attention_dropout, patterns_[static_cast<std::size_t>(layer)]);
                       });
  }

  Variable embed(const Segment& segment, const Pass& pass) const {
    const Ranges& rows = pass.time.outside();
    if (learned()) {
      const std::int64_t time = pass.time.total;
      require(time <= longest_,
              "a segment of {} tokens is longer than model.longest = {}",
              time,
              longest_);
      return scale_and_add_positions(
          embedding_(segment.tokens, 1, pass.time), 1, table_rows(positions_->variable, rows));
    }
    const Tensor table = sinusoids(SinusoidLayout::interleaved,
                                   rows,
                                   options_.common.width,
                                   -1,
                                   parameters().compute_dtype(),
                                   parameters().device());
    const double scale = std::sqrt(static_cast<double>(options_.common.width));
    return scale_and_add_positions(
        embedding_(segment.tokens, 1, pass.time), scale, Variable(table));
  }

  Variable run(const Segment& segment, const Pass& pass) const {
    const Variable x = drop(embed(segment, pass), options_.common.dropout, pass.child("embedding"));
    const Variable hidden =
        residual_->run(layers_, x, {}, SegmentContext{}, pass.child("layers"), {});
    return final_norm_ ? (*final_norm_)(hidden) : hidden;
  }

  DecoderOptions options_;
  std::int64_t longest_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  Weight positions_;
  std::vector<AttentionPattern> patterns_;  // of each layer
  std::vector<Layer> layers_;
  std::unique_ptr<Residual> residual_;
  OutputLayer output_;
  std::optional<Norm> final_norm_;
};

// What keeps a learned table from such segments, as a sentence; empty where nothing does.
std::string table_problem(const DecoderOptions& options, std::int64_t segment) {
  if (options.positions != DecoderOptions::Positions::learned ||
      options.longest.value_or(segment) >= segment)
    return "";
  return fmt::format(
      "data.segment is {}, longer than model.longest = {}", segment, *options.longest);
}

}  // namespace

void declare(OptionTable& table, DecoderOptions& options, const PlannedSetting& planned) {
  declare(table, options.common, planned);
  table.add("model.positions",
            options.positions,
            "absolute positions",
            {{"sinusoidal", DecoderOptions::Positions::sinusoidal},
             {"learned", DecoderOptions::Positions::learned}},
            fixes_weights());
  table.add("model.longest",
            options.longest,
            "positions in a learned table; none: data.segment",
            between(1, longest_sequence),
            fixes_weights());
  if (!planned) return;
  table.check({"data.segment", "model.longest", "model.positions"},
              [&options, planned]() { return table_problem(options, planned().segment); });
}

std::unique_ptr<Model> make_decoder(const DecoderOptions& options, const ModelSetting& setting) {
  refuse(table_problem(options, setting.segment));
  return std::make_unique<Decoder>(
      options,
      setting,
      std::make_unique<Parameters>(setting.device, setting.compute, setting.mesh, setting.sharing));
}

Family decoder_family() {
  return {"decoder",
          "causal language model with absolute positions (GPT-2, Radford et al. 2019)",
          [](OptionTable& table, const PlannedSetting& planned) -> ModelFactory {
            const auto options = std::make_shared<DecoderOptions>();
            declare(table, *options, planned);
            return
                [options](const ModelSetting& setting) { return make_decoder(*options, setting); };
          }};
}

}  // namespace longspan
