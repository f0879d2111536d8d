// Serialization of an image: the order in which values are predicted, and the input of each
// position.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/data/examples/images.h"

namespace longspan {

inline constexpr std::int64_t pixel_levels = 256;  // values of a channel

struct PixelOrder {
  // One position per pixel, whose channels are predicted together; otherwise one per channel value.
  bool whole_pixels = false;
  // Size in positions of blocks that are generated in sequence, in raster order inside. 0: raster
  // order over the whole image.
  std::int64_t block_height = 0;
  std::int64_t block_width = 0;
  // The first value of a block has no input. Otherwise it reads the last value of the previous
  // block. With the shift, no other block reads a block's last value (tensor2tensor).
  bool shift_each_block = false;

  bool in_blocks() const { return block_height > 0; }
};

// Value type. Orders the values of an image shape for generation (Parmar et al. 2018, sections 3
// and 4). Each position reads the previous one: a channel value as the id value + 256 * channel, or
// all values of a pixel. The first position reads the id `start`, or nothing.
class PixelSequence {
 public:
  // Throws ConfigurationError for an empty image.
  PixelSequence(const ImageShape& shape, const PixelOrder& order);

  const ImageShape& shape() const { return shape_; }
  // Later positions are padding.
  std::int64_t positions() const { return rows() * columns(); }
  // Values predicted together at a position.
  std::int64_t channels_per_position() const { return together_; }
  // Rows and columns of positions in the image.
  std::int64_t rows() const { return shape_.height; }
  std::int64_t columns() const { return shape_.width * shape_.channels / together_; }
  // Number of input ids: 256 per channel, and `start`.
  std::int64_t ids() const { return start() + 1; }
  std::int64_t start() const { return pixel_levels * shape_.channels; }
  // Raster index of the value or pixel at a position, and of the one that the position reads; -1:
  // none.
  std::int64_t position_of(std::int64_t position) const {
    return (*places_)[static_cast<std::size_t>(position)];
  }
  std::int64_t place_before(std::int64_t position) const {
    return (*previous_)[static_cast<std::size_t>(position)];
  }
  // Writes the input of a position: an id, or the values of a pixel, -1 where there is none.
  // values: the image in raster order.
  void read_at(std::int64_t position, const std::int64_t* values, std::int64_t* to) const;

  // Returns the inputs and the targets of `pixels` [rows, columns], raster-order values with
  // padding. Result: [rows, time * channels_per_position()], in generation order. Targets of
  // padding, and of rows with `length` [rows] 0, are ignored_target. On a dry device the contents
  // are undefined.
  Tensor read_of(const Tensor& pixels) const;
  Tensor targets_of(const Tensor& pixels, const Tensor& length) const;

 private:
  using MakeRow = std::function<void(
      std::int64_t row, const std::int64_t* values, std::int64_t* to, std::int64_t time)>;
  Tensor for_rows(const Tensor& pixels, const MakeRow& make) const;

  ImageShape shape_;
  bool whole_pixels_;
  std::int64_t together_;
  std::shared_ptr<const std::vector<std::int64_t>> places_;  // by position
  // index that a position reads; -1: the start
  std::shared_ptr<const std::vector<std::int64_t>> previous_;
};

}  // namespace longspan
