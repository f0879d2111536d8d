#include "models/encoder_decoder.h"

#include <cmath>

#include "framework/core/queued_copy.h"
#include "framework/nn/attention/kept_keys.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/embedding.h"
#include "framework/nn/positions.h"
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

class EncoderDecoder : public Body {
 public:
  EncoderDecoder(const Scope& scope,
                 const EncoderDecoderOptions& options,
                 const ModelSetting& setting)
      : options_(options),
        setting_(setting),
        vocabulary_size_(vocabulary_of(options.common, setting.vocabulary)),
        embedding_(scope.child("embedding"),
                   vocabulary_size_,
                   options.common.width,
                   options.common.table_initial()),
        encoder_(scope.child("encoder"), encoder_stack(), mechanisms(encoder_options(), false)),
        decoder_(scope.child("decoder"), decoder_stack(), mechanisms(decoder_options(), true)) {
    if (options.embeddings == EncoderDecoderOptions::Embeddings::apart)
      source_embedding_.emplace(scope.child("source_embedding"),
                                vocabulary_size_,
                                options.common.width,
                                options.common.table_initial());
    if (options.positions == EncoderDecoderOptions::Positions::learned)
      for (const char* side : {"encoder", "decoder"})
        tables_.push_back(scope.child(side).weight(
            "positions/weight", {longest(), options.common.width}, options.common.table_initial()));
  }

  States run(const Reading& reading, const Pass& pass) const override {
    const Device& device = setting_.device;
    StackReads reads;
    reads.sides = sides(reading, pass);
    if (!pass.kept)
      reads.context.mask.key_length = queued_to(field_of(reading.fields, "length"), device);
    const Pass writing = pass.child("decoder");
    const Variable y =
        embed(embedding_, columns_of(reading, "tokens", pass.time, device), 1, writing);
    return {.hidden = decoder_(y, reads, writing), .time = pass.time};
  }

  BodyEnd end() const override {
    // The decoder's stack ends with its norm.
    BodyEnd end = {.width = options_.common.output_width(),
                   .initial = options_.common.table_initial()};
    if (options_.common.tied_embeddings) end.table = embedding_.table();
    return end;
  }
  bool reads_on() const override { return true; }
  std::int64_t vocabulary() const override { return vocabulary_size_; }
  std::int64_t longest_segment() const override { return tables_.empty() ? 0 : longest(); }

 private:
  // What the decoder looks at. Of a reading that goes on its keys are kept already.
  std::vector<Side> sides(const Reading& reading, const Pass& pass) const {
    if (pass.kept && pass.kept->positions() > 0)
      return std::vector<Side>(reads_all_layers(options_.wiring) ? encoder_options().layers : 1);
    const std::int64_t time = field_of(reading.fields, "source").shape()[1];
    const Side side = {
        .time = pass.kept ? undivided_time(time) : divide_time(setting_.mesh, time),
        .length = queued_to(field_of(reading.fields, "source_length"), setting_.device)};
    Pass encoding = pass.child("encoder");
    encoding.time = side.time;
    encoding.kept = nullptr;
    const Variable x = embed(source_embedding_.value_or(embedding_),
                             columns_of(reading, "source", side.time, setting_.device),
                             0,
                             encoding);
    return encoder_.encode(x, side, options_.wiring, encoding);
  }

  std::int64_t longest() const { return options_.longest.value_or(setting_.segment); }
  ModelOptions decoder_options() const { return options_.common; }
  ModelOptions encoder_options() const {
    ModelOptions options = options_.common;
    options.layers = options_.encoder_layers.value_or(options.layers);
    return options;
  }
  StackOptions stack(const ModelOptions& options) const {
    return {.common = options, .memory = setting_.memory};
  }
  StackOptions encoder_stack() const {
    refuse(encoder_recompute_problem(options_, setting_.memory));
    return stack(encoder_options());
  }
  StackOptions decoder_stack() const {
    StackOptions options = stack(decoder_options());
    options.cross = CrossOptions{.wiring = options_.wiring,
                                 .encoder_layers = encoder_options().layers,
                                 .encoder_width = options_.common.output_width()};
    return options;
  }
  MechanismFactory mechanisms(const ModelOptions& options, bool causal) const {
    const auto patterns = attention_patterns(
        options.attention, options.attention_setting(false, setting_.segment, causal));
    return [options, patterns](const Scope&, std::int64_t layer) -> std::unique_ptr<Mechanism> {
      return std::make_unique<SoftmaxAttention>(options.attention_dropout,
                                                patterns[static_cast<std::size_t>(layer)]);
    };
  }

  // Of what the rows of `pass.time` hold, with their positions; `side`: whose table.
  Variable embed(const TokenEmbedding& embedding,
                 const Tensor& tokens,
                 std::size_t side,
                 const Pass& pass) const {
    const std::int64_t width = options_.common.width;
    const double scale = std::sqrt(static_cast<double>(width));
    const Ranges rows = positions_of(pass);
    Variable positions;
    if (tables_.empty()) {
      positions = Variable(sinusoids(
          SinusoidLayout::interleaved, rows, width, -1, setting_.compute, setting_.device));
    } else {
      require(end_of(pass) <= longest(),
              "a sequence of {} tokens is longer than model.longest = {}",
              end_of(pass),
              longest());
      positions = table_rows(tables_[side]->variable, rows);
    }
    const Variable x = scale_and_add_positions(embedding(tokens, 1, pass.time), scale, positions);
    return drop(x, options_.common.dropout, pass.child("embedding"));
  }

  EncoderDecoderOptions options_;
  ModelSetting setting_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  std::optional<TokenEmbedding> source_embedding_;
  std::vector<Weight> tables_;  // of learned positions: the encoder's, the decoder's
  Stack encoder_;
  Stack decoder_;
};

std::string learned_problem(const EncoderDecoderOptions& options, std::int64_t segment) {
  const bool is_learned = options.positions == EncoderDecoderOptions::Positions::learned;
  return is_learned ? positions_problem(options.longest, segment) : "";
}

}  // namespace

void declare(OptionTable& table, EncoderDecoderOptions& options, const PlannedSetting& planned) {
  declare(table, options.common, planned);
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
  table.add("model.positions",
            options.positions,
            "absolute positions",
            {{"sinusoidal", EncoderDecoderOptions::Positions::sinusoidal},
             {"learned", EncoderDecoderOptions::Positions::learned}},
            fixes_weights());
  table.add("model.longest",
            options.longest,
            "positions in a learned table; none: the longest that the data have",
            between(1, longest_sequence),
            fixes_weights());
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
  if (planned)
    table.check({"memory.recompute", "model.encoder_layers"}, [&options, planned] {
      return encoder_recompute_problem(options, planned().memory);
    });
  table.check({"model.attention"}, [&options]() -> std::string {
    if (!has_kind(options.common.attention, "lsh")) return "";
    return "model.attention: found lsh, whose hashes know no padding; an encoder_decoder reads "
           "padded batches";
  });
  if (!planned) return;
  table.check({"model.longest", "model.positions", "data.longest", "data.length_multiple"},
              [&options, planned] { return learned_problem(options, planned().segment); });
}

BodyFactory encoder_decoder_body(const EncoderDecoderOptions& options) {
  return [options](const Scope& scope, const ModelSetting& setting) {
    refuse(learned_problem(options, setting.segment));
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
