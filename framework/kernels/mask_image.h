// The geometry of the 2-D image rule: which stretches of positions the blocks of queries see.
#pragma once

#include <cstdint>

#include "framework/kernels/mask_tiles.h"

namespace longspan {

class ImageRule {
 public:
  explicit ImageRule(const MaskRule& rule);

  // The definition.
  bool allows(std::int64_t p, std::int64_t k) const;
  // What some query of the positions sees, and perhaps more of their blocks.
  Stretches seen_by(Stretch queries) const;
  // The keys k .. k + 63 that query p sees. Keeps what queries of one block share from call to
  // call.
  std::uint64_t word(std::int64_t p, std::int64_t k);

 private:
  struct Pixel {
    std::int64_t row;
    std::int64_t column;
  };
  // How positions number the pixels.
  Pixel pixel_of(std::int64_t position) const;
  std::int64_t position_of(Pixel pixel) const;
  std::int64_t pixels() const { return image_.height * image_.width; }
  // The first pixel of the block of a pixel, and how much of the block is in the image.
  Pixel corner_of(Pixel pixel) const;
  Pixel extent_of(Pixel corner) const;

  // Calls f with the stretches of pixels [left, right) of an image row, cut at the image's sides.
  template <typename F>
  void for_row(std::int64_t row, std::int64_t left, std::int64_t right, const F& f) const;
  // The same for what all queries of the block at `corner` see outside of it, and for the block.
  template <typename F>
  void for_flange(Pixel corner, const F& f) const;
  template <typename F>
  void for_block(Pixel corner, const F& f) const;

  masks::Image image_;
  masks::ImageOrder order_;
  std::int64_t known_corner_ = -1;  // position of the corner that `known_` is of
  std::int64_t known_key_ = -1;
  std::uint64_t known_ = 0;
};

}  // namespace longspan
