// Keys and values of positions that were read, for reading on from them: a token then costs one
// position in each layer, and not all that came before it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "framework/autograd/variable.h"

namespace longspan {

// What one attention layer keeps: the projections of the same positions by several matrices, each
// [rows, positions, this rank's heads, dim]. There is room for more positions than are kept, so
// that taking in a few does not copy all; no key may be seen there.
class LayerKVCache {
 public:
  bool empty() const { return tensors_.empty(); }
  std::int64_t rows() const { return empty() ? 0 : tensors_.front().shape()[0]; }
  std::int64_t begin() const { return begin_; }  // the first position that is kept
  std::int64_t end() const { return begin_ + count_; }
  std::int64_t count() const { return count_; }
  // One of the projections, with the room behind it.
  Variable projection(std::size_t index) const { return Variable(tensors_[index]); }

  // Takes in the projections of the positions from end() on. Throws Failure for another number of
  // rows than are kept.
  void append(std::span<const Variable> projections);
  // Lets go of all but the last positions.
  void crop(std::int64_t positions);
  // Row i becomes what row rows[i] was. What the two have in common is not copied: beams differ
  // in their last positions only, and not at all in their side.
  void reorder(std::span<const std::int64_t> rows);

  // Of a side: its lengths (see Side), chosen with the rows.
  Tensor length = {};
  // Of a mechanism that scores distances: their keys, row d that of distance d.
  Variable distances = {};
  // Of a mechanism that carries a state, instead of projections: tensors [rows, ...].
  std::vector<Tensor> state = {};
  // Throws Failure where a state is of another number of rows.
  void require_rows(std::int64_t rows) const;

 private:
  std::int64_t capacity() const { return empty() ? 0 : tensors_.front().shape()[1]; }
  // How many positions two rows have in common.
  std::int64_t common(std::int64_t a, std::int64_t b) const;
  void change_rows(std::span<const std::int64_t> rows);
  void move_to(std::int64_t first, std::int64_t count, std::int64_t capacity);

  std::vector<Tensor> tensors_;
  std::int64_t begin_ = 0;
  std::int64_t count_ = 0;
  // By row and position, which row it was when the position was read: where two rows have the same
  // at a position, they have the same before it too.
  std::vector<std::vector<std::int64_t>> written_by_;
  Tensor spare_;
};

// Of all layers of a model, by their places in it (Pass::random). It is handed down in Pass::kept:
// attention that finds it there looks at what is kept and at what is read now, which it takes in;
// attention to a side projects the side in the first pass only. Each tensor rank keeps its heads.
class KVCache {
 public:
  // longest: a position sees at most so many positions before those that are read with it, as a
  // Transformer-XL with such a memory; none: all.
  explicit KVCache(std::optional<std::int64_t> longest = {}) : longest_(longest) {}

  // How many positions were read.
  std::int64_t positions() const { return positions_; }
  const std::optional<std::int64_t>& longest() const { return longest_; }
  LayerKVCache& layer(std::uint64_t place) { return layers_[place]; }

  // After a pass over `time` positions.
  void advance(std::int64_t time) { positions_ += time; }
  // Row i becomes what row rows[i] was, in all layers.
  void choose(std::span<const std::int64_t> rows);

 private:
  std::optional<std::int64_t> longest_;
  std::int64_t positions_ = 0;
  std::map<std::uint64_t, LayerKVCache> layers_;
};

}  // namespace longspan
