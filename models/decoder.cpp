#include "models/decoder.h"

#include <cmath>

#include "framework/model/vocabulary_readout.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/embedding.h"
#include "framework/nn/positions.h"
#include "models/stack.h"

namespace longspan {
namespace {

class Decoder : public Body {
 public:
  Decoder(const Scope& scope, const DecoderOptions& options, const ModelSetting& setting)
      : options_(options),
        setting_(setting),
        longest_(options.longest.value_or(setting.segment)),
        vocabulary_size_(vocabulary_of(options.common, setting.vocabulary)),
        embedding_(scope.child("embedding"),
                   vocabulary_size_,
                   options.common.width,
                   options.common.table_initial()),
        positions_(learned() ? scope.weight("positions/weight",
                                            {longest_, options.common.width},
                                            options.common.table_initial())
                             : nullptr),
        patterns_(attention_patterns(options.common.attention,
                                     options.common.attention_setting(false, setting.segment))),
        layers_(layers(scope)),
        residual_(make_residual(options.common, setting.memory)) {}

  States run(const Reading& reading, const Pass& pass) const override {
    const Variable x = drop(embed(reading, pass), options_.common.dropout, pass.child("embedding"));
    return {.hidden = residual_->run(layers_, x, {}, pass.child("layers")), .time = pass.time};
  }

  BodyEnd end() const override {
    const ModelOptions& common = options_.common;
    BodyEnd end = body_end(common);
    if (common.tied_embeddings) end.table = embedding_.table();
    return end;
  }
  bool reads_on() const override { return !has_kind(options_.common.attention, "lsh"); }
  std::int64_t vocabulary() const override { return vocabulary_size_; }
  std::int64_t longest_segment() const override { return learned() ? longest_ : 0; }

 private:
  bool learned() const { return options_.positions == DecoderOptions::Positions::learned; }

  std::vector<Layer> layers(const Scope& scope) {
    const ModelOptions& common = options_.common;
    // GPT-2: what writes to the stream starts smaller, so that its variance does not grow with
    // depth.
    const double depth = std::sqrt(2 * static_cast<double>(common.layers));
    std::optional<Initial> initial_out;
    if (common.initial_deviation) initial_out = Initial::normal(*common.initial_deviation / depth);
    return make_layers(
        scope,
        {.common = common, .initial_out = initial_out, .memory = setting_.memory},
        [&](const Scope& attention, std::int64_t layer) -> std::unique_ptr<Mechanism> {
          if (is_lsh(common.attention, layer))
            return std::make_unique<LshAttention>(
                attention,
                LshAttention::Options{.lsh = common.attention.lsh,
                                      .heads = common.heads,
                                      .dropout = common.attention_dropout});
          return std::make_unique<SoftmaxAttention>(common.attention_dropout,
                                                    patterns_[static_cast<std::size_t>(layer)]);
        });
  }

  Variable embed(const Reading& reading, const Pass& pass) const {
    const Tensor tokens = columns_of(reading, "tokens", pass.time, setting_.device);
    const Ranges rows = positions_of(pass);
    if (learned()) {
      const std::int64_t time = end_of(pass);
      require(time <= longest_,
              "a segment of {} tokens is longer than model.longest = {}",
              time,
              longest_);
      return scale_and_add_positions(
          embedding_(tokens, 1, pass.time), 1, table_rows(positions_->variable, rows));
    }
    const Tensor table = sinusoids(SinusoidLayout::interleaved,
                                   rows,
                                   options_.common.width,
                                   -1,
                                   setting_.compute,
                                   setting_.device);
    const double scale = std::sqrt(static_cast<double>(options_.common.width));
    return scale_and_add_positions(embedding_(tokens, 1, pass.time), scale, Variable(table));
  }

  DecoderOptions options_;
  ModelSetting setting_;
  std::int64_t longest_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  Weight positions_;
  std::vector<AttentionPattern> patterns_;  // of each layer
  std::vector<Layer> layers_;
  std::unique_ptr<Residual> residual_;
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

BodyFactory decoder_body(const DecoderOptions& options) {
  return [options](const Scope& scope, const ModelSetting& setting) {
    refuse(table_problem(options, setting.segment));
    return std::make_unique<Decoder>(scope, options, setting);
  };
}

std::unique_ptr<Model> make_decoder(const DecoderOptions& options, const ModelSetting& setting) {
  return std::make_unique<Model>(setting, decoder_body(options), vocabulary_readout());
}

Family decoder_family() {
  return {"decoder",
          "causal language model with absolute positions (GPT-2, Radford et al. 2019)",
          {"language_model"},
          [](OptionTable& table, const PlannedSetting& planned) -> BodyFactory {
            const auto options = std::make_shared<DecoderOptions>();
            declare(table, *options, planned);
            return [options](const Scope& scope, const ModelSetting& setting) {
              return decoder_body(*options)(scope, setting);
            };
          }};
}

}  // namespace longspan
