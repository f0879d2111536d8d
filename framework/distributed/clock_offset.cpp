#include "framework/distributed/clock_offset.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <vector>

#include "framework/core/system.h"
#include "framework/core/timeline.h"

namespace longspan {
namespace {

constexpr int exchanges_of_a_clock = 16;

// Combines this machine's boot id with the time namespace, since a container may have its own.
std::string name_of_steady_clock() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> name{};
  const ssize_t length = ::readlink("/proc/self/ns/time", name.data(), name.size());
  if (length > 0) boot.append(name.data(), static_cast<std::size_t>(length));
  if (!boot.empty()) return boot;
  return host_name();
}

// The message in each direction: its send time, and the receive time of the previous one.
struct Stamps {
  std::int64_t sent = 0;
  std::int64_t received_before = 0;
};

// Measures between the first rank and `other`; all other ranks send to themselves. Ranks start each
// exchange after the previous one is complete on both sides, so that neither waits long.
ClockOffset measure(const Communicator& world, int other, const RankClock& clock) {
  const bool is_first = world.rank() == 0;
  const int partner = is_first ? other : (world.rank() == other ? 0 : world.rank());
  const Device device = Device::cpu();
  const Tensor mine = Tensor::zeros({2}, DType::i64, device, MemoryTag::workspace);
  const Tensor theirs = Tensor::zeros({2}, DType::i64, device, MemoryTag::workspace);
  std::vector<ClockExchange> exchanges;
  std::int64_t received = 0;
  // One more than are used: the partner's receive time arrives with its next message.
  for (int i = 0; i <= exchanges_of_a_clock; ++i) {
    const Stamps sends = {clock.now(), received};
    std::memcpy(mine.bytes(), &sends, sizeof sends);
    world.exchange(mine, partner, theirs, partner);
    received = clock.now();
    Stamps got;
    std::memcpy(&got, theirs.bytes(), sizeof got);
    if (i > 0)
      (is_first ? exchanges.back().other_received : exchanges.back().first_received) =
          got.received_before;
    exchanges.push_back(is_first ? ClockExchange{sends.sent, received, got.sent, 0}
                                 : ClockExchange{got.sent, 0, sends.sent, received});
  }
  exchanges.pop_back();
  return clock_offset(exchanges);
}

}  // namespace

ClockOffset clock_offset(std::span<const ClockExchange> exchanges) {
  const auto there = [](const ClockExchange& each) {
    return each.other_received - each.first_sent;
  };
  const auto back = [](const ClockExchange& each) { return each.first_received - each.other_sent; };
  const ClockExchange& best = *std::ranges::min_element(
      exchanges, {}, [&](const ClockExchange& each) { return there(each) + back(each); });
  return {.offset = (there(best) - back(best)) / 2,
          .uncertainty = (there(best) + back(best) + 1) / 2};
}

RankClock steady_clock_of_machine() { return {steady_nanoseconds, name_of_steady_clock()}; }

ClockOffset clock_offset(const Communicator& world, const RankClock& clock) {
  const std::vector<std::string> names = world.all_gather(clock.name);
  ClockOffset mine;
  for (int rank = 1; rank < world.size(); ++rank) {
    const std::string& name = names[static_cast<std::size_t>(rank)];
    const auto first = std::ranges::find(names, name) - names.begin();
    if (first != rank) continue;  // an already measured clock, or the first rank's
    ClockOffset found = measure(world, rank, clock);
    Tensor of_clock =
        Tensor::from<std::int64_t>(std::vector<std::int64_t>{found.offset, found.uncertainty},
                                   {2},
                                   Device::cpu(),
                                   MemoryTag::workspace);
    world.broadcast(of_clock, rank);
    if (name == clock.name)
      mine = {of_clock.span<std::int64_t>()[0], of_clock.span<std::int64_t>()[1]};
  }
  return mine;
}

}  // namespace longspan
