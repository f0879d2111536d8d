// The extents of a dense row-major tensor.
#pragma once

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace longspan {

class Shape {
 public:
  static constexpr int max_dimensions = 6;

  Shape() = default;
  // Throws ConfigurationError for more than 2^58 elements.
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  int dimensions() const { return dimensions_; }
  // Returns the extent of an axis; a negative axis counts from the end. Throws Failure for an axis
  // out of range.
  std::int64_t operator[](int axis) const;
  std::int64_t elements() const;
  // Returns the product of all extents but the last: the rows of a matrix view.
  std::int64_t rows() const;
  std::int64_t width() const { return (*this)[-1]; }
  std::span<const std::int64_t> extents() const {
    return {extents_.data(), static_cast<std::size_t>(dimensions_)};
  }
  // Returns this shape with one extent replaced.
  Shape with(int axis, std::int64_t extent) const;
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  int index(int axis) const;
  void check_size() const;

  std::array<std::int64_t, max_dimensions> extents_{};
  int dimensions_ = 0;
};

}  // namespace longspan

// Formats lazily, so that an unused message costs nothing. Supports "{}" only.
template <>
struct fmt::formatter<longspan::Shape> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  format_context::iterator format(const longspan::Shape& shape, format_context& context) const;
};
