#include "framework/kernels/attention/pair_count.h"

#include <bit>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <vector>

#include "framework/kernels/attention/tile_walk.h"

namespace longspan {
namespace {

// Number of allowed pairs of up to 64 queries.
std::int64_t pairs_of_tile(const Mask& mask, KeyRange queries, KeyRange keys) {
  const std::int64_t rows = queries.end - queries.begin;
  const std::int64_t count = keys.end - keys.begin;
  std::int64_t pairs = 0;
  const auto covered = [&](std::int64_t begin, std::int64_t end) {
    pairs += rows * (std::min(end * attention_tile, count) - begin * attention_tile);
  };
  const auto look_at = [&](std::int64_t t) {
    std::uint64_t bits[attention_tile];
    allowed_bits(mask, queries.begin, rows, keys.begin + t * attention_tile, bits);
    const std::uint64_t exist =
        ~std::uint64_t{0} >>
        (attention_tile - std::min(attention_tile, count - t * attention_tile));
    for (std::int64_t r = 0; r < rows; ++r) pairs += std::popcount(bits[r] & exist);
  };
  for_each_key_tile(mask, queries, keys, covered, look_at);
  return pairs;
}

// An offset by which query and key may both be shifted without changing the results of the rules.
std::optional<std::int64_t> period_of(const Mask::Intersection& rules) {
  constexpr std::int64_t longest = std::int64_t{1} << 26;
  std::int64_t period = 1;
  for (const MaskRule& rule : rules) {
    switch (rule.kind) {
      case RuleKind::causal:
      case RuleKind::window:
      case RuleKind::stride:
      case RuleKind::self:
        break;
      case RuleKind::block:
      case RuleKind::columns:
        if (rule.numbers[0] > longest) return std::nullopt;
        period = std::lcm(period, rule.numbers[0]);
        break;
      case RuleKind::queries:
      case RuleKind::other_queries:
      case RuleKind::keys:
      case RuleKind::block_map:
      case RuleKind::image:
        return std::nullopt;
    }
    if (period > longest) return std::nullopt;
  }
  return period;
}

Mask mask_of(const Mask::Intersection& rules) {
  Mask mask;
  for (const MaskRule& rule : rules) mask = mask & Mask(rule);
  return mask;
}

// Splits the alternatives of a mask into those with a period and the others.
struct Parts {
  std::optional<Mask> periodic;
  std::int64_t period = attention_tile;  // common period, a multiple of the tile
  std::optional<Mask> others;

  explicit Parts(const Mask& mask) {
    constexpr std::int64_t longest = std::int64_t{1} << 36;
    for (const Mask::Intersection& rules : mask.alternatives()) {
      const auto own = period_of(rules);
      const bool joins = own && period <= longest && std::lcm(period, *own) <= longest;
      if (joins) period = std::lcm(period, *own);
      std::optional<Mask>& part = joins ? periodic : others;
      part = part ? *part | mask_of(rules) : mask_of(rules);
    }
  }
};

// A query tile one period later sees the same keys, shifted by the period. Its count is that of the
// earlier tile, with one more period of keys before the first and without the last period.
std::int64_t count_periodic(const Mask& mask, std::int64_t period, const PlanShape& shape) {
  const KeyRange keys{shape.key_begin, shape.key_begin + shape.keys};
  const std::int64_t step = period / attention_tile;
  std::vector<std::int64_t> counts;
  for (std::int64_t t = 0; t * attention_tile < shape.time; ++t) {
    const std::int64_t begin = shape.query_begin + t * attention_tile;
    const std::int64_t rows = std::min(attention_tile, shape.time - t * attention_tile);
    if (t < step || rows < attention_tile) {
      counts.push_back(pairs_of_tile(mask, {begin, begin + rows}, keys));
      continue;
    }
    const KeyRange earlier{begin - period, begin - period + attention_tile};
    counts.push_back(counts[static_cast<std::size_t>(t - step)] +
                     pairs_of_tile(mask, earlier, {keys.begin - period, keys.begin}) -
                     pairs_of_tile(mask, earlier, {keys.end - period, keys.end}));
  }
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::int64_t count_all(const Mask& mask, const PlanShape& shape) {
  const KeyRange keys{shape.key_begin, shape.key_begin + shape.keys};
  const std::int64_t end = shape.query_begin + shape.time;
  std::int64_t pairs = 0;
  for (std::int64_t begin = shape.query_begin; begin < end; begin += attention_tile)
    pairs += pairs_of_tile(mask, {begin, std::min(begin + attention_tile, end)}, keys);
  return pairs;
}

struct KeptCounts {
  struct Count {
    Mask mask;
    PlanShape shape;
    std::int64_t pairs;
  };
  std::mutex mutex;
  std::unordered_multimap<std::uint64_t, Count> counts;  // by the hash of mask and shape
};

}  // namespace

std::int64_t count_pairs(const Mask& mask, const PlanShape& shape) {
  // A rank's chunk often sees nothing of another chunk. Its few tiles are therefore counted before
  // the mask is analyzed.
  if (shape.time <= 16 * attention_tile) {
    const KeyRange queries{shape.query_begin, shape.query_begin + shape.time};
    const KeyRange keys{shape.key_begin, shape.key_begin + shape.keys};
    return keys_visible_to_any(mask, queries, keys).empty() ? 0 : count_all(mask, shape);
  }
  const Parts parts(mask);
  if (!parts.periodic) return count_all(mask, shape);
  const std::int64_t pairs = count_periodic(*parts.periodic, parts.period, shape);
  if (!parts.others) return pairs;
  return pairs + count_all(*parts.others, shape) -
         count_all(*parts.periodic & *parts.others, shape);
}

std::int64_t count_pairs(DeviceState& device, const Mask& mask, const PlanShape& shape) {
  constexpr std::size_t most = 1 << 16;
  auto& kept = device.get_or_create<KeptCounts>();
  const std::lock_guard lock(kept.mutex);
  const std::uint64_t hash = hash_of(mask, shape);
  const auto [begin, end] = kept.counts.equal_range(hash);
  for (auto found = begin; found != end; ++found)
    if (found->second.shape == shape && found->second.mask == mask) return found->second.pairs;
  if (kept.counts.size() >= most) kept.counts.clear();
  const std::int64_t pairs = count_pairs(mask, shape);
  kept.counts.emplace(hash, KeptCounts::Count{mask, shape, pairs});
  return pairs;
}

}  // namespace longspan
