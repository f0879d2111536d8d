#include <algorithm>
#include <numeric>
#include <utility>

#include "framework/autograd/ring_attention.h"
#include "framework/core/dispatch.h"
#include "framework/core/error.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// Returns [batch, time, heads, dim] as [batch, time, heads * dim].
Tensor in_rows(const Tensor& x) {
  const Shape& shape = x.shape();
  return x.reshape({shape[0], shape[1], shape[2] * shape[3]});
}

}  // namespace

Tensor rows_of(const Tensor& x, std::int64_t sequence, std::int64_t begin, std::int64_t end) {
  const Shape& shape = x.shape();
  return x.slice(sequence, sequence + 1).reshape({shape[1], shape[2], shape[3]}).slice(begin, end);
}

void move_rows(const Tensor& from,
               std::int64_t from_begin,
               const Tensor& to,
               std::int64_t to_begin,
               std::int64_t count) {
  on(from.device(), [&](auto backend) {
    copy_rows(backend, in_rows(from), from_begin, in_rows(to), to_begin, count, false);
  });
}

std::vector<Tensor> pieces_of(const Tensor& x, const Ranges& ranges) {
  require(total_count(ranges) == x.shape()[1],
          "ring attention: expected a position for each of the {} rows, found {} positions",
          x.shape()[1],
          total_count(ranges));
  if (ranges.size() == 1) return {x};
  std::vector<Tensor> pieces;
  std::int64_t begin = 0;
  for (const Range& range : ranges) {
    pieces.push_back(Tensor::empty(x.shape().with(1, range.count()), x.dtype(), x.device()));
    move_rows(x, begin, pieces.back(), 0, range.count());
    begin += range.count();
  }
  return pieces;
}

Tensor slice_columns(const Tensor& x, const Range& range) {
  if (!x.defined()) return {};
  const Shape& shape = x.shape();
  if (range.begin == 0 && range.end == shape.width()) return x;
  const std::int64_t rows = shape.with(-1, 1).elements();
  const Tensor slice = Tensor::empty({rows, range.count(), 1, 1}, x.dtype(), x.device());
  if (range.count() > 0)
    move_rows(x.reshape({rows, shape.width(), 1, 1}), range.begin, slice, 0, range.count());
  return slice.reshape(shape.with(-1, range.count()));
}

std::vector<std::vector<Tensor>> padding_pieces(const Tensor& padding,
                                                std::int64_t batch,
                                                const std::vector<Ranges>& positions) {
  std::int64_t total = 0;
  for (const Ranges& ranges : positions) total += total_count(ranges);
  const Shape wanted = {batch, total};
  require(padding.shape() == wanted && padding.dtype() == DType::u8,
          "ring attention: expected key_padding of all keys, {} {}, found {} {}",
          name_of(DType::u8),
          wanted,
          name_of(padding.dtype()),
          padding.shape());
  std::vector<std::vector<Tensor>> result;
  for (const Ranges& ranges : positions) {
    std::vector<Tensor>& pieces = result.emplace_back();
    for (const Range& range : ranges) pieces.push_back(slice_columns(padding, range));
  }
  return result;
}

SequenceParts::SequenceParts(const SortedSequence& whole,
                             const Ranges& queries,
                             const std::vector<Ranges>& keys)
    : whole_(whole) {
  std::int64_t total = 0;
  for (const Ranges& ranges : keys) total += total_count(ranges);
  require(whole.key_position.shape()[2] == total,
          "ring attention: expected parts of all {} keys, found {}",
          total,
          whole.key_position.shape()[2]);
  for (const Range& range : queries)
    queries_.push_back({.query_position = slice_columns(whole.query_position, range),
                        .key_position = {},
                        .query_bucket = slice_columns(whole.query_bucket, range)});
  for (const Ranges& ranges : keys) {
    std::vector<SortedSequence>& pieces = keys_.emplace_back();
    for (const Range& range : ranges)
      pieces.push_back({.query_position = {},
                        .key_position = slice_columns(whole.key_position, range),
                        .key_bucket = slice_columns(whole.key_bucket, range)});
  }
}

SortedSequence SequenceParts::between(std::size_t i, std::size_t rank, std::size_t j) const {
  SortedSequence result = whole_;
  result.query_position = queries_[i].query_position;
  result.query_bucket = queries_[i].query_bucket;
  result.key_position = keys_[rank][j].key_position;
  result.key_bucket = keys_[rank][j].key_bucket;
  return result;
}

bool cover_once(const std::vector<Ranges>& positions, const Range& sequence) {
  Ranges all;
  for (const Ranges& ranges : positions) all.insert(all.end(), ranges.begin(), ranges.end());
  std::erase_if(all, [](const Range& range) { return range.count() == 0; });
  std::ranges::sort(all, {}, &Range::begin);
  std::int64_t end = sequence.begin;
  for (const Range& range : all) {
    if (range.begin != end) return false;
    end = range.end;
  }
  return end == sequence.end;
}

Tensor joined(const std::vector<Tensor>& pieces) {
  if (pieces.size() == 1) return pieces.front();
  std::int64_t rows = 0;
  for (const Tensor& piece : pieces) rows += piece.shape()[1];
  const Tensor& first = pieces.front();
  Tensor result = Tensor::empty(first.shape().with(1, rows), first.dtype(), first.device());
  std::int64_t begin = 0;
  for (const Tensor& piece : pieces) {
    move_rows(piece, 0, result, begin, piece.shape()[1]);
    begin += piece.shape()[1];
  }
  return result;
}

SequenceSlots::SequenceSlots(std::int64_t parts) : count_(parts) {
  order_.resize(static_cast<std::size_t>(parts));
  std::iota(order_.begin(), order_.end(), 0);
}

SequenceSlots::SequenceSlots(const SequenceShards& shares) : ranks_(shares.ranks) {
  for (const Ranges& ranges : shares.queries) each_ = std::max(each_, std::ssize(ranges));
  count_ = std::ssize(shares.queries[shares.local_index()]);
  first_ = each_ * shares.ranks.rank();
  std::vector<std::pair<Range, std::int64_t>> slots;
  const Range behind = {shares.keys_total, shares.keys_total + 1};
  for (std::int64_t rank = 0; rank < std::ssize(shares.queries); ++rank) {
    const Ranges& ranges = shares.queries[static_cast<std::size_t>(rank)];
    for (std::int64_t i = 0; i < each_; ++i)
      slots.emplace_back(i < std::ssize(ranges) ? ranges[static_cast<std::size_t>(i)] : behind,
                         rank * each_ + i);
  }
  std::ranges::stable_sort(
      slots, {}, [](const auto& slot) { return std::pair(slot.first.begin, slot.first.end); });
  for (const auto& [range, slot] : slots) order_.push_back(slot);
}

Ranges SequenceSlots::rows_of(const Ranges& positions) {
  Ranges rows;
  std::int64_t begin = 0;
  for (const Range& range : positions) {
    rows.push_back({begin, begin + range.count()});
    begin += range.count();
  }
  return rows;
}

}  // namespace longspan
