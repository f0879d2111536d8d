#include "framework/kernels/attention/mask_tiles.h"

#include <algorithm>
#include <span>

#include "framework/kernels/attention/mask_image.h"

namespace longspan {
namespace {

// Ones at [begin, end) of a word.
std::uint64_t ones(std::int64_t begin, std::int64_t end) {
  begin = std::max<std::int64_t>(begin, 0);
  end = std::min<std::int64_t>(end, 64);
  if (begin >= end) return 0;
  return (all_bits >> (64 - (end - begin))) << begin;
}

void append(KeyRanges& stretches, KeyRange s, KeyRange within) {
  s = {std::max(s.begin, within.begin), std::min(s.end, within.end)};
  if (s.begin >= s.end) return;
  if (!stretches.empty() && s.begin <= stretches.back().end)
    stretches.back().end = std::max(stretches.back().end, s.end);
  else
    stretches.push_back(s);
}

// Ranges [first + m length, + count) for every m, within the keys.
void append_periodic(
    KeyRanges& to, std::int64_t length, std::int64_t first, std::int64_t count, KeyRange keys) {
  if (count <= 0) return;
  const std::int64_t begin =
      first + floor_divide(keys.begin - first - (count - 1) + length - 1, length) * length;
  for (std::int64_t k = begin; k < keys.end; k += length) append(to, {k, k + count}, keys);
}

KeyRanges intersect(const KeyRanges& a, const KeyRanges& b) {
  KeyRanges result;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const KeyRange both{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (both.begin < both.end) result.push_back(both);
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return result;
}

KeyRanges unite(const KeyRanges& a, const KeyRanges& b) {
  KeyRanges sorted(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), sorted.begin(), [](KeyRange x, KeyRange y) {
    return x.begin < y.begin;
  });
  KeyRanges result;
  for (const KeyRange& s : sorted) append(result, s, s);
  return result;
}

// The key blocks of a query block.
std::span<const std::int64_t> key_blocks(const MaskRule& rule, std::int64_t query_block) {
  if (query_block < 0 || query_block >= rule.numbers[1]) return {};
  const std::int64_t* const list = rule.list->data();
  return {list + list[query_block], list + list[query_block + 1]};
}

KeyRanges block_map_stretches(const MaskRule& rule, KeyRange queries, KeyRange keys, bool all) {
  const std::int64_t length = rule.numbers[0];
  const std::int64_t first = floor_divide(queries.begin, length);
  const std::int64_t last = floor_divide(queries.end - 1, length);
  KeyRanges result;
  for (std::int64_t block = first; block <= last; ++block) {
    KeyRanges here;
    for (const std::int64_t k : key_blocks(rule, block))
      append(here, {k * length, (k + 1) * length}, keys);
    if (block == first)
      result = std::move(here);
    else
      result = all ? intersect(result, here) : unite(result, here);
  }
  return result;
}

bool contains_any(const std::vector<std::int64_t>& sorted, KeyRange queries) {
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), queries.begin);
  return found != sorted.end() && *found < queries.end;
}
bool contains_all(const std::vector<std::int64_t>& sorted, KeyRange queries) {
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), queries.begin);
  const std::int64_t count = queries.end - queries.begin;
  return sorted.end() - found >= count && found[count - 1] == queries.end - 1;
}

// Keys visible to some query, or to every query, by one rule.
KeyRanges stretches_of(const MaskRule& rule, KeyRange queries, KeyRange keys, bool all) {
  const auto& n = rule.numbers;
  const std::int64_t first = queries.begin;
  const std::int64_t last = queries.end - 1;
  KeyRanges result;
  switch (rule.kind) {
    case RuleKind::causal:
      append(result, {keys.begin, (all ? first : last) + 1}, keys);
      break;
    case RuleKind::window:
      append(result, {(all ? last : first) - n[0], (all ? first : last) + n[1] + 1}, keys);
      break;
    case RuleKind::stride:
      if (n[0] == 1 || (!all && last - first + 1 >= n[0]))
        result.push_back(keys);
      else if (!all || first == last)
        append_periodic(result, n[0], first, last - first + 1, keys);
      break;
    case RuleKind::block: {
      const std::int64_t near = floor_divide(first, n[0]) * n[0];
      const std::int64_t far = floor_divide(last, n[0]) * n[0];
      append(result, {(all ? far : near) - n[1], (all ? near : far) + n[0] + n[2]}, keys);
      break;
    }
    case RuleKind::columns:
      append_periodic(result, n[0], n[1], n[2], keys);
      break;
    case RuleKind::self:
      if (!all || first == last) append(result, queries, keys);
      break;
    case RuleKind::queries:
      if (all ? contains_all(*rule.list, queries) : contains_any(*rule.list, queries))
        result.push_back(keys);
      break;
    case RuleKind::other_queries:
      if (!(all ? contains_any(*rule.list, queries) : contains_all(*rule.list, queries)))
        result.push_back(keys);
      break;
    case RuleKind::keys: {
      auto k = std::lower_bound(rule.list->begin(), rule.list->end(), keys.begin);
      for (; k != rule.list->end() && *k < keys.end; ++k) append(result, {*k, *k + 1}, keys);
      break;
    }
    case RuleKind::block_map:
      return block_map_stretches(rule, queries, keys, all);
    case RuleKind::image:
      // Returns no keys visible to every query: the bits decide.
      if (!all)
        for (const KeyRange& s : ImageRule(rule).visible_to(queries)) append(result, s, keys);
      break;
  }
  return result;
}

