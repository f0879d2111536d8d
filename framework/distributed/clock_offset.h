// Offsets of other machines' clocks from the first rank's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "framework/distributed/communicator.h"

namespace longspan {

// Timestamps of one exchange between the first rank and another: each one's send and receive times
// on its own clock. Nanoseconds.
struct ClockExchange {
  std::int64_t first_sent = 0;
  std::int64_t first_received = 0;
  std::int64_t other_sent = 0;
  std::int64_t other_received = 0;
};

// `offset`: lead of the other clock over the first rank's, in nanoseconds, accurate to
// `uncertainty`.
struct ClockOffset {
  std::int64_t offset = 0;
  std::int64_t uncertainty = 0;
};

// Estimates the offset from the exchange with the shortest round trip (Cristian 1989): a longer one
// was delayed in an unknown direction. Requires at least one exchange.
ClockOffset clock_offset(std::span<const ClockExchange> exchanges);

struct RankClock {
  std::function<std::int64_t()> now;  // nanoseconds
  std::string name;                   // equal on ranks that share a clock
};
// Returns the steady clock of this machine.
RankClock steady_clock_of_machine();

// Collective. Returns this rank's offset. One rank per clock other than the first rank's exchanges
// a few small messages with the first rank. The other ranks of that clock receive its result.
ClockOffset clock_offset(const Communicator& world, const RankClock& clock);

}  // namespace longspan
