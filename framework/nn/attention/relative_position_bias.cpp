#include "framework/nn/attention/relative_position_bias.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/core/async_copy.h"

namespace longspan {
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

}  // namespace longspan
