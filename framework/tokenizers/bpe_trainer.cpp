#include "framework/tokenizers/bpe_trainer.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"

namespace longspan {
namespace {

constexpr std::uint64_t merges_between_reports = 64;

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace

BpeTrainer::BpeTrainer(std::vector<std::string> symbols, PairRules rules)
    : rules_(std::move(rules)), texts_(std::move(symbols)) {
  for (std::size_t id = 0; id < texts_.size(); ++id)
    ids_.set(texts_[id], static_cast<std::int32_t>(id));
  require(ids_.size() == texts_.size(), "duplicate symbol");
  frequencies_.resize(texts_.size());
  pairs_of_.resize(texts_.size());
}

void BpeTrainer::add_word(std::span<const std::int32_t> symbols, std::int64_t count) {
  if (places_.size() + symbols.size() > INT32_MAX)
    throw DataError("its distinct words have more than {} symbols", INT32_MAX);
  const auto word = static_cast<std::int32_t>(counts_.size());
  counts_.push_back(count);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const auto place = static_cast<std::int32_t>(places_.size());
    places_.push_back(
        {symbols[i], i > 0 ? place - 1 : -1, i + 1 < symbols.size() ? place + 1 : -1, word});
    frequency(symbols[i]) += count;
    if (i > 0) add(symbols[i - 1], symbols[i], place - 1, count);
  }
}

double BpeTrainer::score_of(const Pair& pair) const {
  const auto count = static_cast<double>(pair.count);
  if (rules_.score == MergeScore::frequency) return count;
  return count / (static_cast<double>(frequencies_[static_cast<std::size_t>(pair.left)]) *
                  static_cast<double>(frequencies_[static_cast<std::size_t>(pair.right)]));
}

bool BpeTrainer::is_worse(const Candidate& a, const Candidate& b) const {
  if (a.score != b.score) return a.score < b.score;
  const Pair& one = pairs_[a.pair];
  const Pair& other = pairs_[b.pair];
  if (rules_.ties == TieBreak::ids)
    return std::pair(one.left, one.right) > std::pair(other.left, other.right);
  if (one.left != other.left) return text(one.left) > text(other.left);
  return one.right != other.right && text(one.right) > text(other.right);
}

void BpeTrainer::push(std::uint32_t pair) {
  if (pairs_[pair].count < rules_.min_count) return;
  queue_.push_back({score_of(pairs_[pair]), pair});
  std::ranges::push_heap(queue_,
                         [this](const Candidate& a, const Candidate& b) { return is_worse(a, b); });
}

// Keeps only existing pairs, since stale entries accumulate.
void BpeTrainer::rebuild_queue() {
  queue_.clear();
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    if (pairs_[i].count >= rules_.min_count)
      queue_.push_back({score_of(pairs_[i]), static_cast<std::uint32_t>(i)});
  std::ranges::make_heap(queue_,
                         [this](const Candidate& a, const Candidate& b) { return is_worse(a, b); });
}

std::uint32_t BpeTrainer::pair_of(std::int32_t left, std::int32_t right) {
  const std::uint64_t key = key_of(left, right);
  if (const auto* const found = pair_ids_.find(key)) return found->first;
  const auto pair = static_cast<std::uint32_t>(pairs_.size());
  pair_ids_.set(key, pair, 0);
  pairs_.push_back({.left = left, .right = right});
  return pair;
}

void BpeTrainer::add(std::int32_t left,
                     std::int32_t right,
                     std::int32_t place,
                     std::int64_t count) {
  const std::uint32_t number = pair_of(left, right);
  Pair& pair = pairs_[number];
  pair.count += count;
  pair.places.push_back(place);
  if (rules_.score == MergeScore::likelihood && !std::exchange(pair.is_listed, true)) {
    pairs_of_[static_cast<std::size_t>(left)].push_back(number);
    if (right != left) pairs_of_[static_cast<std::size_t>(right)].push_back(number);
  }
  if (std::exchange(pair.touched, merges_) != merges_) touched_.push_back(number);
}

void BpeTrainer::take(std::int32_t left, std::int32_t right, std::int64_t count) {
  Pair& pair = pairs_[pair_of(left, right)];
  pair.count -= count;
  if (pair.count == 0) pair.places = {};
}

std::int32_t BpeTrainer::symbol_of(std::int32_t left, std::int32_t right) {
  std::string_view rest = text(right);
  if (rest.starts_with(rules_.prefix)) rest.remove_prefix(rules_.prefix.size());
  const std::string whole = text(left) + std::string(rest);
  if (const std::int32_t found = ids_.find(whole); found >= 0) return found;
  const auto id = static_cast<std::int32_t>(texts_.size());
  ids_.set(whole, id);
  texts_.push_back(whole);
  frequencies_.push_back(0);
  pairs_of_.emplace_back();
  return id;
}

// From left to right: of three equal symbols the first two are merged.
void BpeTrainer::merge(const PairMerge& merge, std::vector<std::int32_t> places) {
  if (!std::ranges::is_sorted(places)) std::ranges::sort(places);
  for (const std::int32_t place : places) {
    Place& left = at(place);
    if (left.id != merge.left || left.next < 0 || at(left.next).id != merge.right) continue;
    Place& right = at(left.next);
    const std::int64_t count = counts_[static_cast<std::size_t>(left.word)];
    take(merge.left, merge.right, count);
    if (left.previous >= 0) take(at(left.previous).id, merge.left, count);
    if (right.next >= 0) take(merge.right, at(right.next).id, count);
    frequency(merge.left) -= count;
    frequency(merge.right) -= count;
    frequency(merge.whole) += count;
    left.id = merge.whole;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) at(left.next).previous = place;
    if (left.previous >= 0) add(at(left.previous).id, merge.whole, left.previous, count);
    if (left.next >= 0) add(merge.whole, at(left.next).id, place, count);
  }
}

