#include "framework/nn/attention/cross_attention.h"

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// Returns n unit vectors, [1, n, 1, n].
Variable unit_vectors(std::int64_t n, const Parameters& parameters) {
  std::vector<double> unit(static_cast<std::size_t>(n * n), 0);
  for (std::int64_t i = 0; i < n; ++i) unit[static_cast<std::size_t>(i * (n + 1))] = 1;
  const Variable wide(Tensor::from<double>(unit, {1, n, 1, n}, parameters.device()));
  return cast(wide, parameters.compute_dtype());
}

// Returns softmax(scores), [1, n], as the attention output for unit vectors as keys and values.
Variable softmax(const Variable& scores, const Variable& units) {
  const std::int64_t n = scores.shape().elements();
  const Variable weights = attention(
      reshape(scores, {1, 1, 1, n}), units, units, {.rules = masks::everything()}, {.scale = 1});
  return reshape(weights, {1, n});
}

Variable mean(const std::vector<Variable>& all) {
  const double share = 1 / static_cast<double>(all.size());
  const Tensor y = all.front().value().empty_like(MemoryTag::activations);
  on(y.device(), [&](auto backend) {
    scale(backend, share, all.front().value(), y);
    for (std::size_t i = 1; i < all.size(); ++i) accumulate(backend, share, all[i].value(), y);
  });
  return record(y, all, [share, count = all.size()](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor part = dy.empty_like();
    on(dy.device(), [&](auto backend) { scale(backend, share, dy, part); });
    for (std::size_t i = 0; i < count; ++i)
      if (gradients.needs_gradient(i)) gradients.set(i, part);
  });
}

}  // namespace

std::string validate_wiring(CrossAttentionMapping wiring,
                            std::int64_t encoder_layers,
                            std::int64_t decoder_layers) {
  if ((wiring != CrossAttentionMapping::same && wiring != CrossAttentionMapping::reverse) ||
      encoder_layers == decoder_layers)
    return "";
  return fmt::format(
      "model.cross_attention.layer_mapping: {} requires equal numbers of encoder "
      "and decoder layers, found {} and {}",
      wiring == CrossAttentionMapping::same ? "same" : "reverse",
      encoder_layers,
      decoder_layers);
}

CrossAttention::CrossAttention(const Scope& scope,
                               const Options& options,
                               std::unique_ptr<AttentionOp> mechanism)
    : attention_(scope, options.attention, std::move(mechanism)),
      wiring_(options.wiring),
      layer_(static_cast<std::size_t>(options.layer)),
      encoder_layers_(static_cast<std::size_t>(options.encoder_layers)) {
  if (wiring_ != CrossAttentionMapping::mix) return;
  mixture_ = scope.weight("mixture", {options.encoder_layers}, Initializer::constant(0));
  units_ = unit_vectors(options.encoder_layers, scope.parameters());
}

EncoderOutput CrossAttention::mixture(const std::vector<EncoderOutput>& sides) const {
  const Shape shape = sides.front().rows.shape();
  const std::int64_t elements = shape.elements();
  Variable all;
  for (const EncoderOutput& side : sides)
    all = concat_time(all, reshape(side.rows, {elements, 1, 1}));
  const auto n = static_cast<std::int64_t>(sides.size());
  EncoderOutput result = sides.front();
  result.rows = reshape(
      linear(reshape(all, {elements, n}), softmax(mixture_->variable, units_), Variable()), shape);
  return result;
}

template <typename Look>
Variable CrossAttention::each_side(const std::vector<EncoderOutput>& sides,
                                   const ForwardContext& pass,
                                   const Look& look) const {
  const std::size_t wanted = reads_all_layers(wiring_) ? encoder_layers_ : 1;
  require(sides.size() == wanted,
          "cross-attention: expected the outputs of {} layers, found {}",
          wanted,
          sides.size());
  if (wiring_ == CrossAttentionMapping::same) return look(sides[layer_], pass);
  if (wiring_ == CrossAttentionMapping::reverse)
    return look(sides[encoder_layers_ - 1 - layer_], pass);
  // When decoding continues, the cache has the mixture's keys, and its rows are no longer
  // available.
  if (wiring_ == CrossAttentionMapping::mix)
    return look(sides.front().rows.defined() ? mixture(sides) : sides.front(), pass);
  if (wiring_ == CrossAttentionMapping::last) return look(sides.front(), pass);
  std::vector<Variable> found;
  for (std::size_t i = 0; i < sides.size(); ++i) found.push_back(look(sides[i], pass.child(i)));
  return mean(found);
}

Variable CrossAttention::operator()(const Variable& x,
                                    const std::vector<EncoderOutput>& sides,
                                    const ForwardContext& pass) const {
  return each_side(sides, pass, [&](const EncoderOutput& side, const ForwardContext& own) {
    return attention_(x, side, side.key_context(), own);
  });
}

Variable CrossAttention::probabilities(const Variable& x,
                                       const std::vector<EncoderOutput>& sides,
                                       std::int64_t heads,
                                       const ForwardContext& pass) const {
  return each_side(sides, pass, [&](const EncoderOutput& side, const ForwardContext& own) {
    return attention_.probabilities(x, side, heads, own);
  });
}

}  // namespace longspan
