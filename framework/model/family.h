// How a family of models enters: its keys, and what makes a model from them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/core/options.h"
#include "framework/model/model.h"

namespace longspan {

// Builds the model from the options that were read into the table it came from.
using ModelFactory = std::function<std::unique_ptr<Model>(const ModelSetting&)>;

struct Family {
  std::string name;           // model.family
  std::string documentation;  // one line
  // Binds the family's keys, those that all share included.
  std::function<ModelFactory(OptionTable&, const PlannedSetting&)> declare;
};

}  // namespace longspan
