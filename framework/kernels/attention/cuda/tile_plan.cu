#include <algorithm>
#include <functional>
#include <list>
#include <numeric>
#include <span>
#include <vector>

#include "framework/core/gpu.h"
#include "framework/kernels/attention/cuda/tile_plan.h"
#include "framework/kernels/cuda/launch.h"

namespace longspan {
namespace {

// Packs arrays into one block on the host.
class Packer {
 public:
  // Adds elements and returns their offset in bytes.
  template <typename T>
  std::size_t add(std::span<const T> elements) {
    static_assert(sizeof(T) % 8 == 0);  // keeps all arrays aligned
    const std::size_t place = bytes_.size();
    const auto from = std::as_bytes(elements);
    bytes_.insert(bytes_.end(), from.begin(), from.end());
    return place;
  }
  template <typename T>
  std::size_t add(const std::vector<T>& elements) {
    return add(std::span<const T>(elements));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Device memory with the contents of a packer.
class Packed {
 public:
  Packed(Cuda cuda, const Packer& packer)
      : block_(cuda.state->allocator(), packer.bytes().size(), MemoryTag::workspace) {
    if (cuda.state->is_meta()) return;
    gpu::copy(block_.begin(), packer.bytes().data(), packer.bytes().size(), cuda.stream);
    cuda.state->wait();
  }

  template <typename T>
  const T* at(std::size_t place) const {
    return reinterpret_cast<const T*>(block_.begin() + place);
  }

 private:
  ScopedAllocation block_;
};

// Indices by descending number of visits.
std::vector<std::int64_t> by_visits(const std::vector<std::int64_t>& visits) {
  std::vector<std::int64_t> order(visits.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(
      order, std::greater(), [&](std::int64_t t) { return visits[static_cast<std::size_t>(t)]; });
  return order;
}

// Number of tiles in both lists.
std::int64_t shared_tiles(std::span<const TileRun> a, std::span<const TileRun> b) {
  std::int64_t shared = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    shared += std::max(0, std::min<int>(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return shared;
}

template <typename RunsOf>
TileLists pack_lists(Cuda cuda,
                     std::int64_t tiles,
                     const RunsOf& runs_of,
                     std::unique_ptr<Packed>& packed) {
  std::vector<std::int64_t> begin = {0};
  std::vector<TileRun> runs;
  std::vector<std::int64_t> before, visits, of_pairs;
  std::int64_t all = 0, shared = 0;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const auto of_tile = runs_of(t);
    runs.insert(runs.end(), of_tile.begin(), of_tile.end());
    begin.push_back(static_cast<std::int64_t>(runs.size()));
    visits.push_back(0);
    for (const TileRun& run : of_tile) {
      before.push_back(all + visits.back());
      visits.back() += run.end - run.begin;
    }
    if (t % 2 == 0) of_pairs.push_back(0);
    of_pairs.back() += visits.back();
    all += visits.back();
    if (t % 2 == 1) shared += shared_tiles(runs_of(t - 1), of_tile);
  }
  Packer packer;
  const std::size_t begin_place = packer.add(begin), runs_place = packer.add(runs);
  const std::size_t before_place = packer.add(before);
  const std::size_t order_location = packer.add(by_visits(visits));
  const std::size_t pair_order_location = packer.add(by_visits(of_pairs));
  packed = std::make_unique<Packed>(cuda, packer);
  return {packed->at<std::int64_t>(begin_place),
          packed->at<TileRun>(runs_place),
          packed->at<std::int64_t>(before_place),
          packed->at<std::int64_t>(order_location),
          packed->at<std::int64_t>(pair_order_location),
          all,
          4 * shared >= all};
}

// Uses two blocks: the lists come first, because the rules contain pointers to them.
MaskView pack_mask(Cuda cuda, const Mask& mask, std::unique_ptr<Packed> (&packed)[2]) {
  std::vector<RuleView> rules;
  std::vector<std::int64_t> ends;
  std::vector<std::size_t> list_positions;
  Packer lists;
  for (const Mask::Intersection& intersection : mask.alternatives()) {
    for (const MaskRule& rule : intersection) {
      rules.push_back(view_of(rule));
      list_positions.push_back(lists.add(rule.list ? std::span<const std::int64_t>(*rule.list)
                                                   : std::span<const std::int64_t>()));
    }
    ends.push_back(static_cast<std::int64_t>(rules.size()));
  }
  lists.add(ends);  // ensures that it is not empty
  packed[0] = std::make_unique<Packed>(cuda, lists);
  for (std::size_t i = 0; i < rules.size(); ++i)
    rules[i].list = packed[0]->at<std::int64_t>(list_positions[i]);
  Packer packer;
  const std::size_t ends_place = packer.add(ends), rules_location = packer.add(rules);
  packed[1] = std::make_unique<Packed>(cuda, packer);
  return {packed[1]->at<RuleView>(rules_location),
          packed[1]->at<std::int64_t>(ends_place),
          static_cast<std::int64_t>(ends.size())};
}

struct DevicePlan {
  std::weak_ptr<const TilePlan> plan;
  PlanView view = {};
  std::unique_ptr<Packed> mask[2];
  std::unique_ptr<Packed> by_query;
  std::unique_ptr<Packed> by_key;
};

struct DevicePlans {
  std::mutex mutex;
  std::list<DevicePlan> plans;  // most recently used first
};

}  // namespace

PlanView plan_view(Cuda cuda, const std::shared_ptr<const TilePlan>& plan, bool by_key) {
  auto& kept = cuda.state->get_or_create<DevicePlans>();
  const std::lock_guard lock(kept.mutex);
  auto& plans = kept.plans;
  auto place = plans.begin();
  while (place != plans.end() && place->plan.lock() != plan) ++place;
  if (place == plans.end()) {
    plans.remove_if([](const DevicePlan& p) { return p.plan.expired(); });
    DevicePlan made;
    made.plan = plan;
    made.view.mask = pack_mask(cuda, plan->mask(), made.mask);
    made.view.by_query = pack_lists(
        cuda,
        plan->query_tiles(),
        [&](std::int64_t t) { return plan->key_runs(t); },
        made.by_query);
    plans.push_front(std::move(made));
  } else {
    plans.splice(plans.begin(), plans, place);
  }
  DevicePlan& found = plans.front();
  if (by_key && found.by_key == nullptr)
    found.view.by_key = pack_lists(
        cuda, plan->key_tiles(), [&](std::int64_t t) { return plan->query_runs(t); }, found.by_key);
  return found.view;
}

}  // namespace longspan
