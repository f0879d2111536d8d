#include "framework/kernels/attention/tile_plan.h"

#include <algorithm>
#include <bit>
#include <list>
#include <unordered_map>
#include <utility>

#include "framework/core/error.h"
#include "framework/kernels/attention/tile_walk.h"

namespace longspan {
namespace {

// Memory of a run: by query tile and by key tile, and its two ends during the transposition.
constexpr std::int64_t run_bytes = 4 * sizeof(TileRun);
constexpr std::int64_t max_cached_bytes = std::int64_t{1} << 30;
// Index range of a run.
constexpr std::int64_t max_tiles = (std::int64_t{1} << 30) - 1;

// The first `count` bits.
std::uint64_t first_bits(std::int64_t count) { return all_bits >> (64 - count); }

enum class Kind : std::uint8_t { none, partial, full };

// The active runs of a column of the transposed lists, updated from one column to the next.
class ActiveRuns {
 public:
  const std::vector<TileRun>& runs() const { return runs_; }

  struct Change {
    std::int32_t tile;
    Kind kind;
  };
  // Ascending tiles; the last change of a tile applies.
  void apply(std::span<const Change> changes) {
    if (changes.empty()) return;
    next_.clear();
    std::size_t run = 0;
    std::int32_t from = 0;  // runs_[run] has been copied up to here
    const auto copy_until = [&](std::int32_t end) {
      for (; run < runs_.size(); ++run) {
        const std::int32_t begin = std::max(from, runs_[run].begin);
        if (begin >= end) return;
        emit(begin, std::min<std::int32_t>(runs_[run].end, end), runs_[run].full != 0);
        if (runs_[run].end > end) return;
      }
    };
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const Change& change = changes[i];
      if (i + 1 < changes.size() && changes[i + 1].tile == change.tile) continue;
      copy_until(change.tile);
      if (change.kind != Kind::none) emit(change.tile, change.tile + 1, change.kind == Kind::full);
      from = change.tile + 1;
      while (run < runs_.size() && runs_[run].end <= from) ++run;
    }
    copy_until(std::numeric_limits<std::int32_t>::max() / 2);
    std::swap(runs_, next_);
  }

 private:
  void emit(std::int32_t begin, std::int32_t end, bool full) {
    if (!next_.empty() && next_.back().end == begin && (next_.back().full != 0) == full)
      next_.back().end = end & 0x3fffffff;
    else
      next_.push_back({begin, end & 0x3fffffff, full});
  }

  std::vector<TileRun> runs_;
  std::vector<TileRun> next_;
};

}  // namespace

TilePlan::TilePlan(const Mask& mask, const PlanShape& shape, std::int64_t max_bytes)
    : mask_(mask), shape_(shape), max_bytes_(max_bytes) {
  if (std::max(query_tiles(), key_tiles()) > max_tiles)
    throw ConfigurationError(
        "model.attention.layer_types: expected at most {} queries and keys per call, found {} and "
        "{}; use more parallel.context_parallel_size ranks or shorter sequences",
        max_tiles * attention_tile,
        shape_.time,
        shape_.keys);
  by_query_.begin.push_back(0);
  for (std::int64_t t = 0; t < query_tiles(); ++t) {
    add_query_tile(t);
    by_query_.begin.push_back(static_cast<std::int64_t>(by_query_.runs.size()));
  }
  by_query_.runs.shrink_to_fit();
}

void TilePlan::tile_bits(std::int64_t first_query,
                         std::int64_t rows,
                         std::int64_t first_key,
                         std::int64_t keys,
                         std::uint64_t* bits) const {
  allowed_bits(mask_, first_query, rows, first_key, bits);
  if (keys < 64)
    for (std::int64_t r = 0; r < rows; ++r) bits[r] &= first_bits(keys);
}

