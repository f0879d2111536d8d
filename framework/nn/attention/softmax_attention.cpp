#include "framework/nn/attention/softmax_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "framework/core/async_copy.h"

namespace longspan {

std::optional<AttentionDropout> probability_dropout(double rate,
                                                    const ProjectedQKV& input,
                                                    const AttentionMask& mask,
                                                    const ForwardContext& pass) {
  if (!pass.training || rate == 0) return std::nullopt;
  AttentionDropout dropout = {.rate = rate,
                              .random = pass.random.child("probabilities"),
                              .batch_begin = pass.first_stream,
                              .head_begin = input.heads.begin,
                              .heads_total = input.heads.total};
  if (input.chunk) {
    dropout.time_begin = input.chunk->begin;
    dropout.time_total = input.chunk->queries;
    dropout.keys_begin = mask.key_begin;
    dropout.keys_total = input.chunk->keys;
  }
  return dropout;
}

namespace {

Tensor positions_of(const Scope& stack, const RelativePositionBias::Options& options) {
  require(options.buckets >= 4 && options.buckets % 2 == 0 &&
              options.max_distance > options.buckets / 2,
          "relative position bias: expected an even number of at least 4 buckets and a maximum "
          "distance of more than half of it, found {} and {}",
          options.buckets,
          options.max_distance);
  const std::int64_t heads = stack.part(options.heads).count;
  const Device& device = stack.parameters().device();
  const Shape shape = {1, heads * (2 * options.max_distance + 1)};
  // On a meta device the model may exceed any memory.
  if (device.state().is_meta())
    return Tensor::empty(shape, DType::i64, device, MemoryTag::workspace);
  std::vector<std::int64_t> places;
  places.reserve(static_cast<std::size_t>(shape.elements()));
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t distance = -options.max_distance; distance <= options.max_distance;
         ++distance)
      places.push_back(h * options.buckets + relative_position_bucket(distance, options));
  return copy_async(Tensor::from<std::int64_t>(places, shape, device.host()), device);
}

// Columns can be folded only for a full causal sequence.
bool can_fold(const ProjectedQKV& input, const AttentionMask& mask) {
  const auto& shares = input.shares;
  const bool one_sequence = shares ? shares->queries_total == shares->keys_total
                                   : input.query.shape()[1] == input.key.shape()[1];
  const bool whole = !shares || input.key.shape()[2] % shares->ranks.size() == 0;
  return !input.chunk && one_sequence && whole && mask.query_begin == 0 && mask.key_begin == 0 &&
         mask.rules.one_for_all() && mask.rules.of(0) == masks::causal() &&
         !mask.key_padding.defined() && !mask.key_length.defined() &&
         !mask.max_lookback.defined() && !mask.sorted;
}

}  // namespace

// Rounds to f32 where Hugging Face Transformers does: quotients at or near an integer must fall
// into the same bucket.
std::int64_t relative_position_bucket(std::int64_t distance,
                                      const RelativePositionBias::Options& options) {
  const std::int64_t buckets = options.causal ? options.buckets : options.buckets / 2;
  const std::int64_t first = !options.causal && distance > 0 ? buckets : 0;
  const std::int64_t steps =
      options.causal ? std::max<std::int64_t>(-distance, 0) : std::abs(distance);
  const std::int64_t exact = buckets / 2;
  if (steps < exact) return first + steps;
  const auto logarithm = [](double x) { return static_cast<float>(std::log(x)); };
  const float times = static_cast<float>(steps) / static_cast<float>(exact);
  const double most = static_cast<double>(options.max_distance) / static_cast<double>(exact);
  const float share = logarithm(times) / logarithm(most);
  const auto beyond = static_cast<std::int64_t>(share * static_cast<float>(buckets - exact));
  return first + std::min(exact + beyond, buckets - 1);
}

RelativePositionBias::RelativePositionBias(const Scope& stack, const Options& options)
    : table_(stack.no_decay_weight(
          "relative_bias", {options.heads, options.buckets}, options.initial, 0)),
      places_(positions_of(stack, options)) {}

