// Images: shapes, PNG and IDX files, and grids of images.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/data/rank_zero.h"

namespace longspan {

// Image shape.
struct ImageShape {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  // 1: grayscale; 3: red, green and blue

  std::int64_t values() const { return height * width * channels; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// Formats as "28 x 28 x 1".
std::string to_string(const ImageShape& shape);

// PNG images, by libpng.
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

// Reduces an image to a smaller or equal shape with as many channels: each value is the average
// over its area of the image, rounded down. Source values that lie in several areas count with the
// fractions of their own area. values, to: [height, width, channels].
void average_areas(const ImageShape& image,
                   std::span<const std::int64_t> values,
                   const ImageShape& reduced,
                   std::span<std::int64_t> to);

// Returns the image in a larger shape with as many channels: each pixel has the values of the
// source pixel at its place.
PngImage enlarge_image(const PngImage& image, const ImageShape& shape);

// Arranges images of one shape, at least one, row by row with `columns` per row. Two white pixels
// separate and surround them.
PngImage make_image_grid(std::span<const PngImage> images, std::int64_t columns);

// Byte array in an IDX file, the format of MNIST. A value; copies share the file. Reading is
// thread-safe.
class IdxFile {
 public:
  // Opens a file, which may be compressed by gzip or zstd. Throws DataError when it is not a byte
  // array of `axes` axes, or its size contradicts its header. `what`: name of the required data.
  // Collective.
  IdxFile(const ConfigPath& path, int axes, std::string_view what, const Communicator& all);

  const InputFile& file() const { return *file_; }
  const SharedFile& shared() const { return file_; }
  // Length of the first axis, and the number of elements of each entry.
  std::int64_t size() const { return axes_[0]; }
  std::int64_t elements() const;
  const std::vector<std::int64_t>& axes() const { return axes_; }
  // Fills `out` with consecutive elements, starting at an entry.
  void read(std::int64_t entry, std::span<char> out) const;

 private:
  SharedFile file_;
  std::vector<std::int64_t> axes_;
};

}  // namespace longspan
