// What the attention kinds that meet by random features are asked for.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/core/options.h"

namespace longspan {

struct FeatureOptions {
  std::optional<std::int64_t> count = {};  // none: dim ln(dim), of random_features dim
  std::int64_t seed = 0;
  bool relu = false;
  std::int64_t redraw = 1000;  // 0: never
  std::int64_t draws = 16;
  bool gate = true;
};

// The keys model.features*, model.performer_* and model.random_features_*.
void declare(OptionTable& table, FeatureOptions& options);

}  // namespace longspan
