#include "models/stack.h"

#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/residual/gated.h"
#include "framework/nn/separable_convolution.h"

namespace longspan {

namespace {

// Creates the sublayers of one layer. Closures are copied; the modules in them are shared.
class LayerMaker {
 public:
  LayerMaker(const Scope& layer, const StackOptions& options) : layer_(layer), options_(options) {}

  Sublayer attention(const AttentionOpFactory& mechanism, std::int64_t place) const {
    const Scope scope = layer_.child("attention");
    AttentionOrMixer made = mechanism(scope, place);
    if (auto* const own = std::get_if<std::unique_ptr<TokenMixer>>(&made))
      return sublayer(
          scope,
          Reads::memory,
          [mixer = std::shared_ptr<const TokenMixer>(std::move(*own))](
              const Variable& x, const SublayerInputs& reads, const ForwardContext& pass) {
            return (*mixer)(x, reads.context, pass);
          });
    MultiHeadAttention::Options options = heads();
    options.rotary = options_.rotary;
    options.output_gate = options_.common.output_gate;
    const auto attention = std::make_shared<MultiHeadAttention>(
        scope, options, std::get<std::unique_ptr<AttentionOp>>(std::move(made)));
    if (attention->reads_first_value()) return value_residual(scope, attention, place);
    return sublayer(
        scope,
        Reads::memory,
        [attention](const Variable& x, const SublayerInputs& reads, const ForwardContext& pass) {
          return (*attention)(x, reads.memory, reads.context, pass);
        });
  }
  // Attention that also reads the values of the stack's first layer.
  Sublayer value_residual(const Scope& scope,
                          const std::shared_ptr<const MultiHeadAttention>& attention,
                          std::int64_t place) const {
    Sublayer made = sublayer(
        scope,
        Reads::sides,
        [attention](const Variable& x, const SublayerInputs& reads, const ForwardContext& pass) {
          AttentionContext context = reads.context;
          context.first_value = reads.encoder_outputs.front().rows;
          return (*attention)(x, Variable(), context, pass);
        });
    if (place == 0)
      made.first_value = [attention](const Variable& x,
                                     const AttentionContext& context,
                                     const ForwardContext& pass) {
        return attention->first_value(x, context, pass);
      };
    return made;
  }

  Sublayer cross_attention(std::int64_t place) const {
    const Scope scope = layer_.child("cross_attention");
    CrossAttention::Options options = {.attention = heads(),
                                       .wiring = options_.cross->wiring,
                                       .layer = place,
                                       .encoder_layers = options_.cross->encoder_layers};
    options.attention.encoder_hidden_size = options_.cross->encoder_width;
    const auto attention = std::make_shared<CrossAttention>(
        scope,
        options,
        cross_attention_op(scope,
                           options_.cross->scores,
                           {.heads = options_.common.heads,
                            .dim = options_.common.head_dim(),
                            .dropout = options_.common.attention_dropout,
                            .initial = options_.common.initial()},
                           options_.common.products_scale()));
    Sublayer made = sublayer(
        scope,
        Reads::sides,
        [attention](const Variable& x, const SublayerInputs& reads, const ForwardContext& pass) {
          return (*attention)(x, reads.encoder_outputs, pass);
        });
    made.recorder = [attention](const Variable& x,
                                const SublayerInputs& reads,
                                const ForwardContext& pass,
                                std::int64_t heads) {
      return attention->probabilities(x, reads.encoder_outputs, heads, pass);
    };
    return made;
  }

  Sublayer transition() const {
    const Scope scope = layer_.child("feed_forward");
    return sublayer(scope, Reads::nothing, transition_of(scope));
  }
  // Parallel block: adds a feed-forward branch that reads the same norm.
  void add_transition(Sublayer& block) const {
    block.run = [branch = transition_of(layer_.child("feed_forward")), run = block.run](
                    const Variable& x, const SublayerInputs& reads, const ForwardContext& pass) {
      return add(run(x, reads, pass), branch(x, reads, pass.child("feed_forward")));
    };
  }

