// How many ranks to start on this machine, where nobody says.
#pragma once

#include <string>
#include <vector>

#include "launch/configuration.h"

namespace longspan {

struct ChosenLayout {
  int ranks = 1;
  std::vector<std::string> settings;  // "key=value": the layout, where the configuration leaves it
  std::string reason;                 // as a clause
};

// What `parallel.*` names, or else a rank for each GPU of this machine that can be used, or without
// one for each of its memories (NUMA nodes): the fastest layout of them that fits, by the planner's
// counts and the speeds of a usual machine. Throws ConfigurationError for what the configuration
// says wrongly.
ChosenLayout choose_layout(const ConfigurationText& source);

// A rank for each of those, for commands that read no configuration.
ChosenLayout choose_ranks();

}  // namespace longspan
