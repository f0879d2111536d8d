// PNG images, by libpng.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/examples/image_shape.h"

namespace longspan {

struct PngImage {
  ImageShape shape;
  std::vector<std::uint8_t> values;  // [height, width, channels]
};

// Reads the stored values of a file; gAMA, sRGB, iCCP and cHRM chunks are ignored. 16-bit values
// are rounded to 8 bits, smaller depths are scaled to 0 .. 255, and palettes are expanded.
// Transparent pixels are composited on black. Throws DataError for a file that is missing, not a
// PNG, truncated, corrupt, or larger than 2^24 values.
PngImage read_png(const std::string& path);

// Encodes a PNG file of 8 bits a value.
std::string png_of(const PngImage& image);

// Returns the shape of a PNG file, after checking only its beginning and its end.
ImageShape png_shape(const std::string& path);

}  // namespace longspan
