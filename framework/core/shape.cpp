#include "framework/core/shape.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "framework/core/error.h"

namespace longspan {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) {
  require(extents.size() <= max_dimensions,
          "expected at most {} dimensions, found {}",
          max_dimensions,
          extents.size());
  for (const auto extent : extents) {
    require(extent >= 0, "expected an extent of at least 0, found {}", extent);
    extents_[static_cast<std::size_t>(dimensions_++)] = extent;
  }
  check_size();
}

// Ensures that elements and bytes are countable with headroom.
void Shape::check_size() const {
  constexpr std::int64_t most = std::int64_t{1} << 58;
  std::int64_t product = 1;
  for (const auto extent : extents())
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product) ||
        product > most)
      throw ConfigurationError(
          "a tensor of shape {} exceeds the address space; reduce the model, the batch or the "
          "sequence length",
          to_string());
}

int Shape::index(int axis) const {
  const int found = axis < 0 ? axis + dimensions_ : axis;
  // `require` would format the shape on every call in kernels' inner loops.
  if (found < 0 || found >= dimensions_)
    throw Failure("shape {} has no axis {}", to_string(), axis);
  return found;
}

std::int64_t Shape::operator[](int axis) const {
  return extents_[static_cast<std::size_t>(index(axis))];
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (const auto extent : extents()) product *= extent;
  return product;
}

std::int64_t Shape::rows() const {
  std::int64_t product = 1;
  for (const auto extent : extents().first(static_cast<std::size_t>(std::max(dimensions_ - 1, 0))))
    product *= extent;
  return product;
}

Shape Shape::with(int axis, std::int64_t extent) const {
  Shape result = *this;
  result.extents_[static_cast<std::size_t>(index(axis))] = extent;
  result.check_size();
  return result;
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(extents(), ", ")); }

bool operator==(const Shape& a, const Shape& b) {
  return std::ranges::equal(a.extents(), b.extents());
}

}  // namespace longspan

fmt::format_context::iterator fmt::formatter<longspan::Shape>::format(
    const longspan::Shape& shape, format_context& context) const {
  return fmt::format_to(context.out(), "{}", shape.to_string());
}