void TilePlan::add_query_tile(std::int64_t query_tile) {
  const std::int64_t first = shape_.query_begin + query_tile * attention_tile;
  const std::int64_t rows = std::min(attention_tile, shape_.time - query_tile * attention_tile);
  const KeyRange queries{first, first + rows};
  for_each_key_tile(
      mask_,
      queries,
      {shape_.key_begin, shape_.key_begin + shape_.keys},
      [&](std::int64_t begin, std::int64_t end) { add_covered(queries, begin, end); },
      [&](std::int64_t key_tile) { add_looked_at(queries, key_tile); });
}

// Tiles whose pairs are all allowed.
void TilePlan::add_covered(KeyRange queries, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = queries.end - queries.begin;
  const std::int64_t whole =
      rows == attention_tile ? std::min(end, shape_.keys / attention_tile) : begin;
  const std::int64_t last_key = std::min(end * attention_tile, shape_.keys);
  add_run(begin, std::max(begin, whole), true);
  add_run(std::max(begin, whole), end, false);
  pairs_ += rows * (last_key - begin * attention_tile);
  add_distances(queries.begin - (shape_.key_begin + last_key - 1),
                queries.end - 1 - (shape_.key_begin + begin * attention_tile));
}

// A tile that needs bits.
void TilePlan::add_looked_at(KeyRange queries, std::int64_t key_tile) {
  const std::int64_t rows = queries.end - queries.begin;
  const std::int64_t key = shape_.key_begin + key_tile * attention_tile;
  std::uint64_t bits[attention_tile];
  tile_bits(queries.begin,
            rows,
            key,
            std::min(attention_tile, shape_.keys - key_tile * attention_tile),
            bits);
  std::uint64_t both = all_bits;
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    both &= bits[r];
    if (bits[r] == 0) continue;
    count += std::popcount(bits[r]);
    add_distances(queries.begin + r - (key + 63 - std::countl_zero(bits[r])),
                  queries.begin + r - (key + std::countr_zero(bits[r])));
  }
  if (count == 0) return;
  pairs_ += count;
  add_run(key_tile, key_tile + 1, rows == attention_tile && both == all_bits);
}

void TilePlan::add_distances(std::int64_t nearest, std::int64_t farthest) {
  const bool first = nearest_ > farthest_;
  nearest_ = first ? nearest : std::min(nearest_, nearest);
  farthest_ = first ? farthest : std::max(farthest_, farthest);
}

void TilePlan::add_run(std::int64_t begin, std::int64_t end, bool full) {
  if (begin >= end) return;
  (full ? full_tiles_ : partial_tiles_) += end - begin;
  auto& runs = by_query_.runs;
  const bool first = static_cast<std::int64_t>(runs.size()) == by_query_.begin.back();
  if (!first && runs.back().end == begin && (runs.back().full != 0) == full) {
    runs.back().end = static_cast<std::int32_t>(end) & 0x3fffffff;
    return;
  }
  if ((static_cast<std::int64_t>(runs.size()) + 1) * run_bytes > max_bytes_)
    throw ConfigurationError(
        "model.attention.layer_types: the key ranges of {} queries over {} keys exceed {} (lists "
        "of {} MiB); use a larger model.attention.stride, more parallel.context_parallel_size "
        "ranks or shorter sequences",
        shape_.time,
        shape_.keys,
        runs.size(),
        max_bytes_ >> 20);
  runs.push_back(
      {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end) & 0x3fffffff, full});
}

std::int64_t TilePlan::bytes() const {
  const auto begins =
      static_cast<std::int64_t>(sizeof(std::int64_t)) * (query_tiles() + key_tiles());
  return static_cast<std::int64_t>(sizeof(TilePlan)) + begins +
         2 * static_cast<std::int64_t>(sizeof(TileRun)) * runs();
}

std::span<const TileRun> TilePlan::query_runs(std::int64_t key_tile) const {
  std::call_once(transposed_, [this] { transpose(); });
  return by_key_.of(key_tile);
}