 private:
  decltype(Sublayer::run) transition_of(const Scope& scope) const {
    if (options_.recurrence && options_.recurrence->convolves()) return convolution(scope);
    return [feed = feed_forward(scope)](const Variable& x,
                                        const SublayerInputs&,
                                        const ForwardContext& pass) { return (*feed)(x, pass); };
  }
  decltype(Sublayer::run) convolution(const Scope& scope) const {
    const ModelOptions& common = options_.common;
    if (options_.memory.feed_forward_chunks > 1)
      throw ConfigurationError(
          "memory.num_feed_forward_chunks: model.recurrence.transition: separable_convolution "
          "supports only 1");
    const auto convolution = std::make_shared<const SeparableConvolution>(
        scope,
        SeparableConvolution::Options{.width = common.width,
                                      .hidden = common.hidden(),
                                      .kernel_sizes = options_.recurrence->kernel_sizes,
                                      .activation = nonlinearity(common.activation),
                                      .dropout = common.dropout,
                                      .initial = common.initial(),
                                      .initial_out = options_.initial_out,
                                      .bias = common.feed_forward_bias});
    return
        [convolution](const Variable& x, const SublayerInputs& reads, const ForwardContext& pass) {
          return (*convolution)(x, reads.context, pass);
        };
  }
  std::shared_ptr<const FeedForward> feed_forward(const Scope& scope) const {
    const ModelOptions& common = options_.common;
    return std::make_shared<const FeedForward>(
        scope,
        FeedForward::Options{.width = common.width,
                             .hidden = common.hidden(),
                             .activation = nonlinearity(common.activation),
                             .dropout = common.dropout,
                             .initial = common.initial(),
                             .initial_out = options_.initial_out,
                             .chunks = options_.memory.feed_forward_chunks,
                             .gated = common.gated(),
                             .bias = common.feed_forward_bias});
  }
  MultiHeadAttention::Options heads() const {
    return {.width = options_.common.width,
            .heads = options_.common.heads,
            .dim = options_.common.head_dim(),
            .key_heads = options_.common.key_heads,
            .bias = options_.attention_bias ? options_.common.projection_biases()
                                            : ProjectionBiases(false),
            .query_key_norm = options_.common.query_key_norm
                                  ? std::optional(options_.common.norm_form())
                                  : std::nullopt,
            .initial = options_.common.initial(),
            .initial_out = options_.initial_out};
  }
  Sublayer sublayer(const Scope& scope, Reads reads, decltype(Sublayer::run) run) const {
    const Norm norm(scope.child("norm"),
                    options_.common.width,
                    options_.common.norm_form(),
                    options_.initial_gain);
    return {.norm = norm,
            .reads = reads,
            .run = std::move(run),
            .name = scope.path(),
            .gate = gate(scope)};
  }
  std::shared_ptr<const Gate> gate(const Scope& scope) const {
    const ModelOptions& common = options_.common;
    if (common.residual != ResidualKind::gated) return nullptr;
    const Gate::Options options = {.kind = common.gate.kind,
                                   .width = common.width,
                                   .bias = common.gate.bias,
                                   .biases = common.gate.biases};
    return std::make_shared<const Gate>(scope.child("gate"), options);
  }

