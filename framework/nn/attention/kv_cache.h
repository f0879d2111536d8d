// State of the attention layers between the chunks of a sequence: cached keys and values, or a
// recurrent state. A model that decodes reads a few tokens at a time; training by chunked
// backpropagation through time reads a chunk at a time, and the state has a gradient.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/autograd/chunk_state.h"
#include "framework/autograd/variable.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

// Recurrent states at both ends of a sequence, by RecurrentStateSpec::name.
struct SequenceStates {
  std::map<std::string, Tensor> before = {};  // missing: zero
  std::map<std::string, std::shared_ptr<BoundaryTensor>> after = {};
};

// State of one attention layer. For decoding: several projections of the same positions, each
// [rows, positions, heads of this rank, dim]. The capacity exceeds the number of cached positions,
// so that appending a few does not copy all. The unused capacity must be masked.
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
  // Throws Failure if the recurrent state has another number of rows.
  void require_rows(std::int64_t rows) const;

  // Returns tensor `index` of the recurrent state, [rows, ...], before and after the current chunk.
  // Ops with a recurrent state have it instead of projections, or in addition to them.
  ChunkBoundaries boundaries(std::size_t index = 0);
  // Names the first tensors of the recurrent state: those that continue over the segments of a
  // stream, from KVCache::states or, in decoding, from the previous segment.
  void set_state_names(const std::vector<std::string>& names) { state_names_ = names; }

  // For chunked training: appends the rows of the current chunk, and returns each projection with
  // the rows that the chunk attends to, `seen.before` and its own.
  std::vector<Variable> append_chunk(std::span<const Variable> projections, const ChunkRows& seen);

 private:
  friend class KVCache;
  // Chunk that the layer computes. `last`: no later chunk continues from its state, except that
  // `states` receives it.
  void start_chunk(std::int64_t chunk, bool last, const std::shared_ptr<SequenceStates>& states);
  // Drops the states at all boundaries but those of the current chunk and, for training, those
  // before it.
  void drop_boundaries(bool training);
  // Keeps only the recurrent states that continue in the next segment.
  void start_segment();
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

  std::int64_t chunk_ = 0;
  bool is_last_ = false;
  std::vector<std::string> state_names_;
  std::shared_ptr<SequenceStates> states_;
  // By tensor index and chunk: the state before the chunk.
  std::vector<std::map<std::int64_t, std::shared_ptr<BoundaryTensor>>> boundaries_;
  // By projection: the rows of the whole sequence, where later chunks attend to all of them.
  std::vector<std::shared_ptr<SequenceRows>> all_rows_;
};

// States of all layers of a model, by their path (ForwardContext::random). Attention that finds it
// in ForwardContext::kv_cache attends to the cached positions and to the current ones, which it
// appends. Cross-attention projects the encoder output only in the first pass. Each tensor rank
// caches its own heads.
class KVCache {
 public:
  // For decoding. longest: max number of cached positions that a position attends to before the
  // current ones, as in a Transformer-XL with that memory length. None: all.
  explicit KVCache(std::optional<std::int64_t> longest = {}) : longest_(longest) {}
  // For a sequence that is read in chunks. trains: the states between all chunks are kept, for
  // gradients; otherwise those of the current chunk. `states`: layers with a recurrent state start
  // from it, and store in it the state after the last chunk; null: they start from zero.
  KVCache(const ChunkedSequence& sequence,
          bool trains,
          std::shared_ptr<SequenceStates> states = nullptr)
      : sequence_(sequence), trains_(trains), states_(std::move(states)) {}

  // Decoding: returns the number of positions read so far, in the current segment and in all.
  std::int64_t positions() const { return positions_; }
  std::int64_t total_positions() const { return positions_before_ + positions_; }
  const std::optional<std::int64_t>& longest() const { return longest_; }
  LayerKVCache& layer(std::uint64_t place);

  // The sequence that is read in chunks, if any, and the current chunk.
  const std::optional<ChunkedSequence>& sequence() const { return sequence_; }
  std::int64_t chunk() const { return chunk_; }
  // Returns whether layers cache keys. False for a sequence of one chunk.
  bool caches_keys() const { return !sequence_ || sequence_->count() > 1; }
  const std::shared_ptr<SequenceStates>& states() const { return states_; }
  // Returns whether no earlier pass has read the current chunk.
  bool is_new_chunk() const { return is_new_chunk_; }
  // Returns whether the pass only computes the state for later chunks.
  bool is_state_pass() const { return trains_ && is_new_chunk_ && chunk_ + 1 < sequence_->count(); }
  // Transformer-XL memory of each layer after the chunks read so far; empty after a pass that is
  // not the first one over its chunk.
  std::vector<Tensor>& memories() { return memories_; }
  // Requires a call before each pass over a chunk: first in order, to compute the states; then, for
  // the gradients, in reverse order.
  void start_chunk(std::int64_t chunk);

  // Decoding: requires a call after a pass over `time` positions.
  void advance(std::int64_t time);
  // Decoding: starts a segment at position 0. Layers keep the recurrent states that continue over
  // segments, and nothing else.
  void start_segment();
  // Replaces row i by the old row rows[i], in all layers.
  void choose(std::span<const std::int64_t> rows);

 private:
  std::optional<std::int64_t> longest_;
  std::optional<ChunkedSequence> sequence_;
  bool trains_ = false;
  std::shared_ptr<SequenceStates> states_;
  std::int64_t positions_ = 0;         // in the segment
  std::int64_t positions_before_ = 0;  // in earlier ones
  std::int64_t chunk_ = 0;
  bool is_new_chunk_ = true;
  std::vector<Tensor> memories_;
  std::map<std::uint64_t, LayerKVCache> layers_;
};

}  // namespace longspan
