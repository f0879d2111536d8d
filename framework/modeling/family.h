// How a family of models enters: its keys, and what makes a model from them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/modeling/backbone.h"
#include "framework/options/options.h"

namespace longspan {

struct Family {
  std::string name;                // model.family
  std::string documentation;       // one line
  std::vector<std::string> tasks;  // that it can learn: names of run.task
  // Binds the family's keys, those that all share included. What it returns builds the body from
  // the options that were read into the table.
  std::function<BackboneFactory(OptionTable&, const PlannedBuildOptions&)> declare;
};

}  // namespace longspan
