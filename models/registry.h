// The families, by name.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "framework/core/options.h"
#include "models/model.h"

namespace longspan {

// Builds the model from the options that were read into the table it came from.
using ModelFactory = std::function<std::unique_ptr<Model>(const ModelSetting&)>;

struct Family {
  std::string name;           // model.family
  std::string documentation;  // one line
  // Binds the family's keys, those that all share included.
  std::function<ModelFactory(OptionTable&, const PlannedSetting&)> declare;
};

// In the order of the help. A new family is a line here.
std::span<const Family> families();

}  // namespace longspan
