// 2-D local attention to images (Parmar et al. 2018): blocks of pixels that see themselves and what
// was generated around them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/nn/attention/attention_kind.h"

namespace longspan {

class OptionTable;

// Of an image whose values are the positions of a sequence: the values of a pixel's channels are
// columns beside each other. 0: not known.
struct ImageGrid {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// The keys model.attention.local_2d.query_shape and model.attention.local_2d.memory_flange, each
// rows and columns.
struct ImageBlockOptions {
  std::vector<std::int64_t> block = {8, 16};
  std::vector<std::int64_t> flange = {8, 16};
};

void declare(OptionTable& table, ImageBlockOptions& options);

// local_2d, of positions in the order of generation: blocks in raster order, row by row inside.
AttentionKind local_2d_kind();

}  // namespace longspan
