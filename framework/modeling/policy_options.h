// PPO loss options (Schulman et al. 2017, equations 7 and 9).
#pragma once

#include "framework/options/options.h"

namespace longspan {

struct PolicyOptions {
  double clip = 0.2;             // of the ratio of new to old action probability
  double value_weight = 0.5;     // of the value loss
  double entropy_weight = 0.01;  // of the entropy bonus
};

inline void declare(OptionTable& table, PolicyOptions& options) {
  table.add("ppo.clip_range",
            options.clip,
            "clipping range of the probability ratio between the new and the old policy",
            more_than(0.0),
            at_most(1.0),
            only_with(is("run.task", {"reinforcement_learning"})));
  table.add("ppo.vf_coef",
            options.value_weight,
            "weight of the value loss, half the squared error",
            at_least(0.0),
            only_with(is("run.task", {"reinforcement_learning"})));
  table.add("ppo.ent_coef",
            options.entropy_weight,
            "weight of the entropy bonus",
            at_least(0.0),
            only_with(is("run.task", {"reinforcement_learning"})));
}

}  // namespace longspan