// Pushes the pairs whose scores may have increased: new pairs, and for the likelihood those of
// symbols whose frequency has decreased.
void BpeTrainer::push_touched(const PairMerge& merge) {
  for (const std::uint32_t pair : touched_) push(pair);
  if (rules_.score == MergeScore::frequency) return;
  for (const std::int32_t symbol : {merge.left, merge.right, merge.whole}) {
    auto& pairs = pairs_of_[static_cast<std::size_t>(symbol)];
    for (const std::uint32_t pair : pairs)
      if (pairs_[pair].touched != merges_) push(pair);
    // Pairs without occurrences are removed; if one reappears, it is added to both lists again.
    std::erase_if(pairs, [this](std::uint32_t pair) {
      if (pairs_[pair].count > 0) return false;
      pairs_[pair].is_listed = false;
      return true;
    });
  }
}

std::vector<PairMerge> BpeTrainer::train(std::int64_t symbols, const MergeListener& listener) {
  const auto is_worse_than = [this](const Candidate& a, const Candidate& b) {
    return is_worse(a, b);
  };
  std::vector<PairMerge> merges;
  rebuild_queue();
  while (std::ssize(texts_) < symbols && !queue_.empty()) {
    std::ranges::pop_heap(queue_, is_worse_than);
    const Candidate best = queue_.back();
    queue_.pop_back();
    Pair& pair = pairs_[best.pair];
    if (pair.count < rules_.min_count) continue;
    // A pair whose score has increased has another candidate in the queue.
    if (const double score = score_of(pair); score != best.score) {
      if (score < best.score) push(best.pair);
      continue;
    }
    ++merges_;
    touched_.clear();
    std::vector<std::int32_t> places = std::move(pair.places);
    pair.places = {};
    merges.push_back({pair.left, pair.right, symbol_of(pair.left, pair.right)});
    merge(merges.back(), std::move(places));
    push_touched(merges.back());
    if (queue_.size() > 4 * pairs_.size() + 1024) rebuild_queue();
    if (listener && merges_ % merges_between_reports == 0) listener(std::ssize(texts_));
  }
  return merges;
}

}  // namespace longspan