// Iterates over the key tiles with the list of query tiles that visit the current one. Only the
// ends of runs change it from one key tile to the next.
void TilePlan::transpose() const {
  const auto columns = static_cast<std::size_t>(key_tiles());
  std::vector<std::int64_t> begin(columns + 2, 0);
  for (const TileRun& run : by_query_.runs) {
    ++begin[static_cast<std::size_t>(run.begin) + 1];
    ++begin[static_cast<std::size_t>(run.end) + 1];
  }
  for (std::size_t c = 1; c < begin.size(); ++c) begin[c] += begin[c - 1];
  std::vector<ActiveRuns::Change> changes(static_cast<std::size_t>(begin.back()));
  std::vector<std::int64_t> place(begin.begin(), begin.end() - 1);
  const auto change = [&](std::int32_t column, std::int64_t query_tile, Kind kind) {
    auto& to = place[static_cast<std::size_t>(column)];
    changes[static_cast<std::size_t>(to++)] = {static_cast<std::int32_t>(query_tile), kind};
  };
  for (std::int64_t q = 0; q < query_tiles(); ++q)
    for (const TileRun& run : key_runs(q)) {
      change(run.begin, q, run.full != 0 ? Kind::full : Kind::partial);
      change(run.end, q, Kind::none);
    }
  ActiveRuns active;
  by_key_.begin.push_back(0);
  for (std::size_t c = 0; c < columns; ++c) {
    active.apply({changes.data() + begin[c], static_cast<std::size_t>(begin[c + 1] - begin[c])});
    by_key_.runs.insert(by_key_.runs.end(), active.runs().begin(), active.runs().end());
    by_key_.begin.push_back(static_cast<std::int64_t>(by_key_.runs.size()));
  }
  by_key_.runs.shrink_to_fit();
}

std::uint64_t hash_of(const Mask& mask, const PlanShape& shape) {
  std::uint64_t hash = mask.hash();
  for (const std::int64_t number : {shape.query_begin, shape.time, shape.key_begin, shape.keys})
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

namespace {

// Cache of the plans of a device.
class TilePlanCache {
 public:
  std::shared_ptr<const TilePlan> find(const Mask& mask, const PlanShape& shape) {
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = places_.equal_range(hash_of(mask, shape));
    for (auto place = begin; place != end; ++place) {
      const auto plan = place->second;
      if ((*plan)->shape() != shape || !((*plan)->mask() == mask)) continue;
      plans_.splice(plans_.begin(), plans_, plan);
      return *plan;
    }
    return nullptr;
  }

  void keep(std::shared_ptr<const TilePlan> plan) {
    const std::lock_guard lock(mutex_);
    bytes_ += plan->bytes();
    plans_.push_front(std::move(plan));
    places_.emplace(key_of(*plans_.front()), plans_.begin());
    while (bytes_ > max_cached_bytes && plans_.size() > 1) forget_last();
  }

 private:
  using Plans = std::list<std::shared_ptr<const TilePlan>>;

  static std::uint64_t key_of(const TilePlan& plan) { return hash_of(plan.mask(), plan.shape()); }

  void forget_last() {
    const auto last = std::prev(plans_.end());
    const auto [begin, end] = places_.equal_range(key_of(**last));
    places_.erase(
        std::find_if(begin, end, [&](const auto& place) { return place.second == last; }));
    bytes_ -= (*last)->bytes();
    plans_.erase(last);
  }

  std::mutex mutex_;
  Plans plans_;  // most recently used first
  std::unordered_multimap<std::uint64_t, Plans::iterator> places_;
  std::int64_t bytes_ = 0;
};

}  // namespace

std::shared_ptr<const TilePlan> tile_plan(DeviceState& device,
                                          const Mask& mask,
                                          const PlanShape& shape) {
  auto& kept = device.get_or_create<TilePlanCache>();
  if (auto found = kept.find(mask, shape)) return found;
  auto made = std::make_shared<const TilePlan>(mask, shape);
  kept.keep(made);
  return made;
}

}  // namespace longspan