  const Scope layer_;
  const StackOptions& options_;
};

}  // namespace

std::vector<Layer> make_layers(const Scope& scope,
                               const StackOptions& options,
                               const AttentionOpFactory& mechanism) {
  const std::int64_t count = options.common.layers;
  throw_if_error(validate_feed_forward(options.common));
  if (options.cross)
    throw_if_error(validate_wiring(options.cross->wiring, options.cross->encoder_layers, count));
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < count; ++i) {
    const LayerMaker make(scope.child("layers").child(i), options);
    Layer layer;
    layer.sublayers.push_back(make.attention(mechanism, i));
    if (options.common.use_parallel_residual) {
      make.add_transition(layer.sublayers.back());
    } else {
      if (options.cross) layer.sublayers.push_back(make.cross_attention(i));
      if (options.common.has_feed_forward()) layer.sublayers.push_back(make.transition());
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::unique_ptr<Residual> make_residual(const ModelOptions& options, const MemoryOptions& memory) {
  throw_if_error(validate_recompute(options, memory));
  throw_if_error(validate_reconstruction(options, memory));
  if (options.residual == ResidualKind::plain)
    return std::make_unique<StandardResidual>(
        options.norm, options.dropout, memory.recomputation());
  if (options.residual == ResidualKind::gated)
    return std::make_unique<GatedResidual>(GatedResidual::Options{
        .dropout = options.dropout, .relu = options.gate.relu, .again = memory.recomputation()});
  return std::make_unique<ReversibleResidual>(options.reversible_output,
                                              options.dropout,
                                              memory.stores_streams
                                                  ? ReversibleResidual::Streams::kept
                                                  : ReversibleResidual::Streams::rebuilt);
}

double sequence_share(const ForwardContext& pass) {
  if (!pass.kv_cache || !pass.kv_cache->sequence()) return 1;
  const ChunkedSequence& sequence = *pass.kv_cache->sequence();
  return static_cast<double>(sequence.chunk(pass.kv_cache->chunk()).count()) /
         static_cast<double>(sequence.total);
}

Ranges positions_of(const ForwardContext& pass) {
  Ranges positions = pass.time.outside();
  if (!pass.kv_cache) return positions;
  for (Range& range : positions) {
    range.begin += pass.kv_cache->positions();
    range.end += pass.kv_cache->positions();
  }
  return positions;
}

std::int64_t end_of(const ForwardContext& pass) {
  return pass.time.total + (pass.kv_cache ? pass.kv_cache->positions() : 0);
}

OutputHeadSpec output_head_spec(const ModelOptions& options) {
  OutputHeadSpec end = {.width = options.output_width(), .initial = options.table_initial()};
  if (options.has_final_norm()) end.norm = Initializer::constant(1);
  end.norm_form = options.norm_form();
  end.logit_scale = options.logits_factor();
  end.logit_cap = options.logit_cap;
  return end;
}

Stack::Stack(const Scope& scope, const StackOptions& options, const AttentionOpFactory& mechanism)
    : layers_(make_layers(scope, options, mechanism)),
      residual_(make_residual(options.common, options.memory)) {
  if (options.common.has_final_norm())
    final_norm_.emplace(scope.child("final_norm"),
                        options.common.output_width(),
                        options.common.norm_form(),
                        options.initial_gain);
}

Variable Stack::normed(const Variable& y, const ForwardContext& pass, const Tensor& length) const {
  return final_norm_ ? (*final_norm_)(y, pass.child("final_norm"), length) : y;
}

Stack::Stack(const Scope& scope,
             const StackOptions& options,
             const AttentionOpFactory& mechanism,
             const ModelBuildOptions& setting)
    : Stack(scope, options, mechanism) {
  if (!options.recurrence || !options.recurrence->is_recurrent()) return;
  Recurrence::Options steps = {.recurrence = *options.recurrence,
                               .positions = options.positions,
                               .width = options.common.width,
                               .initial = options.common.table_initial(),
                               .reversible = options.common.residual == ResidualKind::reversible};
  // Location attention reads the attention weights of the previous position, even if it has halted.
  if (options.cross && options.cross->scores.kind == CrossAttentionScore::location)
    steps.recurrence.halting.compaction = false;
  recurrence_.emplace(scope, steps, setting);
}

Variable Stack::run(const Variable& x,
                    const StackInputs& reads,
                    const ForwardContext& pass,
                    const LayerRecorder& watch,
                    const GivePondered& give) const {
  if (recurrence_) return recurrence_->run(layers_, *residual_, x, reads, pass, watch, give);
  return residual_->run(layers_, x, reads, pass.child("layers"), watch);
}

Variable Stack::operator()(const Variable& x,
                           const StackInputs& reads,
                           const ForwardContext& pass,
                           const LayerRecorder& watch,
                           const GivePondered& give) const {
  return normed(run(x, reads, pass, watch, give), pass, reads.context.mask.key_length);
}

std::vector<EncoderOutput> Stack::encode(const Variable& x,
                                         const EncoderOutput& source,
                                         CrossAttentionMapping wiring,
                                         ForwardContext pass,
                                         const GivePondered& add_ponder_gradient) const {
  pass.time = source.time;
  std::vector<EncoderOutput> sides;
  const auto give = [&](std::size_t layer, const Variable& output) {
    sides.push_back(source);
    sides.back().rows = normed(output, pass.child("side").child(layer), source.length);
  };
  LayerRecorder watch;
  if (reads_all_layers(wiring)) watch.output = give;
  const Variable last = run(x, {.context = source.key_context()}, pass, watch, add_ponder_gradient);
  if (!reads_all_layers(wiring)) give(0, last);
  return sides;
}

}  // namespace longspan
