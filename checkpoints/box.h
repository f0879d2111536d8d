// Boxes: positions of shards in a global tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/core/shape.h"

namespace longspan {

// A box of a larger array. It has at least one dimension: a scalar is [1].
struct Box {
  Shape shape;
  std::vector<std::int64_t> offset;

  // Formats as "[2, 3] at [0, 4]".
  std::string to_string() const;
  friend bool operator==(const Box&, const Box&) = default;
};

// Returns the box of a shape and offset; both may be empty for a scalar.
Box box_of(const Shape& shape, const std::vector<std::int64_t>& offset);
// Returns the box of an entire array of this shape.
Box full_box(const Shape& shape);
// Returns whether the box lies in an array of this shape (at least one dimension).
bool lies_in(const Box& box, const Shape& whole);
bool overlap(const Box& a, const Box& b);
// Decomposes elements [begin, end) of a row-major array into few boxes, ordered by element. Each
// box is a contiguous range. Requires at least one dimension.
std::vector<Box> boxes_of_range(const Shape& whole, std::int64_t begin, std::int64_t end);

// Copies the intersection of two boxes from one dense row-major block to the other. Both offsets
// refer to the same array. Returns the number of elements copied.
std::int64_t copy_overlap(std::size_t element_bytes,
                          const Box& from,
                          const std::byte* source,
                          const Box& to,
                          std::byte* target);

// Returns "" when the boxes cover each element of the array exactly once, otherwise an error. The
// boxes must lie in the array.
std::string validate_coverage(const Shape& whole, std::span<const Box> boxes);

// Returns the chunk shape of a piece: about 1 MiB, each chunk a contiguous range of the piece.
// Requires elements of at most 8 bytes and no extent 0.
Shape chunk_shape(const Shape& piece, std::size_t element_bytes);

// Calls f(box, begin) for each chunk of the piece in row-major order. `begin` is the index of its
// first element in the piece, where its elements are contiguous.
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
