#include "framework/nn/attention/kv_cache.h"

#include <algorithm>

#include "framework/autograd/ring_attention.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

constexpr std::int64_t min_capacity = 64;

Tensor chosen_rows(const Tensor& x, std::span<const std::int64_t> rows, std::int64_t count) {
  const auto size = static_cast<std::int64_t>(rows.size());
  const Tensor result =
      Tensor::empty(x.shape().with(0, size), x.dtype(), x.device(), MemoryTag::recurrent_state);
  const std::int64_t capacity = x.shape()[1];
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    rows_of(result, i, 0, count).copy_from(rows_of(x, row, 0, count));
    // Masked keys still take part in products, so they must be finite.
    if (count < capacity) rows_of(result, i, count, capacity).zero();
  }
  return result;
}

Tensor chosen_states(const Tensor& x, std::span<const std::int64_t> rows) {
  const auto size = static_cast<std::int64_t>(rows.size());
  const Tensor result =
      Tensor::empty(x.shape().with(0, size), x.dtype(), x.device(), MemoryTag::recurrent_state);
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    require(row >= 0 && row < x.shape()[0],
            "recurrent state: row {} is out of range ({} rows)",
            row,
            x.shape()[0]);
    result.slice(i, i + 1).copy_from(x.slice(row, row + 1));
  }
  return result;
}

Tensor chosen_lengths(const Tensor& length, std::span<const std::int64_t> rows) {
  const Tensor host = length.to_host();
  std::vector<std::int64_t> chosen;
  for (const std::int64_t row : rows)
    chosen.push_back(host.span<std::int64_t>()[static_cast<std::size_t>(row)]);
  return Tensor::from<std::int64_t>(chosen,
                                    {static_cast<std::int64_t>(rows.size())},
                                    length.device(),
                                    MemoryTag::recurrent_state);
}

}  // namespace

void LayerKVCache::move_to(std::int64_t first, std::int64_t count, std::int64_t capacity) {
  for (Tensor& x : tensors_) {
    const Tensor larger = Tensor::zeros(
        x.shape().with(1, capacity), x.dtype(), x.device(), MemoryTag::recurrent_state);
    if (count > 0) move_rows(x, first, larger, 0, count);
    x = larger;
  }
  for (auto& row : written_by_) row.erase(row.begin(), row.begin() + first);
  begin_ += first;
  count_ = count;
}

void LayerKVCache::append(std::span<const Variable> projections) {
  const std::int64_t time = projections.front().shape()[1];
  if (empty()) {
    for (const Variable& more : projections)
      tensors_.push_back(
          Tensor::zeros(more.shape().with(1, time), more.value().dtype(), more.value().device()));
    move_to(0, 0, std::max(min_capacity, time));
  }
  require(projections.size() == tensors_.size() && projections.front().shape()[0] == rows(),
          "KV cache: expected {} projections of {} rows, found {} of {}; call KVCache::choose",
          tensors_.size(),
          rows(),
          projections.size(),
          projections.front().shape()[0]);
  if (count_ + time > capacity()) move_to(0, count_, std::max(2 * capacity(), count_ + time));
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    move_rows(projections[i].value(), 0, tensors_[i], count_, time);
  count_ += time;
  written_by_.resize(static_cast<std::size_t>(rows()));
  for (std::size_t row = 0; row < written_by_.size(); ++row)
    written_by_[row].resize(static_cast<std::size_t>(count_), static_cast<std::int64_t>(row));
}

void LayerKVCache::crop(std::int64_t positions) {
  if (positions < count_) move_to(count_ - positions, positions, capacity());
}

std::int64_t LayerKVCache::common(std::int64_t a, std::int64_t b) const {
  const auto& left = written_by_[static_cast<std::size_t>(a)];
  const auto& right = written_by_[static_cast<std::size_t>(b)];
  std::size_t positions = left.size();
  while (positions > 0 && left[positions - 1] != right[positions - 1]) --positions;
  return static_cast<std::int64_t>(positions);
}

void LayerKVCache::change_rows(std::span<const std::int64_t> rows) {
  struct Tail {
    std::int64_t to;
    std::int64_t from;
    std::int64_t begin;
  };
  std::vector<Tail> tails;
  for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
    const std::int64_t from = rows[static_cast<std::size_t>(i)];
    if (const std::int64_t begin = common(i, from); begin < count_)
      tails.push_back({i, from, begin});
  }
  for (Tensor& x : tensors_) {
    if (!tails.empty() && !(spare_.defined() && spare_.shape() == x.shape()))
      spare_ = x.empty_like(MemoryTag::recurrent_state);
    // Copies through the spare buffer, because a row may be read after it is written.
    for (const Tail& tail : tails)
      rows_of(spare_, tail.to, tail.begin, count_)
          .copy_from(rows_of(x, tail.from, tail.begin, count_));
    for (const Tail& tail : tails)
      rows_of(x, tail.to, tail.begin, count_)
          .copy_from(rows_of(spare_, tail.to, tail.begin, count_));
    x = x.slice(0, static_cast<std::int64_t>(rows.size()));
  }
}

