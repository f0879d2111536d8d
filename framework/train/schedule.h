// Learning-rate schedules: the rate of an update is a function of its number.
#pragma once

#include <cstdint>

namespace longspan {

enum class ScheduleKind : std::uint8_t { constant, linear, cosine, inverse_sqrt };
// What follows after `total` updates: the last rate stays; the decay starts again from the full
// rate; or a cosine goes on and rises.
enum class ScheduleEnd : std::uint8_t { hold, restart, go_on };

// All kinds begin with a linear warm-up from warmup_start to rate. Then: constant; linear to
// end_rate at `total`; half a cosine to end_rate at `total`; rate sqrt(warmup / update) (Vaswani et
// al. 2017; with a peak of factor / sqrt(width warmup) it is that paper's own).
struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double rate = 1e-3;
  double end_rate = 0;
  double warmup_start = 0;
  std::int64_t warmup = 0;  // updates; the full rate is reached at update `warmup`
  std::int64_t total = 1;   // updates
  ScheduleEnd end = ScheduleEnd::hold;

  // update counts from 1.
  double at(std::int64_t update) const;
};

}  // namespace longspan
