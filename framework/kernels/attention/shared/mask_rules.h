// Non-owning views of mask rules, for kernels.
#pragma once

#include <cstdint>

#include "framework/core/host_device.h"
#include "framework/kernels/attention/mask_image.h"

namespace longspan {

// One rule.
struct RuleView {
  RuleKind kind;
  std::int64_t numbers[8];
  const std::int64_t* list;  // ascending positions, or a block map
  std::int64_t count;        // of the list

  // Defines the rule; word must agree with it.
  LONGSPAN_HOST_DEVICE bool allows(std::int64_t p, std::int64_t k) const {
    const std::int64_t* n = numbers;
    switch (kind) {
      case RuleKind::causal:
        return k <= p;
      case RuleKind::window:
        return k >= p - n[0] && k <= p + n[1];
      case RuleKind::stride:
        return modulo(p - k, n[0]) == 0;
      case RuleKind::block: {
        const std::int64_t begin = floor_divide(p, n[0]) * n[0];
        return k >= begin - n[1] && k < begin + n[0] + n[2];
      }
      case RuleKind::columns: {
        const std::int64_t column = modulo(k, n[0]);
        return column >= n[1] && column < n[1] + n[2];
      }
      case RuleKind::self:
        return p == k;
      case RuleKind::queries:
        return holds(0, count, p);
      case RuleKind::other_queries:
        return !holds(0, count, p);
      case RuleKind::keys:
        return holds(0, count, k);
      case RuleKind::block_map: {
        // The list has the offset of each query block's key blocks, the end offset, and then the
        // key blocks.
        const std::int64_t block = floor_divide(p, n[0]);
        return block >= 0 && block < n[1] &&
               holds(list[block], list[block + 1], floor_divide(k, n[0]));
      }
      case RuleKind::image:
        return ImageRule(n).allows(p, k);
    }
    return false;
  }

  // Bit j: query p may see key k + j, for 32 keys.
  LONGSPAN_HOST_DEVICE std::uint32_t word(std::int64_t p, std::int64_t k) const {
    const std::int64_t* n = numbers;
    switch (kind) {
      case RuleKind::causal:
        return ones(0, p - k + 1);
      case RuleKind::window:
        return ones(p - n[0] - k, p + n[1] + 1 - k);
      case RuleKind::block: {
        const std::int64_t begin = floor_divide(p, n[0]) * n[0] - k;
        return ones(begin - n[1], begin + n[0] + n[2]);
      }
      case RuleKind::self:
        return ones(p - k, p - k + 1);
      case RuleKind::queries:
      case RuleKind::other_queries:
        return allows(p, k) ? ~std::uint32_t{0} : 0;
      default: {
        std::uint32_t bits = 0;
        for (int j = 0; j < 32; ++j) bits |= std::uint32_t{allows(p, k + j)} << j;
        return bits;
      }
    }
  }

 private:
  // Binary search in list[begin] .. list[end - 1].
  LONGSPAN_HOST_DEVICE bool holds(std::int64_t begin, std::int64_t end, std::int64_t wanted) const {
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      if (list[middle] == wanted) return true;
      if (list[middle] < wanted)
        begin = middle + 1;
      else
        end = middle;
    }
    return false;
  }

  // Bits [begin, end), clipped to a word.
  LONGSPAN_HOST_DEVICE static std::uint32_t ones(std::int64_t begin, std::int64_t end) {
    if (begin < 0) begin = 0;
    if (end > 32) end = 32;
    return begin >= end ? 0 : ~std::uint32_t{0} >> (32 - (end - begin)) << begin;
  }
};

// A union of intersections: alternative a has the rules up to ends[a].
struct MaskView {
  const RuleView* rules;
  const std::int64_t* ends;
  std::int64_t alternatives;

  LONGSPAN_HOST_DEVICE std::uint32_t word(std::int64_t p, std::int64_t k) const {
    std::uint32_t some = 0;
    std::int64_t rule = 0;
    for (std::int64_t a = 0; a < alternatives; ++a) {
      std::uint32_t all = ~std::uint32_t{0};
      for (; rule < ends[a]; ++rule) all &= rules[rule].word(p, k);
      some |= all;
    }
    return some;
  }
};

// Returns a view that is valid as long as the rule.
inline RuleView view_of(const MaskRule& rule) {
  RuleView view{rule.kind, {}, nullptr, 0};
  for (std::size_t i = 0; i < rule.numbers.size(); ++i) view.numbers[i] = rule.numbers[i];
  if (!rule.list) return view;
  view.list = rule.list->data();
  view.count = static_cast<std::int64_t>(rule.list->size());
  return view;
}

}  // namespace longspan
