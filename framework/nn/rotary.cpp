#include "framework/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/transpose.h"

namespace longspan {
namespace {

// Returns the unscaled frequencies of n features.
std::vector<double> frequencies_of(double base, std::int64_t n) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < n; i += 2)
    result.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(n)));
  return result;
}

// NTK-aware scaling: the base for sequences `factor` times as long.
double stretched_base(double base, double factor, std::int64_t n) {
  const auto features = static_cast<double>(n);
  return base * std::pow(factor, features / (features - 2));
}

double original_of(const RotaryOptions& options) {
  return static_cast<double>(options.original.value_or(0));
}

// Interpolates between each frequency and the frequency divided by `factor`. `kept`: weight of the
// former.
template <typename Kept>
std::vector<double> blended(std::vector<double> frequencies, double factor, const Kept& kept) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double part = kept(i);
    frequencies[i] = part * frequencies[i] + (1 - part) * frequencies[i] / factor;
  }
  return frequencies;
}

// The ramp covers the pairs with beta_fast to beta_slow rotations in the original length. Its ends
// are rounded to whole pairs.
std::vector<double> yarn_frequencies(const RotaryOptions& options, std::int64_t n) {
  const auto features = static_cast<double>(n);
  const auto pair_of = [&](double turns) {
    return features * std::log(original_of(options) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(options.base));
  };
  const double first = std::max(std::floor(pair_of(options.beta_fast)), 0.0);
  double last = std::min(std::ceil(pair_of(options.beta_slow)), features - 1);
  if (first == last) last += 0.001;
  return blended(frequencies_of(options.base, n), options.factor, [&](std::size_t i) {
    return 1 - std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
  });
}

std::vector<double> llama3_frequencies(const RotaryOptions& options, std::int64_t n) {
  const std::vector<double> plain = frequencies_of(options.base, n);
  return blended(plain, options.factor, [&](std::size_t i) {
    const double turns = original_of(options) * plain[i] / (2 * std::numbers::pi);
    return std::clamp(
        (turns - options.low_frequency) / (options.high_frequency - options.low_frequency),
        0.0,
        1.0);
  });
}

std::vector<double> longrope_frequencies(const RotaryOptions& options,
                                         std::int64_t n,
                                         std::int64_t length) {
  const bool is_long = length > options.original.value_or(0);
  const std::vector<double>& divisors = is_long ? options.long_factors : options.short_factors;
  std::vector<double> frequencies = frequencies_of(options.base, n);
  for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= divisors[i];
  return frequencies;
}

double attention_factor(const RotaryOptions& options) {
  if (options.attention_factor) return *options.attention_factor;
  if (options.factor <= 1) return 1;
  if (options.scaling == RotaryScaling::yarn) return 0.1 * std::log(options.factor) + 1;
  if (options.scaling == RotaryScaling::longrope)
    return std::sqrt(1 + std::log(options.factor) / std::log(original_of(options)));
  return 1;
}

std::string validate_factors(const char* key, const std::vector<double>& factors, std::int64_t n) {
  if (2 * std::ssize(factors) == n) return "";
  return fmt::format(
      "model.rope.scaling.{}: expected {} elements, one per pair of rotated features, found {}",
      key,
      n / 2,
      factors.size());
}

std::string validate_scaling(const RotaryOptions& options, std::int64_t n) {
  using enum RotaryScaling;
  const RotaryScaling scaling = options.scaling;
  if ((scaling == ntk || scaling == dynamic) && n < 4)
    return fmt::format(
        "model.rope.scaling.type: ntk and dynamic require at least 4 rotated features, found {}",
        n);
  const bool needs_length = scaling != none && scaling != linear && scaling != ntk;
  if (needs_length && !options.original)
    return "model.rope.scaling.type: dynamic, yarn, llama3 and longrope require "
           "model.rope.scaling.original_max_position_embeddings";
  if (scaling != none && scaling != dynamic && scaling != longrope && options.factor == 1)
    return "model.rope.scaling.factor: 1 has no effect with model.rope.scaling.type; set it to the "
           "ratio of the new to the original sequence length";
  if (scaling == llama3 && options.low_frequency >= options.high_frequency)
    return fmt::format(
        "model.rope.scaling.low_freq_factor: expected less than "
        "model.rope.scaling.high_freq_factor = {}, found {}",
        options.high_frequency,
        options.low_frequency);
  if (scaling == yarn && options.beta_slow >= options.beta_fast)
    return fmt::format(
        "model.rope.scaling.beta_slow: expected less than "
        "model.rope.scaling.beta_fast = {}, found {}",
        options.beta_fast,
        options.beta_slow);
  if (scaling != longrope) return "";
  const std::string problem = validate_factors("short_factor", options.short_factors, n);
  return problem.empty() ? validate_factors("long_factor", options.long_factors, n) : problem;
}

}  // namespace

