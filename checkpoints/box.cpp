#include "checkpoints/box.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace longspan {
namespace {

constexpr std::int64_t chunk_bytes = 1 << 20;

std::int64_t begin_of(const Box& box, int axis) {
  return box.offset[static_cast<std::size_t>(axis)];
}
std::int64_t end_of(const Box& box, int axis) { return begin_of(box, axis) + box.shape[axis]; }

// Finds overlapping boxes. Cuts that no box crosses divide the boxes recursively, as a layout
// divides a tensor. Each part is checked separately, so that the cost is nearly linear in the
// number of boxes. Remaining groups are compared pairwise, up to the number of comparisons that a
// real checkpoint could need.
class Overlaps {
 public:
  explicit Overlaps(std::int64_t boxes) : left_(std::int64_t{1 << 20} + 64 * boxes) {}

  // Returns an error or "". Reorders the boxes.
  std::string among(std::span<const Box*> group, int cuts = 16) {
    if (group.size() < 2) return {};
    if (cuts > 0 && group.size() > 8)
      for (int axis = 0; axis < group.front()->shape.dimensions(); ++axis)
        if (const auto parts = cut(group, axis); parts.size() > 1) {
          for (const auto& part : parts)
            if (auto problem = among(part, cuts - 1); !problem.empty()) return problem;
          return {};
        }
    return compare(group);
  }

 private:
  static void sort(std::span<const Box*> group, int axis) {
    std::ranges::stable_sort(group, {}, [axis](const Box* box) { return begin_of(*box, axis); });
  }

  // Returns the groups that no box crosses along an axis.
  static std::vector<std::span<const Box*>> cut(std::span<const Box*> group, int axis) {
    sort(group, axis);
    std::vector<std::span<const Box*>> parts;
    std::size_t begin = 0;
    std::int64_t reached = end_of(*group.front(), axis);
    for (std::size_t i = 1; i < group.size(); ++i) {
      if (begin_of(*group[i], axis) >= reached) {
        parts.push_back(group.subspan(begin, i - begin));
        begin = i;
      }
      reached = std::max(reached, end_of(*group[i], axis));
    }
    parts.push_back(group.subspan(begin));
    return parts;
  }

  std::string compare(std::span<const Box*> group) {
    sort(group, 0);
    for (std::size_t i = 0; i < group.size(); ++i)
      for (std::size_t j = i + 1; j < group.size(); ++j) {
        const Box& box = *group[i];
        const Box& next = *group[j];
        if (begin_of(next, 0) >= end_of(box, 0)) break;
        if (overlap(box, next))
          return fmt::format("pieces {} and {} overlap", box.to_string(), next.to_string());
        if (--left_ < 0)
          return fmt::format("no layout divides a tensor into these {} pieces", group.size());
      }
    return {};
  }

  std::int64_t left_;  // remaining comparisons
};

}  // namespace

std::string Box::to_string() const {
  return fmt::format("{} at [{}]", shape.to_string(), fmt::join(offset, ", "));
}

Box box_of(const Shape& shape, const std::vector<std::int64_t>& offset) {
  if (shape.dimensions() == 0) return {Shape{1}, {0}};
  return {shape, offset};
}

Box full_box(const Shape& shape) {
  return box_of(shape, std::vector<std::int64_t>(static_cast<std::size_t>(shape.dimensions()), 0));
}

bool lies_in(const Box& box, const Shape& whole) {
  if (box.shape.dimensions() != whole.dimensions() ||
      box.offset.size() != static_cast<std::size_t>(whole.dimensions()))
    return false;
  for (int axis = 0; axis < whole.dimensions(); ++axis)
    if (begin_of(box, axis) < 0 || box.shape[axis] > whole[axis] ||
        begin_of(box, axis) > whole[axis] - box.shape[axis])
      return false;
  return true;
}

