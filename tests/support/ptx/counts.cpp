#include "tests/support/ptx/counts.h"

#include <algorithm>
#include <map>
#include <set>

namespace ptx {
namespace {

constexpr std::uint64_t word = 4, banks = 32;

}  // namespace

void Counts::end_of_lanes() {
  using Places = std::vector<std::pair<std::uint64_t, std::size_t>>;
  std::map<std::pair<const Instruction*, int>, Places> requests;
  for (auto& touches : touched_) {
    std::map<const Instruction*, int> turns;
    for (const Touch& touch : touches)
      requests[{touch.instruction, turns[touch.instruction]++}].emplace_back(touch.address,
                                                                             touch.bytes);
    touches.clear();
  }
  for (const auto& [of, places] : requests) {
    const std::size_t together = banks * word / std::max(places[0].second, std::size_t{word});
    for (std::size_t first = 0; first < places.size(); first += together) {
      std::array<std::set<std::uint64_t>, banks> words;
      for (std::size_t n = first; n < std::min(first + together, places.size()); ++n) {
        const auto [address, bytes] = places[n];
        for (std::uint64_t w = address / word; w <= (address + bytes - 1) / word; ++w)
          words[w % banks].insert(w);
      }
      counts_[of.first].turns += std::ranges::max(words, {}, &std::set<std::uint64_t>::size).size();
    }
  }
}

}  // namespace ptx
