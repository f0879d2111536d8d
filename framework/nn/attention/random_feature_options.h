// Options of the random feature attention types.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/kernels/random_features.h"
#include "framework/options/options.h"

namespace longspan {

struct RandomFeatureOptions {
  std::optional<std::int64_t> count = {};  // none: dim ln(dim), for rfa dim
  std::int64_t seed = 0;
  RandomMap kernel = RandomMap::softmax;  // only for performer
  std::int64_t redraw = 1000;             // 0: never
  std::int64_t draws = 16;
  bool gate = true;
};

// Declares the section model.attention.random_features.
void declare(OptionTable& table, RandomFeatureOptions& options);

}  // namespace longspan
