// A model family: its configuration keys and backbone factory.
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
  std::vector<std::string> tasks;  // supported values of run.task
  // Binds the family's keys, including the common ones. Returns the factory that builds the
  // backbone from the options in the table.
  std::function<BackboneFactory(OptionTable&, const PlannedBuildOptions&)> declare;
};

}  // namespace longspan
