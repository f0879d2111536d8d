// What the attention kinds that meet by random features are asked for.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/kernels/random_features.h"
#include "framework/options/options.h"

namespace longspan {

struct RandomFeatureOptions {
  std::optional<std::int64_t> count = {};  // none: dim ln(dim), of rfa dim
  std::int64_t seed = 0;
  RandomMap kernel = RandomMap::softmax;  // of performer
  std::int64_t redraw = 1000;             // 0: never
  std::int64_t draws = 16;
  bool gate = true;
};

// The section model.attention.random_features.
void declare(OptionTable& table, RandomFeatureOptions& options);

}  // namespace longspan
