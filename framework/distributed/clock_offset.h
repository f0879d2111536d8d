// How far the clocks of other machines are from that of the first rank.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "framework/distributed/communicator.h"

namespace longspan {

// Of one exchange between the first rank and another: when each sent, and when it had what the
// other sent, on its own clock. Nanoseconds.
struct ClockExchange {
  std::int64_t first_sent = 0;
  std::int64_t first_received = 0;
  std::int64_t other_sent = 0;
  std::int64_t other_received = 0;
};

// `offset`: what the other clock is ahead of the first rank's, in nanoseconds; it may be off by
// `uncertainty`.
struct ClockOffset {
  std::int64_t offset = 0;
  std::int64_t uncertainty = 0;
};

// By the exchange that took least on its two ways (Cristian 1989): a longer one has waited
// somewhere, and nobody knows on which way. At least one is given.
ClockOffset clock_offset(std::span<const ClockExchange> exchanges);

struct RankClock {
  std::function<std::int64_t()> now;  // nanoseconds
  std::string name;                   // the same on ranks that read the same clock
};
// The steady clock of this machine.
RankClock steady_clock_of_machine();

// Collective: that of this rank. One rank of each clock that is not the first rank's exchanges a
// few small messages with the first rank; the others of that clock have its result.
ClockOffset clock_offset(const Communicator& world, const RankClock& clock);

}  // namespace longspan
