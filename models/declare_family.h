// Binds a family's configuration keys to its backbone factory. Private to models.
#pragma once

#include <memory>

#include "framework/modeling/family.h"

namespace longspan {

// Returns Family::declare for a family with one options struct. `declare` binds the keys to the
// struct, and `body` builds the backbone from it.
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
