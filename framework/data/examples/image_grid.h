// Images beside each other on one.
#pragma once

#include <span>

#include "framework/data/examples/png_image.h"

namespace longspan {

// Images of one shape, row by row, `columns` in each, with two pixels of white between them and
// around them. At least one.
PngImage make_image_grid(std::span<const PngImage> images, std::int64_t columns);

}  // namespace longspan
