#include "framework/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longspan {
namespace {

// Progress of the decay: 0 at the end of the warmup, 1 at the end.
double progress(const LrSchedule& schedule, std::int64_t update) {
  const auto period =
      static_cast<double>(std::max<std::int64_t>(schedule.total - schedule.warmup, 1));
  const auto done = static_cast<double>(update - schedule.warmup);
  switch (schedule.end) {
    case ScheduleEnd::hold:
      return std::min(done / period, 1.0);
    case ScheduleEnd::restart:
      return std::fmod(done, period) / period;
    case ScheduleEnd::go_on:
      return done / period;
  }
  return 1;
}

// Returns the fraction of the full rate at the end of warmup_stable_decay.
double left(const LrSchedule& schedule, std::int64_t update) {
  if (schedule.end == ScheduleEnd::restart)
    update = schedule.warmup + (update - schedule.warmup) %
                                   std::max<std::int64_t>(schedule.total - schedule.warmup, 1);
  const std::int64_t last_full = schedule.total - 1 - schedule.decay;
  if (update <= last_full) return 1;
  const auto done = static_cast<double>(std::min(update, schedule.total) - last_full) /
                    static_cast<double>(schedule.decay + 1);
  return 1 - (schedule.shape == DecayType::linear ? done : std::sqrt(done));
}

}  // namespace

double LrSchedule::at(std::int64_t update) const {
  if (update < warmup)
    return warmup_start +
           static_cast<double>(update) * (rate - warmup_start) / static_cast<double>(warmup);
  switch (kind) {
    case ScheduleKind::constant:
      return rate;
    case ScheduleKind::linear:
      return end_rate + (rate - end_rate) * (1 - std::min(progress(*this, update), 1.0));
    case ScheduleKind::cosine:
      return end_rate +
             0.5 * (rate - end_rate) * (1 + std::cos(std::numbers::pi * progress(*this, update)));
    case ScheduleKind::inverse_sqrt:
      return rate * std::sqrt(static_cast<double>(std::max<std::int64_t>(warmup, 1)) /
                              static_cast<double>(std::max<std::int64_t>(update, 1)));
    case ScheduleKind::warmup_stable_decay:
      return end_rate + (rate - end_rate) * left(*this, update);
  }
  return rate;
}

}  // namespace longspan