KeyRanges stretches_of(const Mask& mask, KeyRange queries, KeyRange keys, bool all) {
  KeyRanges result;
  if (keys.begin >= keys.end || queries.begin >= queries.end) return result;
  for (const Mask::Intersection& rules : mask.alternatives()) {
    KeyRanges here{keys};
    for (const MaskRule& rule : rules) {
      if (here.empty()) break;
      here =
          intersect(here, stretches_of(rule, queries, {here.front().begin, here.back().end}, all));
    }
    result = result.empty() ? std::move(here) : unite(result, here);
  }
  return result;
}

void and_block(const MaskRule& rule, KeyRange queries, std::int64_t k, std::uint64_t* bits) {
  const std::int64_t length = rule.numbers[0];
  std::int64_t block = floor_divide(queries.begin, length) * length;
  for (std::int64_t p = queries.begin; p < queries.end; block += length) {
    const std::uint64_t word =
        ones(block - rule.numbers[1] - k, block + length + rule.numbers[2] - k);
    for (; p < std::min(block + length, queries.end); ++p) *bits++ &= word;
  }
}

void and_stride(const MaskRule& rule, KeyRange queries, std::int64_t k, std::uint64_t* bits) {
  const std::int64_t length = rule.numbers[0];
  std::uint64_t comb = 0;
  for (std::int64_t j = 0; j < 64; j += length) comb |= std::uint64_t{1} << j;
  std::int64_t first = modulo(queries.begin - k, length);
  for (std::int64_t p = queries.begin; p < queries.end; ++p) {
    *bits++ &= first < 64 ? comb << first : 0;
    if (++first == length) first = 0;
  }
}

void and_block_map(const MaskRule& rule, KeyRange queries, std::int64_t k, std::uint64_t* bits) {
  const std::int64_t length = rule.numbers[0];
  const std::int64_t first_block = floor_divide(k, length);
  std::int64_t block = floor_divide(queries.begin, length);
  for (std::int64_t p = queries.begin; p < queries.end; ++block) {
    const auto list = key_blocks(rule, block);
    std::uint64_t word = 0;
    auto at = std::lower_bound(list.begin(), list.end(), first_block);
    for (; at != list.end() && *at * length < k + 64; ++at)
      word |= ones(*at * length - k, (*at + 1) * length - k);
    for (; p < std::min((block + 1) * length, queries.end); ++p) *bits++ &= word;
  }
}

// A word that is equal for every row.
std::uint64_t word_of_keys(const MaskRule& rule, std::int64_t k) {
  std::uint64_t word = 0;
  for (const KeyRange& s : stretches_of(rule, {0, 1}, {k, k + 64}, false))
    word |= ones(s.begin - k, s.end - k);
  return word;
}

void and_rule(const MaskRule& rule, KeyRange queries, std::int64_t k, std::uint64_t* bits) {
  const auto& n = rule.numbers;
  const auto each = [&](const auto& word) {
    for (std::int64_t p = queries.begin; p < queries.end; ++p) bits[p - queries.begin] &= word(p);
  };
  switch (rule.kind) {
    case RuleKind::causal:
      return each([&](std::int64_t p) { return ones(0, p - k + 1); });
    case RuleKind::window:
      return each([&](std::int64_t p) { return ones(p - n[0] - k, p + n[1] + 1 - k); });
    case RuleKind::stride:
      return and_stride(rule, queries, k, bits);
    case RuleKind::block:
      return and_block(rule, queries, k, bits);
    case RuleKind::columns:
    case RuleKind::keys:
      return each([word = word_of_keys(rule, k)](std::int64_t) { return word; });
    case RuleKind::self:
      return each([&](std::int64_t p) { return ones(p - k, p - k + 1); });
    case RuleKind::queries:
      return each([&](std::int64_t p) {
        return std::binary_search(rule.list->begin(), rule.list->end(), p) ? all_bits : 0;
      });
    case RuleKind::other_queries:
      return each([&](std::int64_t p) {
        return std::binary_search(rule.list->begin(), rule.list->end(), p) ? 0 : all_bits;
      });
    case RuleKind::block_map:
      return and_block_map(rule, queries, k, bits);
    case RuleKind::image: {
      ImageRule image(rule);
      return each([&](std::int64_t p) { return image.word(p, k); });
    }
  }
}

}  // namespace

KeyRanges keys_visible_to_any(const Mask& mask, KeyRange queries, KeyRange keys) {
  return stretches_of(mask, queries, keys, false);
}
KeyRanges keys_visible_to_all(const Mask& mask, KeyRange queries, KeyRange keys) {
  return stretches_of(mask, queries, keys, true);
}

void allowed_bits(const Mask& mask,
                  std::int64_t first_query,
                  std::int64_t rows,
                  std::int64_t first_key,
                  std::uint64_t* bits) {
  const KeyRange queries{first_query, first_query + rows};
  const auto& alternatives = mask.alternatives();
  std::fill_n(bits, rows, alternatives.empty() ? 0 : all_bits);
  if (alternatives.empty()) return;
  for (const MaskRule& rule : alternatives.front()) and_rule(rule, queries, first_key, bits);
  std::uint64_t other[64];
  for (std::size_t a = 1; a < alternatives.size(); ++a) {
    std::fill_n(other, rows, all_bits);
    for (const MaskRule& rule : alternatives[a]) and_rule(rule, queries, first_key, other);
    for (std::int64_t r = 0; r < rows; ++r) bits[r] |= other[r];
  }
}

}  // namespace longspan
