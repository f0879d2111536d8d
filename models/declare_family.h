// What declares a family's keys and makes its body of them. Private to models.
#pragma once

#include <memory>

#include "framework/modeling/family.h"

namespace longspan {

// Family::declare of a family whose options are one struct: `declare` binds the keys to it, and
// `body` makes a body of what was read into it.
template <typename Options>
auto declared(BackboneFactory (*body)(const Options&)) {
  return [body](OptionTable& table, const PlannedBuildOptions& planned) -> BackboneFactory {
    const auto options = std::make_shared<Options>();
    declare(table, *options, planned);
    return [body, options](const Scope& scope, const ModelBuildOptions& setting) {
      return body(*options)(scope, setting);
    };
  };
}

}  // namespace longspan