void LayerKVCache::require_rows(std::int64_t rows) const {
  for (const auto& tensor : boundaries_)
    if (const auto state = tensor.find(chunk_); state != tensor.end())
      require(!state->second->value.defined() || state->second->value.shape()[0] == rows,
              "recurrent state: expected {} rows, found {}; call KVCache::choose",
              rows,
              state->second->value.shape()[0]);
}

ChunkBoundaries LayerKVCache::boundaries(std::size_t index) {
  if (boundaries_.size() <= index) boundaries_.resize(index + 1);
  auto& states = boundaries_[index];
  ChunkBoundaries ends;
  const bool continues = states_ && index < state_names_.size();
  if (continues && chunk_ == 0 && !states.contains(0))
    if (const auto found = states_->before.find(state_names_[index]);
        found != states_->before.end())
      states[0] = std::make_shared<BoundaryTensor>(
          BoundaryTensor{.value = found->second, .is_constant = true});
  if (const auto found = states.find(chunk_); found != states.end()) ends.before = found->second;
  if (is_last_ && !continues) return ends;
  std::shared_ptr<BoundaryTensor>& after = states[chunk_ + 1];
  if (!after) after = std::make_shared<BoundaryTensor>();
  ends.after = after;
  if (is_last_) states_->after[state_names_[index]] = after;
  return ends;
}

std::vector<Variable> LayerKVCache::append_chunk(std::span<const Variable> projections,
                                                 const ChunkRows& seen) {
  std::vector<Variable> result;
  for (std::size_t i = 0; i < projections.size(); ++i) {
    const Variable& own = projections[i];
    if (seen.retained) {
      result.push_back(append_to_state(own, boundaries(i), *seen.retained));
      continue;
    }
    if (all_rows_.size() <= i) all_rows_.push_back(std::make_shared<SequenceRows>());
    if (!all_rows_[i]->value.defined())
      all_rows_[i]->value = Tensor::empty(own.shape().with(1, seen.all),
                                          own.value().dtype(),
                                          own.value().device(),
                                          MemoryTag::recurrent_state);
    result.push_back(append_to_rows(own, all_rows_[i], seen.before));
  }
  return result;
}

void LayerKVCache::start_chunk(std::int64_t chunk,
                               bool last,
                               const std::shared_ptr<SequenceStates>& states) {
  chunk_ = chunk;
  is_last_ = last;
  states_ = states;
}

void LayerKVCache::drop_boundaries(bool training) {
  for (auto& states : boundaries_) {
    states.erase(states.upper_bound(chunk_ + 1), states.end());
    if (!training) states.erase(states.begin(), states.lower_bound(chunk_));
  }
}

void LayerKVCache::start_segment() {
  boundaries_.resize(std::min(boundaries_.size(), state_names_.size()));
  tensors_.clear();
  written_by_.clear();
  begin_ = count_ = 0;
  spare_ = {};
  distances = {};
}

void LayerKVCache::reorder(std::span<const std::int64_t> rows) {
  for (auto& states : boundaries_)
    for (auto& [chunk, state] : states)
      if (state->value.defined()) state->value = chosen_states(state->value, rows);
  if (empty()) return;
  std::vector<std::vector<std::int64_t>> written_by;
  for (const std::int64_t row : rows) {
    require(row >= 0 && row < this->rows(),
            "KV cache: row {} is out of range ({} rows)",
            row,
            this->rows());
    written_by.push_back(written_by_[static_cast<std::size_t>(row)]);
  }
  if (std::ssize(rows) <= this->rows())
    change_rows(rows);
  else
    for (Tensor& x : tensors_) x = chosen_rows(x, rows, count_);
  if (length.defined()) length = chosen_lengths(length, rows);
  written_by_ = std::move(written_by);
}

LayerKVCache& KVCache::layer(std::uint64_t place) {
  LayerKVCache& layer = layers_[place];
  layer.start_chunk(chunk_, sequence_ && chunk_ + 1 == sequence_->count(), states_);
  return layer;
}

void KVCache::start_chunk(std::int64_t chunk) {
  is_new_chunk_ = chunk >= chunk_;
  chunk_ = chunk;
  for (auto& [place, layer] : layers_) {
    layer.start_chunk(chunk, sequence_ && chunk + 1 == sequence_->count(), states_);
    layer.drop_boundaries(trains_);
  }
}

void KVCache::advance(std::int64_t time) {
  if (sequence_) return;
  positions_ += time;
  start_chunk(chunk_ + 1);
}

void KVCache::start_segment() {
  positions_before_ += positions_;
  positions_ = 0;
  for (auto& [place, layer] : layers_) layer.start_segment();
}

void KVCache::choose(std::span<const std::int64_t> rows) {
  for (auto& [place, layer] : layers_) layer.reorder(rows);
}

}  // namespace longspan
