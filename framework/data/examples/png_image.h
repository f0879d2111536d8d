// Images of PNG files, by libpng.
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

// Reads a file's stored values, whatever its gAMA, sRGB, iCCP and cHRM chunks say of their colours.
// 16 bits become the nearest 8, fewer are spread over 0 .. 255, palettes become colours. A value
// that is transparent is multiplied by its alpha: it lies on black.
// Throws DataError for a file that is missing, is no PNG, is cut off or damaged, or has more than
// 2^24 values.
PngImage read_png(const std::string& path);

// A PNG file of 8 bits a value.
std::string png_of(const PngImage& image);

// The shape alone, of a file that begins and ends as a PNG does.
ImageShape png_shape(const std::string& path);

}  // namespace longspan
