// Grids of images.
#pragma once

#include <span>

#include "framework/data/examples/png_image.h"

namespace longspan {

// Arranges images of one shape, at least one, row by row with `columns` per row. Two white pixels
// separate and surround them.
PngImage make_image_grid(std::span<const PngImage> images, std::int64_t columns);

}  // namespace longspan