std::int64_t RotaryOptions::turned(std::int64_t dim) const {
  return static_cast<std::int64_t>(static_cast<double>(dim) * share) / 2 * 2;
}

std::string validate_rotary(const RotaryOptions& options, std::int64_t dim) {
  const std::int64_t n = options.turned(dim);
  if (n == 0 || (options.share == 1 && n != dim))
    return fmt::format(
        "model.position_embedding_type: rope requires an even number of rotated features, found {} "
        "of a head's {}; set model.head_dim or model.rope.partial_rotary_factor",
        options.share == 1 ? "all" : fmt::format("{}", options.share),
        dim);
  return validate_scaling(options, n);
}

RotaryAngles rotary_angles(const RotaryOptions& options, std::int64_t dim, std::int64_t length) {
  const std::int64_t n = options.turned(dim);
  const auto frequencies = [&] {
    switch (options.scaling) {
      case RotaryScaling::none:
        break;
      case RotaryScaling::linear:
        return blended(
            frequencies_of(options.base, n), options.factor, [](std::size_t) { return 0.0; });
      case RotaryScaling::ntk:
        return frequencies_of(stretched_base(options.base, options.factor, n), n);
      case RotaryScaling::dynamic: {
        const double longer = std::max(static_cast<double>(length) / original_of(options), 1.0);
        return frequencies_of(
            stretched_base(options.base, options.factor * longer - (options.factor - 1), n), n);
      }
      case RotaryScaling::yarn:
        return yarn_frequencies(options, n);
      case RotaryScaling::llama3:
        return llama3_frequencies(options, n);
      case RotaryScaling::longrope:
        return longrope_frequencies(options, n, length);
    }
    return frequencies_of(options.base, n);
  };
  return {frequencies(), attention_factor(options)};
}

Rotary::Rotary(const RotaryOptions& options, std::int64_t dim, DType compute, const Device& device)
    : options_(options),
      dim_(dim),
      dtype_(accumulator_of(compute)),
      device_(device),
      made_(std::make_shared<Made>()) {
  throw_if_error(validate_rotary(options, dim));
}

Variable Rotary::turn(Variable&& x, const Ranges& positions, std::int64_t length) const {
  return longspan::apply_rotary(std::move(x), options_.pairs, table(positions, length));
}

// Without the factor of the features: the products of queries and the state have it twice already.
Tensor Rotary::restart(const Tensor& state, std::int64_t length) const {
  set_frequencies(length);
  const CosSinTable angles = {
      .first = length,
      .factor = 1,
      .frequencies = made_->frequencies,
      .out = Tensor::empty(
          {1, 2 * made_->frequencies.elements()}, dtype_, device_, MemoryTag::workspace)};
  const Shape& shape = state.shape();
  const std::int64_t matrices = shape[0] * shape[1], columns = shape[3];
  const Tensor turned =
      Tensor::empty({matrices, columns, dim_}, state.dtype(), device_, MemoryTag::workspace);
  const Tensor rows = turned.reshape({matrices * columns, 1, 1, dim_});
  const Tensor result = state.empty_like(MemoryTag::recurrent_state);
  on(device_, [&](auto backend) {
    fill_cos_sin_table(backend, angles);
    transpose(backend, state.reshape({matrices, dim_, columns}), turned);
    apply_rotary(
        backend,
        {.pairs = options_.pairs, .inverse = true, .x = rows, .table = angles.out, .y = rows});
    transpose(backend, turned, result.reshape({matrices, dim_, columns}));
  });
  return result;
}

void Rotary::set_frequencies(std::int64_t length) const {
  if (made_->frequencies.defined() && (!options_.by_length() || made_->length == length)) return;
  const RotaryAngles angles = rotary_angles(options_, dim_, length);
  made_->frequencies = copy_async(Tensor::from<double>(angles.frequencies,
                                                       {std::ssize(angles.frequencies)},
                                                       device_.host(),
                                                       MemoryTag::workspace),
                                  device_);
  made_->factor = angles.factor;
  made_->length = length;
  made_->table = {};
}

Tensor Rotary::table(const Ranges& positions, std::int64_t length) const {
  set_frequencies(length);
  if (made_->table.defined() && made_->positions == positions) return made_->table;
  made_->table = {};  // frees memory before more is allocated
  const Tensor table = Tensor::empty({total_count(positions), 2 * made_->frequencies.elements()},
                                     dtype_,
                                     device_,
                                     MemoryTag::workspace);
  std::int64_t row = 0;
  for (const Range& range : positions) {
    const CosSinTable part = {.first = range.begin,
                              .factor = made_->factor,
                              .frequencies = made_->frequencies,
                              .out = table.slice(row, row + range.count())};
    on(device_, [&](auto backend) { fill_cos_sin_table(backend, part); });
    row += range.count();
  }
  made_->positions = positions;
  made_->table = table;
  return table;
}

}  // namespace longspan
