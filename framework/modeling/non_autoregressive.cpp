#include "framework/modeling/non_autoregressive.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace longspan {
namespace {

std::vector<std::int64_t> all_places(std::int64_t n) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(n));
  std::iota(places.begin(), places.end(), std::int64_t{0});
  return places;
}

// Returns the masked positions of the n > 0 tokens in row `row` of the global batch.
std::vector<std::int64_t> masked_positions(std::int64_t n,
                                           std::int64_t row,
                                           std::int64_t columns,
                                           const Random& random) {
  const float share = random.child("share").uniform_at(static_cast<std::uint64_t>(row));
  const auto count = static_cast<std::int64_t>(static_cast<double>(n) * share) + 1;
  const Random order = random.child("order");
  const auto number = [&](std::int64_t t) {
    return order.word(static_cast<std::uint64_t>(row * columns + t));
  };
  std::vector<std::int64_t> places = all_places(n);
  std::ranges::stable_sort(places, {}, number);
  places.resize(static_cast<std::size_t>(std::min(count, n)));
  return places;
}

// Returns the source token for position t; the source may be empty.
std::int64_t copied_word(
    const Batch& batch, std::int64_t row, std::int64_t t, std::int64_t n, std::int64_t mask) {
  const std::int64_t m = batch.field("source_length").data<std::int64_t>()[row];
  if (m == 0) return mask;
  const Tensor& source = batch.field("source");
  return source.data<std::int64_t>()[row * source.shape()[1] + uniform_copy_position(t, n, m)];
}

}  // namespace

Batch prepare_nat_batch(const Batch& batch,
                        std::int64_t mask,
                        const NatOptions& options,
                        const std::optional<Random>& random) {
  const Tensor& words = batch.field("targets");
  if (words.device().state().is_meta()) return batch;
  const std::int64_t rows = words.shape()[0], columns = words.shape()[1];
  const auto lengths = batch.field("length").span<std::int64_t>();
  const bool draws = random && options.masking == NatObjective::random;
  const bool copies =
      options.masking != NatObjective::random && options.first == NatDecoderInput::source;
  Batch result = batch;
  const Tensor tokens =
      Tensor::zeros(words.shape(), DType::i64, words.device(), MemoryTag::workspace);
  const Tensor targets = tokens.clone(MemoryTag::workspace);
  std::ranges::fill(targets.span<std::int64_t>(), ignored_target);
  std::int64_t num_masked = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t length = lengths[static_cast<std::size_t>(row)];
    const std::int64_t* const from = words.data<std::int64_t>() + row * columns;
    std::int64_t* const to = tokens.data<std::int64_t>() + row * columns;
    std::copy_n(from, length, to);
    const std::int64_t n = std::max<std::int64_t>(length - 1, 0);
    const std::vector<std::int64_t> places =
        draws && n > 0 ? masked_positions(n, batch.first_row + row, columns, *random)
                       : all_places(n);
    for (const std::int64_t place : places) {
      to[place] = copies ? copied_word(batch, row, place, n, mask) : mask;
      targets.data<std::int64_t>()[row * columns + place] = from[place];
    }
    num_masked += std::ssize(places);
  }
  result.fields["tokens"] = tokens;
  result.fields["targets"] = targets;
  result.counts["tokens"] = num_masked;
  return result;
}

std::int64_t uniform_copy_position(std::int64_t t, std::int64_t n, std::int64_t m) {
  if (n < 2) return 0;
  const std::int64_t whole = t * (m - 1) / (n - 1), rest = t * (m - 1) % (n - 1);
  const bool is_half = 2 * rest == n - 1;
  return whole + (2 * rest > n - 1 || (is_half && whole % 2 == 1) ? 1 : 0);
}

std::int64_t length_class(std::int64_t source, std::int64_t target, bool offset) {
  const std::int64_t first = offset ? source - length_classes / 2 : 0;
  return std::clamp<std::int64_t>(target - first, 0, length_classes - 1);
}

std::int64_t length_of_class(std::int64_t source, std::int64_t length_class, bool offset) {
  const std::int64_t first = offset ? source - length_classes / 2 : 0;
  return std::max<std::int64_t>(first + length_class, 1);
}

}  // namespace longspan
