// KV cache for incremental decoding: a new token costs one position in each layer instead of the
// full prefix.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "framework/autograd/variable.h"

namespace longspan {

// Cache of one attention layer: several projections of the same positions, each [rows, positions,
// heads of this rank, dim]. The capacity exceeds the number of cached positions, so that appending
// a few does not copy all. The unused capacity must be masked.
class LayerKVCache {
 public:
  bool empty() const { return tensors_.empty(); }
  std::int64_t rows() const { return empty() ? 0 : tensors_.front().shape()[0]; }
  std::int64_t begin() const { return begin_; }  // first cached position
  std::int64_t end() const { return begin_ + count_; }
  std::int64_t count() const { return count_; }
  // Returns one of the projections, including the unused capacity.
  Variable projection(std::size_t index) const { return Variable(tensors_[index]); }

  // Appends the projections of the positions from end() on. Throws Failure if the number of rows
  // differs from that in the cache.
  void append(std::span<const Variable> projections);
  // Drops all but the last `positions`.
  void crop(std::int64_t positions);
  // Replaces row i by the old row rows[i]. Does not copy what they have in common: beams differ
  // only in their last positions, and encoder projections are equal.
  void reorder(std::span<const std::int64_t> rows);

  // Cross-attention: lengths (EncoderOutput::length), reordered with the rows.
  Tensor length = {};
  // Ops with relative position keys: row d is the key of relative position d.
  Variable distances = {};
  // Ops with a recurrent state, instead of projections: tensors [rows, ...].
  std::vector<Tensor> state = {};
  // Throws Failure if a state has another number of rows.
  void require_rows(std::int64_t rows) const;

 private:
  std::int64_t capacity() const { return empty() ? 0 : tensors_.front().shape()[1]; }
  // Returns the number of positions that two rows have in common.
  std::int64_t common(std::int64_t a, std::int64_t b) const;
  void change_rows(std::span<const std::int64_t> rows);
  void move_to(std::int64_t first, std::int64_t count, std::int64_t capacity);

  std::vector<Tensor> tensors_;
  std::int64_t begin_ = 0;
  std::int64_t count_ = 0;
  // By row and position: row index when the position was appended. Rows with equal entries at a
  // position also have equal earlier positions.
  std::vector<std::vector<std::int64_t>> written_by_;
  Tensor spare_;
};

// Caches of all layers of a model, by their path (ForwardContext::random). Attention that finds it
// in ForwardContext::kv_cache attends to the cache and to the current positions, which it appends.
// Cross-attention projects the encoder output only in the first pass. Each tensor rank caches its
// own heads.
class KVCache {
 public:
  // longest: max number of cached positions that a position attends to before the current ones, as
  // in a Transformer-XL with that memory length. None: all.
  explicit KVCache(std::optional<std::int64_t> longest = {}) : longest_(longest) {}

  // Returns the number of positions read so far.
  std::int64_t positions() const { return positions_; }
  const std::optional<std::int64_t>& longest() const { return longest_; }
  LayerKVCache& layer(std::uint64_t place) { return layers_[place]; }

  // Requires a call after a pass over `time` positions.
  void advance(std::int64_t time) { positions_ += time; }
  // Replaces row i by the old row rows[i], in all layers.
  void choose(std::span<const std::int64_t> rows);

 private:
  std::optional<std::int64_t> longest_;
  std::int64_t positions_ = 0;
  std::map<std::uint64_t, LayerKVCache> layers_;
};

}  // namespace longspan
