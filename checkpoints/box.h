// Boxes of a tensor: where a piece lies in the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/core/shape.h"

namespace longspan {

// A box of a larger array. It has at least one dimension: a single value is [1].
struct Box {
  Shape shape;
  std::vector<std::int64_t> offset;

  // "[2, 3] at [0, 4]".
  std::string to_string() const;
  friend bool operator==(const Box&, const Box&) = default;
};

// The box of that shape and offset; both may be empty for a single value.
Box box_of(const Shape& shape, const std::vector<std::int64_t>& offset);
// The whole of an array of that shape.
Box whole_box(const Shape& shape);
// True when the box lies in an array of that shape (with at least one dimension).
bool lies_in(const Box& box, const Shape& whole);
bool overlap(const Box& a, const Box& b);
// Elements [begin, end) of a row-major array of that shape as few boxes, in the order of the
// elements, which follow one another in each. The shape has at least one dimension.
std::vector<Box> boxes_of_range(const Shape& whole, std::int64_t begin, std::int64_t end);

// Copies the elements that both boxes have from one dense row-major block to the other; offsets are
// in the same array. Returns how many.
std::int64_t copy_overlap(std::size_t element_bytes,
                          const Box& from,
                          const std::byte* source,
                          const Box& to,
                          std::byte* target);

// Empty when the boxes cover each element of the array exactly once, otherwise what is wrong. The
// boxes lie in the array.
std::string coverage_problem(const Shape& whole, std::span<const Box> boxes);

// How a piece is cut into chunks of about a mebibyte, each of which is a contiguous range of the
// piece. No element has more than 8 bytes; no extent is 0.
Shape chunk_shape(const Shape& piece, std::size_t element_bytes);

// Calls f(box, begin) for each chunk of the piece in row-major order; `begin` is the index of its
// first element in the piece, and its elements follow one another there.
template <typename F>
void for_each_chunk(const Shape& piece, const Shape& chunk, F&& f) {
  const int dimensions = piece.dimensions();
  Box box{chunk, std::vector<std::int64_t>(static_cast<std::size_t>(dimensions), 0)};
  std::int64_t begin = 0;
  while (begin < piece.elements()) {
    for (int axis = 0; axis < dimensions; ++axis) {
      const std::int64_t left = piece[axis] - box.offset[static_cast<std::size_t>(axis)];
      box.shape = box.shape.with(axis, left < chunk[axis] ? left : chunk[axis]);
    }
    f(static_cast<const Box&>(box), begin);
    begin += box.shape.elements();
    for (int axis = dimensions - 1; axis >= 0; --axis) {
      auto& at = box.offset[static_cast<std::size_t>(axis)];
      at += chunk[axis];
      if (at < piece[axis]) break;
      at = 0;
    }
  }
}

}  // namespace longspan