bool overlap(const Box& a, const Box& b) {
  for (int axis = 0; axis < a.shape.dimensions(); ++axis)
    if (std::max(begin_of(a, axis), begin_of(b, axis)) >=
        std::min(end_of(a, axis), end_of(b, axis)))
      return false;
  return true;
}

std::vector<Box> boxes_of_range(const Shape& whole, std::int64_t begin, std::int64_t end) {
  std::vector<Box> boxes;
  while (begin < end) {
    // Selects the largest axis step that starts here and fits.
    int axis = 0;
    std::int64_t step = whole.elements() / whole[0];
    while (begin % step != 0 || begin + step > end) step /= whole[++axis];
    const std::int64_t row = begin / step;
    const std::int64_t left = whole[axis] - row % whole[axis];
    const std::int64_t count = std::min(left, (end - begin) / step);
    Box box = full_box(whole);
    box.shape = whole.with(axis, count);
    for (int i = 0; i < axis; ++i) box.shape = box.shape.with(i, 1);
    std::int64_t index = row;
    for (int i = axis; i >= 0; --i) {
      box.offset[static_cast<std::size_t>(i)] = index % whole[i];
      index /= whole[i];
    }
    boxes.push_back(std::move(box));
    begin += count * step;
  }
  return boxes;
}

std::int64_t copy_overlap(std::size_t element_bytes,
                          const Box& from,
                          const std::byte* source,
                          const Box& to,
                          std::byte* target) {
  if (!overlap(from, to)) return 0;
  const int last = from.shape.dimensions() - 1;
  std::array<std::int64_t, Shape::max_dimensions> begin{}, end{}, at{};
  for (int axis = 0; axis <= last; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    begin[i] = at[i] = std::max(begin_of(from, axis), begin_of(to, axis));
    end[i] = std::min(end_of(from, axis), end_of(to, axis));
  }
  const auto index_in = [&](const Box& box) {
    std::int64_t index = 0;
    for (int axis = 0; axis <= last; ++axis)
      index = index * box.shape[axis] + at[static_cast<std::size_t>(axis)] - begin_of(box, axis);
    return static_cast<std::size_t>(index) * element_bytes;
  };
  const std::int64_t run =
      end[static_cast<std::size_t>(last)] - begin[static_cast<std::size_t>(last)];
  std::int64_t copied = 0;
  while (true) {
    std::memcpy(target + index_in(to),
                source + index_in(from),
                static_cast<std::size_t>(run) * element_bytes);
    copied += run;
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      if (++at[i] < end[i]) break;
      at[i] = begin[i];
    }
    if (axis < 0) return copied;
  }
}

std::string validate_coverage(const Shape& whole, std::span<const Box> boxes) {
  std::vector<const Box*> group;
  for (const Box& box : boxes) group.push_back(&box);
  auto problem = Overlaps(static_cast<std::int64_t>(boxes.size())).among(group);
  if (!problem.empty()) return problem;
  // Disjoint boxes have no more elements than their array.
  std::int64_t covered = 0;
  for (const Box& box : boxes) covered += box.shape.elements();
  if (covered == whole.elements()) return {};
  return fmt::format(
      "no piece covers {} of its {} elements", whole.elements() - covered, whole.elements());
}

Shape chunk_shape(const Shape& piece, std::size_t element_bytes) {
  std::int64_t left = chunk_bytes / static_cast<std::int64_t>(element_bytes);
  Shape chunk = piece;
  for (int axis = piece.dimensions() - 1; axis >= 0; --axis) {
    const std::int64_t most = std::max<std::int64_t>(1, std::min(left, piece[axis]));
    // Equal chunk sizes waste the least at the edge.
    const std::int64_t parts = (piece[axis] + most - 1) / most;
    const std::int64_t extent = (piece[axis] + parts - 1) / parts;
    chunk = chunk.with(axis, extent);
    left = extent == piece[axis] ? left / extent : 1;
  }
  return chunk;
}

}  // namespace longspan
