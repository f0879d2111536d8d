// Image shape.
#pragma once

#include <cstdint>
#include <string>

namespace longspan {

struct ImageShape {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  // 1: grayscale; 3: red, green and blue

  std::int64_t values() const { return height * width * channels; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// Formats as "28 x 28 x 1".
std::string to_string(const ImageShape& shape);

}  // namespace longspan
