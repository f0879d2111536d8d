#include "framework/nn/attention/pattern.h"

#include <algorithm>
#include <mutex>

#include "framework/kernels/attention/pair_count.h"

namespace longspan {
namespace {

// Equal masks are merged into one for all heads, so that the kernels need one plan.
HeadMasks head_masks(std::vector<Mask> masks) {
  const bool same = std::ranges::all_of(masks, [&](const Mask& m) { return m == masks.front(); });
  return same ? HeadMasks(masks.front()) : HeadMasks(std::move(masks));
}

}  // namespace

// Caches the most recent table by sequence length. Copies of a pattern share it. Thread-safe:
// returned tables are immutable.
class AttentionPattern::Tables {
 public:
  explicit Tables(Table make) : make_(std::move(make)) {}

  std::shared_ptr<const std::vector<HeadMaskParts>> of(std::int64_t positions) {
    const std::lock_guard lock(mutex_);
    if (!last_ || positions_ != positions) {
      last_ = std::make_shared<const std::vector<HeadMaskParts>>(make_(positions));
      positions_ = positions;
    }
    return last_;
  }

 private:
  const Table make_;
  std::mutex mutex_;
  std::int64_t positions_ = 0;
  std::shared_ptr<const std::vector<HeadMaskParts>> last_;
};

AttentionPattern::AttentionPattern(Table table,
                                   std::int64_t stride,
                                   bool projects_global,
                                   std::optional<std::int64_t> farthest)
    : tables_(std::make_shared<Tables>(std::move(table))),
      stride_(stride),
      projects_global_(projects_global),
      farthest_(farthest) {}

HeadMasks AttentionPattern::rules(std::int64_t positions) const {
  if (!tables_) return HeadMasks();
  const auto table = tables_->of(positions);
  std::vector<Mask> rules;
  for (const HeadMaskParts& head : *table) rules.push_back(head.rules);
  return head_masks(std::move(rules));
}

HeadMasks AttentionPattern::global_rules(std::int64_t positions) const {
  if (!projects_global_) return HeadMasks(masks::nothing());
  const auto table = tables_->of(positions);
  std::vector<Mask> rules;
  for (const HeadMaskParts& head : *table) rules.push_back(head.global);
  return head_masks(std::move(rules));
}

std::optional<StridedKeys> AttentionPattern::folded(const ShardRange& heads,
                                                    std::int64_t positions) const {
  if (!tables_ || positions < 2 * stride_) return std::nullopt;
  const auto table = tables_->of(positions);
  const auto begin = table->begin() + heads.begin;
  std::vector<Mask> near;
  std::vector<Mask> columns;
  for (auto head = begin; head != begin + heads.count; ++head) {
    near.push_back(head->near);
    columns.push_back(head->columns);
  }
  const auto none = [](const std::vector<Mask>& masks) {
    return std::ranges::all_of(masks, [](const Mask& m) { return m == masks::nothing(); });
  };
  if (none(columns)) return std::nullopt;
  StridedKeys result = {.stride = stride_};
  if (!none(near)) result.near = head_masks(std::move(near));
  result.columns = head_masks(std::move(columns));
  return result;
}

double attention_pairs(const AttentionPattern& pattern,
                       const Mask& own,
                       std::int64_t time,
                       std::int64_t memory,
                       const Device& device) {
  const PlanShape whole = {.query_begin = memory, .time = time, .keys = memory + time};
  const auto mean = [&](const HeadMasks& masks) {
    double pairs = 0;
    for (std::int64_t head = 0; head < masks.size(); ++head)
      pairs += static_cast<double>(count_pairs(device.state(), masks.of(head), whole));
    return pairs / static_cast<double>(masks.size());
  };
  const double global =
      pattern.projects_global() ? mean(pattern.global_rules(memory + time) & own) : 0;
  return mean(pattern.rules(memory + time) & own) + global;
}

AttentionMask with_rules(const AttentionMask& mask,
                         const HeadMasks& rules,
                         const ShardRange& heads) {
  require(mask.rules.one_for_all(), "a custom mask must be the same for all heads");
  AttentionMask result = mask;
  result.rules = rules & mask.rules.of(0);
  result.head_begin = heads.begin;
  return result;
}

}  // namespace longspan
