// Attention masks: the allowed pairs of a query and a key, composed from a closed set of rules.
// Each rule is a predicate on their global positions (query p, key k). `&` intersects, `|` unites.
// A key that several parts of a union allow counts once.
//
//   masks::causal() & masks::window(255, 0)                       a causal sliding window
//   masks::causal() & (masks::window(127, 0) | masks::stride(128))  the merged Sparse Transformer
//
// Rules do not depend on tensors. Data-dependent constraints (padding, hash buckets) are in
// kernels/attention.h and are intersected with the mask.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace longspan {

enum class RuleKind : std::uint8_t {
  causal,
  window,
  stride,
  block,
  columns,
  self,
  queries,
  other_queries,
  keys,
  block_map,
  image,
};

// One predicate. Created by the functions of `masks`, read by the tile engine.
struct MaskRule {
  RuleKind kind;
  std::array<std::int64_t, 8> numbers = {};
  std::shared_ptr<const std::vector<std::int64_t>> list = {};  // positions, or a block map

  // Defines the rule; other functions must agree with it.
  bool allows(std::int64_t p, std::int64_t k) const;
  friend bool operator==(const MaskRule& a, const MaskRule& b);
};

// A union of intersections of rules. Copies share storage.
class Mask {
 public:
  using Intersection = std::vector<MaskRule>;

  Mask() = default;  // every pair
  Mask(MaskRule rule) : Mask(std::vector<Intersection>{{std::move(rule)}}) {}

  // A mask that allows every pair has one alternative without rules; a mask that allows no pair has
  // no alternatives.
  const std::vector<Intersection>& alternatives() const;
  bool allows(std::int64_t p, std::int64_t k) const;

  std::uint64_t hash() const { return terms_ ? terms_->hash : 0; }
  friend bool operator==(const Mask& a, const Mask& b);
  friend Mask operator&(const Mask& a, const Mask& b);
  friend Mask operator|(const Mask& a, const Mask& b);

 private:
  struct Terms {
    std::vector<Intersection> alternatives;
    std::uint64_t hash;
  };
  explicit Mask(std::vector<Intersection> alternatives);

  std::shared_ptr<const Terms> terms_;
};

namespace masks {

// Exceeds any sequence length.
inline constexpr std::int64_t unlimited = std::int64_t{1} << 40;

// Every pair; no pair.
Mask everything();
Mask nothing();

// k <= p.
Mask causal();
// p - left <= k <= p + right. Either may be negative: window(unlimited, -1) is strictly causal.
Mask window(std::int64_t left, std::int64_t right);
// (p - k) mod length = 0 (Child et al. 2019). If all heads use only this rule and causal, attention
// equals causal attention over a view that fills its tiles: [batch, time / length, length * heads,
// dim].
Mask stride(std::int64_t length);
// k in the block of p (positions [b length, (b + 1) length)), widened by `before` and `after`
// positions. (0, 0) is the block itself; (length, 0) adds the preceding block (1-D image blocks,
// hash chunks).
Mask block(std::int64_t length, std::int64_t before = 0, std::int64_t after = 0);
// k mod length in [first, first + count): the summary columns of the fixed pattern.
Mask columns(std::int64_t length, std::int64_t first, std::int64_t count);
// p = k.
Mask self();
// p, or k, is one of the positions; `global` tests either. queries_except: p is none of them.
// Positions may be unsorted and repeated.
Mask queries_at(std::vector<std::int64_t> positions);
Mask queries_except(std::vector<std::int64_t> positions);
Mask keys_at(std::vector<std::int64_t> positions);
Mask global(const std::vector<std::int64_t>& positions);
// The block of k is in the list of the block of p. Queries beyond the lists have no visible keys.
// The caller draws random blocks, from the layout-independent stream.
Mask block_map(std::int64_t length, const std::vector<std::vector<std::int64_t>>& key_blocks);

// 2-D local attention (Image Transformer, Parmar et al. 2018): blocks of query_height x query_width
// pixels attend to themselves and to a flange. Causal: the flange_height rows above, flange_width
// wider on both sides, and the flange_width columns to the left. Inside the block, only pixels that
// are not later in raster order. Not causal: the full block and the flange on all four sides.
// Blocks at the bottom and the right may be smaller if the block size does not divide the image.
// width counts sub-pixels.
struct Image {
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t query_height = 1;
  std::int64_t query_width = 1;
  std::int64_t flange_height = 0;
  std::int64_t flange_width = 0;
  bool causal = true;
};
// Numbering of the pixels: row by row, or in generation order (blocks in raster order, row by row
// inside a block).
enum class ImageOrder { raster, generation };
Mask image(const Image& image, ImageOrder order);

}  // namespace masks

// The mask of each head of the model: one shared mask, or a table by global head.
class HeadMasks {
 public:
  HeadMasks() : HeadMasks(Mask()) {}
  HeadMasks(Mask all) : masks_{std::move(all)} {}
  explicit HeadMasks(std::vector<Mask> by_head) : masks_(std::move(by_head)) {}

  bool one_for_all() const { return masks_.size() == 1; }
  // Number of heads of the table; 1 for a shared mask.
  std::int64_t size() const { return static_cast<std::int64_t>(masks_.size()); }
  const Mask& of(std::int64_t global_head) const {
    return masks_[one_for_all() ? 0 : static_cast<std::size_t>(global_head)];
  }
  // Intersects every mask of the table with `mask`.
  friend HeadMasks operator&(const HeadMasks& table, const Mask& mask);

 private:
  std::vector<Mask> masks_;
};

}  // namespace longspan