Variable RelativePositionBias::term() const {
  const Variable& table = table_->variable;
  const Variable wide = cast(table, accumulator_of(table.value().dtype()));
  const Variable column = reshape(wide, {table.shape().elements(), 1});
  const std::int64_t heads = table.shape()[0];
  return reshape(embedding(column, places_, 0, 1), {heads, places_.elements() / heads});
}

AttentionTerms SoftmaxAttention::terms() const {
  AttentionTerms terms;
  if (distances_.tables) terms.shaw = distances_.tables->term();
  terms.slopes = distances_.slopes;
  if (distances_.bias) terms.distance_bias = distances_.bias->term();
  form_.add_to(terms);
  return terms;
}

Variable SoftmaxAttention::by_pattern(const ProjectedQKV& input,
                                      const AttentionContext& context,
                                      const ForwardContext& pass) const {
  const std::int64_t positions = input.positions(context.mask);
  const auto unfolded = [&](const ProjectedQKV& rows) {
    return attend(rows,
                  with_rules(context.mask, pattern_.rules(positions), rows.heads),
                  terms(),
                  probability_dropout(dropout_, rows, context.mask, pass));
  };
  // Folding changes relative positions, and its merge of partial results does not support sinks and
  // other options.
  if (!distances_.empty() || !form_.empty() || !can_fold(input, context.mask) ||
      !pattern_.folded(input.heads, positions))
    return unfolded(input);
  const ProjectedQKV whole = gather_sequence(input);
  // If context ranks split the heads, this rank may have none with columns.
  const auto keys = pattern_.folded(whole.heads, positions);
  const Variable mixed =
      keys ? strided_attention(whole.query,
                               whole.key,
                               whole.value,
                               *keys,
                               probability_dropout(dropout_, whole, context.mask, pass))
           : unfolded(whole);
  return local_shard(mixed, input);
}

Variable SoftmaxAttention::operator()(const ProjectedQKV& input,
                                      const AttentionContext& context,
                                      const ForwardContext& pass) const {
  const Variable mixed = by_pattern(input, context, pass);
  if (!pattern_.projects_global()) return mixed;
  // Queries without keys yield zero, and each query has keys in only one of the two calls.
  require(input.global.has_value(), "global positions have no projections");
  const ProjectedQKV global = {.query = input.global->query,
                               .key = input.global->key,
                               .value = input.global->value,
                               .heads = input.heads,
                               .shares = input.shares,
                               .chunk = input.chunk};
  const std::int64_t positions = input.positions(context.mask);
  return add(mixed,
             attend(global,
                    with_rules(context.mask, pattern_.global_rules(positions), input.heads),
                    terms(),
                    probability_dropout(dropout_, input, context.mask, pass)));
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  require(heads > 0, "alibi: expected at least 1 head, found {}", heads);
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto slope = [](double i, double of) { return std::exp2(-8 * i / of); };
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power; ++i)
    slopes.push_back(slope(static_cast<double>(i), static_cast<double>(power)));
  for (std::int64_t i = 1; std::ssize(slopes) < heads; i += 2)
    slopes.push_back(slope(static_cast<double>(i), 2 * static_cast<double>(power)));
  return slopes;
}

Tensor alibi_slopes(const Scope& scope, std::int64_t heads) {
  const ShardRange part = scope.part(heads);
  const Parameters& parameters = scope.parameters();
  const std::vector<double> all = alibi_slopes(heads);
  const std::vector<double> own(all.begin() + part.begin, all.begin() + part.begin + part.count);
  const Device host = parameters.device().host();
  if (accumulator_of(parameters.compute_dtype()) == DType::f64)
    return copy_async(Tensor::from<double>(own, {part.count}, host), parameters.device());
  return copy_async(
      Tensor::from<float>(std::vector<float>(own.begin(), own.end()), {part.count}, host),
      parameters.device());
}

}  // namespace longspan
