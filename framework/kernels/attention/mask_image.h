// Geometry of the 2-D image rule: the ranges of positions visible to blocks of queries.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/core/host_device.h"
#include "framework/kernels/attention/mask_tiles.h"

namespace longspan {

class ImageRule {
 public:
  explicit ImageRule(const MaskRule& rule) : ImageRule(rule.numbers.data()) {}
  // Reads the parameters of a rule.
  LONGSPAN_HOST_DEVICE explicit ImageRule(const std::int64_t* numbers)
      : image_{numbers[0],
               numbers[1],
               numbers[2],
               numbers[3],
               numbers[4],
               numbers[5],
               numbers[6] != 0},
        order_(static_cast<masks::ImageOrder>(numbers[7])) {}

  // Defines the rule; the other functions must agree with it.
  LONGSPAN_HOST_DEVICE bool allows(std::int64_t p, std::int64_t k) const;
  // Returns the keys visible to any of the queries, possibly extended to all queries of their
  // blocks.
  KeyRanges visible_to(KeyRange queries) const;
  // Returns the keys k .. k + 63 visible to query p, as bits. Caches the part shared by the queries
  // of a block.
  std::uint64_t word(std::int64_t p, std::int64_t k);

 private:
  struct Pixel {
    std::int64_t row;
    std::int64_t column;
  };
  // Pixel coordinates of a position, and back.
  LONGSPAN_HOST_DEVICE Pixel pixel_of(std::int64_t position) const;
  std::int64_t position_of(Pixel pixel) const;
  LONGSPAN_HOST_DEVICE std::int64_t pixels() const { return image_.height * image_.width; }
  // The first pixel of the block of a pixel, and the extent of the block inside the image.
  LONGSPAN_HOST_DEVICE Pixel corner_of(Pixel pixel) const {
    return {pixel.row / image_.query_height * image_.query_height,
            pixel.column / image_.query_width * image_.query_width};
  }
  LONGSPAN_HOST_DEVICE Pixel extent_of(Pixel corner) const {
    return {std::min(image_.query_height, image_.height - corner.row),
            std::min(image_.query_width, image_.width - corner.column)};
  }

  // Calls f with the ranges of positions of pixels [left, right) of an image row, clipped to the
  // image.
  template <typename F>
  void for_row(std::int64_t row, std::int64_t left, std::int64_t right, const F& f) const;
  // Calls f with the ranges visible to every query of the block at `corner` outside of the block,
  // and with the ranges of the block.
  template <typename F>
  void for_flange(Pixel corner, const F& f) const;
  template <typename F>
  void for_block(Pixel corner, const F& f) const;

  masks::Image image_;
  masks::ImageOrder order_;
  std::int64_t known_corner_ = -1;  // position of the corner whose bits `known_` caches
  std::int64_t known_key_ = -1;
  std::uint64_t known_ = 0;
};

// In generation order, the pixels of all blocks above come first, then those of the blocks to the
// left, as high as this one.
LONGSPAN_HOST_DEVICE inline ImageRule::Pixel ImageRule::pixel_of(std::int64_t position) const {
  if (order_ == masks::ImageOrder::raster)
    return {position / image_.width, position % image_.width};
  Pixel corner = {
      position / (image_.query_height * image_.width) * image_.query_height,
      0,
  };
  const std::int64_t in_rows = position - corner.row * image_.width;
  const std::int64_t height = extent_of(corner).row;
  corner.column = in_rows / (height * image_.query_width) * image_.query_width;
  const std::int64_t inside = in_rows - height * corner.column;
  const std::int64_t width = extent_of(corner).column;
  return {corner.row + inside / width, corner.column + inside % width};
}

LONGSPAN_HOST_DEVICE inline bool ImageRule::allows(std::int64_t p, std::int64_t k) const {
  if (p < 0 || p >= pixels() || k < 0 || k >= pixels()) return false;
  const Pixel query = pixel_of(p);
  const Pixel key = pixel_of(k);
  const Pixel corner = corner_of(query);
  const std::int64_t bottom = corner.row + image_.query_height;
  const std::int64_t right = corner.column + image_.query_width;
  const bool in_rows = key.row >= corner.row && key.row < bottom;
  const bool in_columns = key.column >= corner.column && key.column < right;
  if (in_rows && in_columns)
    return !image_.causal || key.row < query.row ||
           (key.row == query.row && key.column <= query.column);
  if (key.column < corner.column - image_.flange_width || key.column >= right + image_.flange_width)
    return false;
  if (key.row < corner.row) return key.row >= corner.row - image_.flange_height;
  if (key.row >= bottom) return !image_.causal && key.row < bottom + image_.flange_height;
  return !image_.causal || key.column < corner.column;
}

}  // namespace longspan
