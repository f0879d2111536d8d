#include "framework/kernels/attention/mask.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/kernels/attention/shared/mask_rules.h"

namespace longspan {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;  // FNV-style, with a 64-bit odd constant
  return hash ^ (hash >> 29);
}

std::uint64_t hash_of(const std::vector<Mask::Intersection>& alternatives) {
  std::uint64_t hash = 1 + alternatives.size();
  for (const auto& rules : alternatives) {
    hash = mixed(hash, rules.size());
    for (const MaskRule& rule : rules) {
      hash = mixed(hash, static_cast<std::uint64_t>(rule.kind));
      for (const std::int64_t number : rule.numbers)
        hash = mixed(hash, static_cast<std::uint64_t>(number));
      if (rule.list)
        for (const std::int64_t number : *rule.list)
          hash = mixed(hash, static_cast<std::uint64_t>(number));
    }
  }
  return hash;
}

MaskRule rule_of(RuleKind kind, std::array<std::int64_t, 8> numbers = {}) {
  return {.kind = kind, .numbers = numbers};
}

}  // namespace

bool MaskRule::allows(std::int64_t p, std::int64_t k) const { return view_of(*this).allows(p, k); }

bool operator==(const MaskRule& a, const MaskRule& b) {
  if (a.kind != b.kind || a.numbers != b.numbers) return false;
  return a.list == b.list || (a.list && b.list && *a.list == *b.list);
}

Mask::Mask(std::vector<Intersection> alternatives) {
  const std::uint64_t hash = hash_of(alternatives);
  terms_ = std::make_shared<const Terms>(Terms{std::move(alternatives), hash});
}

const std::vector<Mask::Intersection>& Mask::alternatives() const {
  static const std::vector<Intersection> everything(1);
  return terms_ ? terms_->alternatives : everything;
}

bool Mask::allows(std::int64_t p, std::int64_t k) const {
  for (const Intersection& rules : alternatives())
    if (std::all_of(
            rules.begin(), rules.end(), [&](const MaskRule& rule) { return rule.allows(p, k); }))
      return true;
  return false;
}

bool operator==(const Mask& a, const Mask& b) {
  return a.terms_ == b.terms_ || (a.hash() == b.hash() && a.alternatives() == b.alternatives());
}

Mask operator&(const Mask& a, const Mask& b) {
  if (!a.terms_) return b;
  if (!b.terms_) return a;
  std::vector<Mask::Intersection> result;
  for (const auto& left : a.alternatives())
    for (const auto& right : b.alternatives()) {
      result.push_back(left);
      for (const MaskRule& rule : right)
        if (std::find(left.begin(), left.end(), rule) == left.end()) result.back().push_back(rule);
    }
  return Mask(std::move(result));
}

Mask operator|(const Mask& a, const Mask& b) {
  if (!a.terms_ || !b.terms_) return Mask();
  auto result = a.alternatives();
  for (const auto& other : b.alternatives())
    if (std::find(result.begin(), result.end(), other) == result.end()) result.push_back(other);
  return Mask(std::move(result));
}

HeadMasks operator&(const HeadMasks& table, const Mask& mask) {
  std::vector<Mask> result;
  for (const Mask& head : table.masks_) result.push_back(head & mask);
  return HeadMasks(std::move(result));
}

namespace masks {
namespace {

std::shared_ptr<const std::vector<std::int64_t>> sorted_list(std::vector<std::int64_t> positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return std::make_shared<const std::vector<std::int64_t>>(std::move(positions));
}

}  // namespace

Mask everything() { return Mask(); }
Mask nothing() { return Mask(rule_of(RuleKind::window, {-1, -1})); }
Mask causal() { return Mask(rule_of(RuleKind::causal)); }
Mask window(std::int64_t left, std::int64_t right) {
  return Mask(
      rule_of(RuleKind::window,
              {std::clamp(left, -unlimited, unlimited), std::clamp(right, -unlimited, unlimited)}));
}
Mask stride(std::int64_t length) {
  require(length > 0, "mask: expected a stride of at least 1, found {}", length);
  return Mask(rule_of(RuleKind::stride, {length}));
}
Mask block(std::int64_t length, std::int64_t before, std::int64_t after) {
  require(length > 0, "mask: expected a block length of at least 1, found {}", length);
  return Mask(rule_of(RuleKind::block, {length, before, after}));
}
Mask columns(std::int64_t length, std::int64_t first, std::int64_t count) {
  require(length > 0 && first >= 0 && count >= 0 && first + count <= length,
          "mask: expected summary columns inside a block of {}, found {} from column {}",
          length,
          count,
          first);
  return Mask(rule_of(RuleKind::columns, {length, first, count}));
}
Mask self() { return Mask(rule_of(RuleKind::self)); }
Mask queries_at(std::vector<std::int64_t> positions) {
  return Mask(MaskRule{.kind = RuleKind::queries, .list = sorted_list(std::move(positions))});
}
Mask queries_except(std::vector<std::int64_t> positions) {
  return Mask(MaskRule{.kind = RuleKind::other_queries, .list = sorted_list(std::move(positions))});
}
Mask keys_at(std::vector<std::int64_t> positions) {
  return Mask(MaskRule{.kind = RuleKind::keys, .list = sorted_list(std::move(positions))});
}
Mask global(const std::vector<std::int64_t>& positions) {
  return queries_at(positions) | keys_at(positions);
}

Mask block_map(std::int64_t length, const std::vector<std::vector<std::int64_t>>& key_blocks) {
  require(length > 0, "block map: expected a block length of at least 1, found {}", length);
  std::vector<std::int64_t> list;
  auto begin = static_cast<std::int64_t>(key_blocks.size()) + 1;
  std::vector<std::int64_t> blocks;
  for (const auto& row : key_blocks) {
    list.push_back(begin + static_cast<std::int64_t>(blocks.size()));
    const auto sorted = sorted_list(row);
    blocks.insert(blocks.end(), sorted->begin(), sorted->end());
  }
  list.push_back(begin + static_cast<std::int64_t>(blocks.size()));
  list.insert(list.end(), blocks.begin(), blocks.end());
  return Mask(MaskRule{.kind = RuleKind::block_map,
                       .numbers = {length, static_cast<std::int64_t>(key_blocks.size())},
                       .list = std::make_shared<const std::vector<std::int64_t>>(std::move(list))});
}

Mask image(const Image& image, ImageOrder order) {
  require(image.query_height > 0 && image.query_width > 0 && image.height > 0 && image.width > 0,
          "mask: expected image and block sizes of at least 1, found {} x {} in blocks of {} x {}",
          image.height,
          image.width,
          image.query_height,
          image.query_width);
  require(image.flange_height >= 0 && image.flange_width >= 0,
          "mask: expected a flange of at least 0, found {} x {}",
          image.flange_height,
          image.flange_width);
  return Mask(rule_of(RuleKind::image,
                      {image.height,
                       image.width,
                       image.query_height,
                       image.query_width,
                       image.flange_height,
                       image.flange_width,
                       image.causal ? 1 : 0,
                       static_cast<std::int64_t>(order)}));
}

}  // namespace masks
}  // namespace longspan
