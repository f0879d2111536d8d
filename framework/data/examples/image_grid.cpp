#include "framework/data/examples/image_grid.h"

#include <algorithm>

#include "framework/core/error.h"

namespace longspan {

PngImage make_image_grid(std::span<const PngImage> images, std::int64_t columns) {
  constexpr std::int64_t gap = 2;
  require(!images.empty() && columns > 0,
          "invalid image grid: {} images in {} columns",
          images.size(),
          columns);
  const ImageShape each = images.front().shape;
  columns = std::min(columns, std::ssize(images));
  const std::int64_t rows = (std::ssize(images) + columns - 1) / columns;
  PngImage sheet;
  sheet.shape = {
      gap + rows * (each.height + gap), gap + columns * (each.width + gap), each.channels};
  sheet.values.assign(static_cast<std::size_t>(sheet.shape.values()), 255);
  const std::int64_t line = each.width * each.channels;
  for (std::int64_t i = 0; i < std::ssize(images); ++i) {
    const PngImage& image = images[static_cast<std::size_t>(i)];
    require(image.shape == each, "expected images of one shape in a grid");
    const std::int64_t top = gap + i / columns * (each.height + gap);
    const std::int64_t left = gap + i % columns * (each.width + gap);
    for (std::int64_t row = 0; row < each.height; ++row)
      std::copy_n(image.values.begin() + row * line,
                  line,
                  sheet.values.begin() + ((top + row) * sheet.shape.width + left) * each.channels);
  }
  return sheet;
}

}  // namespace longspan
