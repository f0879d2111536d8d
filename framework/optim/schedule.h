// Learning-rate schedules: the rate of an update is a function of its number.
#pragma once

#include <cstdint>

namespace longspan {

enum class ScheduleKind : std::uint8_t {
  constant,
  linear,
  cosine,
  inverse_sqrt,
  warmup_stable_decay
};
// How the rate falls at the end of warmup_stable_decay: by the part of the decay that is done, or
// by its root.
enum class DecayType : std::uint8_t { linear, square_root };
// What follows after `total` updates: the last rate stays; the decay starts again from the full
// rate; or a cosine goes on and rises.
enum class ScheduleEnd : std::uint8_t { hold, restart, go_on };

// All kinds begin with a linear warm-up from warmup_start to rate. Then: constant; linear to
// end_rate at `total`; half a cosine to end_rate at `total`; rate sqrt(warmup / update) (Vaswani et
// al. 2017; with a peak of factor / sqrt(width warmup) it is that paper's own); or `rate` but for
// the last `decay` updates before `total`, in which it falls to end_rate (Hu et al. 2024, Haegele
// et al. 2024). Until then it does not depend on `total`: runs of any length have their beginning
// in common.
struct LrSchedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double rate = 1e-3;
  double end_rate = 0;
  double warmup_start = 0;
  std::int64_t warmup = 0;  // updates; the full rate is reached at update `warmup`
  std::int64_t total = 1;   // updates
  ScheduleEnd end = ScheduleEnd::hold;
  std::int64_t decay = 0;  // updates before `total` whose rate is below the full one
  DecayType shape = DecayType::linear;

  // update counts from 1.
  double at(std::int64_t update) const;
};

}  // namespace longspan
