#include "framework/training_loop/step_meter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace longspan {
namespace {

constexpr std::int64_t steps_between = 10;
constexpr double max_seconds = 600;
// Fraction of the time: the others wait for that long if a rank is a third slower.
constexpr double clear_difference = 0.25;

// Returns the ranks that waited least, if they are clearly separated from the others.
std::vector<std::size_t> slow_ranks(const std::vector<StepWait>& of_ranks) {
  const auto share = [&](std::size_t rank) {
    return of_ranks[rank].waited / of_ranks[rank].seconds;
  };
  std::vector<std::size_t> order(of_ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, share);
  std::size_t count = 0;
  double largest = clear_difference;
  for (std::size_t i = 1; i <= order.size() / 2; ++i) {
    const double difference = share(order[i]) - share(order[i - 1]);
    if (difference < largest) continue;
    largest = difference;
    count = i;
  }
  order.resize(count);
  std::ranges::sort(order);
  return order;
}

// Returns "rank 3", "ranks 2, 3".
std::string names_of(const std::vector<std::size_t>& ranks) {
  return ranks.size() == 1 ? fmt::format("rank {}", ranks[0])
                           : fmt::format("ranks {}", fmt::join(ranks, ", "));
}

constexpr const char* in_the_last_steps = ": in the last ";

}  // namespace

std::string slow_ranks_text(const std::vector<StepWait>& of_ranks, std::int64_t steps) {
  const std::vector<std::size_t> slow = slow_ranks(of_ranks);
  if (slow.empty()) return "";
  StepWait own, others;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    StepWait& sum = std::ranges::binary_search(slow, rank) ? own : others;
    sum.seconds += of_ranks[rank].seconds;
    sum.waited += of_ranks[rank].waited;
  }
  const auto [them, they] = slow.size() == 1 ? std::pair("it", "it") : std::pair("them", "they");
  return fmt::format(
      "Straggler: {}{}{} steps the other ranks waited {:.0f}% of the time for {}, "
      "{} waited {:.0f}%",
      names_of(slow),
      in_the_last_steps,
      steps,
      100 * others.waited / others.seconds,
      them,
      they,
      100 * own.waited / own.seconds);
}

void StragglerDetector::add(const StepWait& step, const Communicator& world, const Log& log) {
  if (world.size() == 1) return;
  sum_.seconds += step.seconds;
  sum_.waited += step.waited;
  if (++steps_ % steps_between != 0) return;
  const std::vector<std::string> all =
      world.all_gather(std::string(reinterpret_cast<const char*>(&sum_), sizeof sum_));
  if (world.rank() != 0) return;
  before_.resize(all.size());
  if (sum_.seconds - before_[0].seconds < min_seconds_) return;
  std::vector<StepWait> since(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    StepWait now;
    std::memcpy(&now, all[rank].data(), sizeof now);
    since[rank] = {now.seconds - before_[rank].seconds, now.waited - before_[rank].waited};
    before_[rank] = now;
  }
  const std::int64_t steps = steps_ - std::exchange(steps_before_, steps_);
  const std::string sentence = slow_ranks_text(since, steps);
  const std::string of = sentence.substr(0, sentence.find(in_the_last_steps));
  if (of == last_reported_) return;
  last_reported_ = of;
  min_seconds_ = std::min(2 * min_seconds_, max_seconds);
  if (sentence.empty())
    log.info("No stragglers any more");
  else
    log.warning("{}", sentence);
}

}  // namespace longspan
