// The reference: what keys there are.
#pragma once

#include <vector>

#include "framework/core/options.h"
#include "launch/configuration.h"

namespace longspan {

// Every key of every family.
std::vector<OptionDescription> configuration_reference();

}  // namespace longspan
