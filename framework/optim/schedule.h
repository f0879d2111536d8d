// Learning-rate schedules, as functions of the update number.
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
// Decay shape of warmup_stable_decay: linear in the completed fraction of the decay, or in its
// square root.
enum class DecayType : std::uint8_t { linear, square_root };
// Behavior after `total` updates: hold the last rate; restart the decay from the full rate; or
// continue a cosine, which rises.
enum class ScheduleEnd : std::uint8_t { hold, restart, go_on };

// All types start with a linear warmup from warmup_start to rate. Then: constant; linear to
// end_rate at `total`; cosine to end_rate at `total`; or rate sqrt(warmup / update) (Vaswani et al.
// 2017; a peak of factor / sqrt(width warmup) gives the paper's schedule). warmup_stable_decay
// holds `rate` and falls to end_rate over the last `decay` updates before `total` (Hu et al. 2024,
// Haegele et al. 2024). Before the decay it is independent of `total`, so runs of any length share
// their start.
struct LrSchedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double rate = 1e-3;
  double end_rate = 0;
  double warmup_start = 0;
  std::int64_t warmup = 0;  // updates; the full rate is reached at update `warmup`
  std::int64_t total = 1;   // updates
  ScheduleEnd end = ScheduleEnd::hold;
  std::int64_t decay = 0;  // updates before `total` with a rate below the full one
  DecayType shape = DecayType::linear;

  // update counts from 1.
  double at(std::int64_t update) const;
};

}  // namespace longspan
