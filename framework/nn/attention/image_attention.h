// 2-D local attention for images (Parmar et al. 2018): blocks of pixels attend to themselves and to
// previously generated pixels around them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/nn/attention/attention_kind.h"

namespace longspan {

class OptionTable;

// Grid of an image whose values are the positions of a sequence. The channel values of a pixel are
// adjacent columns. 0: unknown.
struct ImageGrid {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// Keys model.attention.local_2d.query_shape and model.attention.local_2d.memory_flange, each [rows,
// columns].
struct ImageBlockOptions {
  std::vector<std::int64_t> block = {8, 16};
  std::vector<std::int64_t> flange = {8, 16};
};

void declare(OptionTable& table, ImageBlockOptions& options);

// local_2d, for positions in generation order: blocks in raster order, and row by row within a
// block.
AttentionKind local_2d_kind();

}  // namespace longspan
