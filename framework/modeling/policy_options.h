// What a policy and its values are taught by (PPO, Schulman et al. 2017, equations 7 and 9).
#pragma once

#include "framework/options/options.h"

namespace longspan {

struct PolicyOptions {
  double clip = 0.2;             // of the ratio to what the probability of an action was
  double value_weight = 0.5;     // of the loss of the values
  double entropy_weight = 0.01;  // that the policy is rewarded with
};

inline void declare(OptionTable& table, PolicyOptions& options) {
  table.add("ppo.clip_range",
            options.clip,
            "how far the probability of an action may move from what it was when it was taken, as "
            "a part of it, before an advantage counts for no more",
            more_than(0.0),
            at_most(1.0));
  table.add("ppo.vf_coef",
            options.value_weight,
            "weight of the squared error of the values, halved",
            at_least(0.0));
  table.add("ppo.ent_coef",
            options.entropy_weight,
            "weight of the policy's entropy, which keeps it trying",
            at_least(0.0));
}

}  // namespace longspan
