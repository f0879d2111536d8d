#include "framework/modeling/pooling.h"

#include <algorithm>

#include "framework/core/async_copy.h"
#include "framework/modeling/sequence_parallel.h"

namespace longspan {
namespace {

constexpr std::int64_t widest_head = 64;

std::int64_t heads_for(std::int64_t width) {
  std::int64_t heads = (width + widest_head - 1) / widest_head;
  while (width % heads != 0) ++heads;
  return heads;
}

// Full rows on a dry device, which has no lengths.
std::vector<std::int64_t> lengths_of(const Tensor& length, std::int64_t total) {
  if (length.device().state().is_meta())
    return std::vector<std::int64_t>(static_cast<std::size_t>(length.elements()), total);
  const auto values = length.span<std::int64_t>();
  return {values.begin(), values.end()};
}

// Returns how many positions of the ranges are before `length`.
std::int64_t count_before(const Ranges& ranges, std::int64_t length) {
  std::int64_t count = 0;
  for (const Range& range : ranges)
    count += std::clamp<std::int64_t>(length - range.begin, 0, range.count());
  return count;
}

// Returns the elementwise maximum of columns a and b of each of the n rows; -1 means zeros. On ties
// the gradient flows to b.
Variable larger(const Variable& x,
                const std::vector<std::int64_t>& a,
                const std::vector<std::int64_t>& b,
                std::int64_t n) {
  const auto minus = [](const Variable& y) {
    const Tensor result = y.value().empty_like();
    return scale_and_add_positions(
        y,
        -1,
        Variable(Tensor::zeros({y.shape()[1], y.shape()[2]}, result.dtype(), result.device())));
  };
  const Variable second = gather_columns(x, b, n);
  return add(second, activate(Activation::relu, add(gather_columns(x, a, n), minus(second))));
}

// Returns the maximum of each feature over the first count[r] columns of row r: [rows, 1, width];
// zeros without columns. Halving limits the memory for the backward pass to twice x.
Variable largest(Variable x, std::vector<std::int64_t> count) {
  do {
    const std::int64_t n = std::max<std::int64_t>(1, (x.shape()[1] + 1) / 2);
    std::vector<std::int64_t> a, b;
    for (std::int64_t& columns : count) {
      for (std::int64_t i = 0; i < n; ++i) {
        a.push_back(std::min(2 * i, columns - 1));
        b.push_back(std::min(2 * i + 1, columns - 1));
      }
      columns = (columns + 1) / 2;
    }
    x = larger(x, a, b, n);
  } while (x.shape()[1] > 1);
  return x;
}

}  // namespace

Pooler::Pooler(const Scope& scope, Pooling kind, std::int64_t width, const Initializer& initial)
    : mesh_(scope.parameters().mesh()),
      device_(scope.parameters().device()),
      kind_(kind),
      heads_(heads_for(width)) {
  if (kind != Pooling::attention) return;
  query_ = scope.no_decay_weight("query", {width}, initial);
  // A key bias would add the same score to all keys of the query, without effect.
  key_.emplace(scope.child("key"),
               Linear::Options{.in = width, .out = width, .bias = false, .initial = initial});
}

Variable Pooler::operator()(const Variable& x,
                            const SequenceShard& time,
                            const Tensor& length) const {
  const Variable inside =
      time.divided() ? gather_from_sequence_parallel_region(x, time.rows(), mesh_.tensor) : x;
  if (kind_ == Pooling::first) return first(inside, time.inside(), length);
  if (kind_ == Pooling::maximum) return maximum(inside, time.total, length);
  return valid_length_mask(inside, time.total, length);
}

Variable Pooler::first(const Variable& x, const Ranges& held, const Tensor& length) const {
  std::vector<std::int64_t> places;
  for (const std::int64_t positions : lengths_of(length, 1))
    places.push_back(positions > 0 ? 0 : -1);
  return gather_positions(x, held, places, 1, mesh_.context);
}

Variable Pooler::maximum(const Variable& x, std::int64_t total, const Tensor& length) const {
  const std::vector<std::int64_t> lengths = lengths_of(length, total);
  const std::vector<Ranges> held = cross_attention_shards(mesh_, 1, total).keys;
  const auto own = static_cast<std::size_t>(mesh_.context.rank());
  const DType dtype = x.value().dtype();
  std::vector<std::int64_t> count;
  for (const std::int64_t positions : lengths) count.push_back(count_before(held[own], positions));
  // Differences would be rounded strongly in a narrow dtype.
  Variable result = largest(cast(x, accumulator_of(dtype)), count);
  if (held.size() == 1) return cast(result, dtype);
  // One column per context rank, starting with the ranks that have positions of the row.
  std::vector<std::int64_t> places;
  count.clear();
  for (const std::int64_t positions : lengths) {
    count.push_back(0);
    const std::size_t row = places.size();
    places.resize(row + held.size(), -1);
    for (std::size_t rank = 0; rank < held.size(); ++rank)
      if (count_before(held[rank], positions) > 0)
        places[row + static_cast<std::size_t>(count.back()++)] = static_cast<std::int64_t>(rank);
  }
  const auto rank = static_cast<std::int64_t>(own);
  return cast(
      largest(gather_positions(result, {{rank, rank + 1}}, places, std::ssize(held), mesh_.context),
              count),
      dtype);
}

// One query attends per context rank. Equal scores give the mean.
Variable Pooler::valid_length_mask(const Variable& x,
                                   std::int64_t total,
                                   const Tensor& length) const {
  const std::int64_t rows = x.shape()[0], width = x.shape()[2];
  const Shape heads = {rows, x.shape()[1], heads_, width / heads_};
  const Shape one = heads.with(1, 1);
  Variable query;
  if (query_) {
    const std::vector<std::int64_t> each(static_cast<std::size_t>(rows), 0);
    query = reshape(embedding(reshape(cast(query_->variable, x.value().dtype()), {1, width}),
                              host_field(each, {rows, 1}, device_),
                              0,
                              1),
                    one);
  } else {
    query = Variable(Tensor::zeros(one, x.value().dtype(), device_));
  }
  const Variable value = reshape(x, heads);
  const Variable key = key_ ? reshape((*key_)(x), heads) : value.detach();
  const AttentionMask mask = {.rules = masks::everything(),
                              .key_length = copy_async(length, device_)};
  Variable result;
  if (mesh_.context.size() == 1) {
    result = attention(query, key, value, mask);
  } else {
    SequenceShards shares = cross_attention_shards(mesh_, 1, total);
    shares.queries.clear();
    for (std::int64_t rank = 0; rank < mesh_.context.size(); ++rank)
      shares.queries.push_back({{rank, rank + 1}});
    shares.queries_total = mesh_.context.size();
    result = ring_attention(query, key, value, mask, {}, {}, shares);
  }
  return reshape(result, {rows, 1, width});
}

}  // namespace longspan
