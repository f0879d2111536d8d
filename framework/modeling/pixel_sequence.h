// The values of an image one after another: in which order they are predicted, and what is read
// before each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/data/examples/image_shape.h"

namespace longspan {

inline constexpr std::int64_t pixel_levels = 256;  // of a value of a channel

struct PixelOrder {
  // A position for each pixel, whose channels are predicted together; otherwise one for each value
  // of a channel.
  bool whole_pixels = false;
  // Of blocks that are predicted one after another, row by row inside, in columns of positions. 0:
  // all rows of the image one after another.
  std::int64_t block_height = 0;
  std::int64_t block_width = 0;
  // The first value of a block is predicted from nothing instead of from the last one of the block
  // before it: the last value of a block is then read by no other block (tensor2tensor).
  bool shift_each_block = false;

  bool in_blocks() const { return block_height > 0; }
};

// A value. Parmar et al. 2018, sections 3 and 4: the values of an image shape in the order of
// generation. At each position what is before it is read: a value as the id value + 256 * channel,
// or all values of a pixel; at the first one the id `start`, or nothing.
class PixelSequence {
 public:
  // Throws ConfigurationError for an image without values.
  PixelSequence(const ImageShape& shape, const PixelOrder& order);

  const ImageShape& shape() const { return shape_; }
  // Those behind them are padding.
  std::int64_t positions() const { return rows() * columns(); }
  // Values that are predicted together at a position.
  std::int64_t channels_per_position() const { return together_; }
  // Of positions in the image.
  std::int64_t rows() const { return shape_.height; }
  std::int64_t columns() const { return shape_.width * shape_.channels / together_; }
  // Ids that are read: 256 for each channel, and the start.
  std::int64_t ids() const { return start() + 1; }
  std::int64_t start() const { return pixel_levels * shape_.channels; }
  // Which value or pixel of the image, counted row by row, stands at a position, and which one is
  // read there; -1: none.
  std::int64_t place_of(std::int64_t position) const {
    return (*places_)[static_cast<std::size_t>(position)];
  }
  std::int64_t place_before(std::int64_t position) const {
    return (*previous_)[static_cast<std::size_t>(position)];
  }
  // Writes what is read at a position of an image's values, counted row by row: an id, or the
  // values of a pixel, -1 where there is none.
  void read_at(std::int64_t position, const std::int64_t* values, std::int64_t* to) const;

  // What is read, and what is predicted, of `pixels` [rows, columns], values row by row and
  // padding: [rows, time * together()] in the order of positions. Targets of padding, and of
  // rows of `length` [rows] 0, are ignored_target. On a dry device of undefined contents.
  Tensor read_of(const Tensor& pixels) const;
  Tensor targets_of(const Tensor& pixels, const Tensor& length) const;

 private:
  using MakeRow = std::function<void(
      std::int64_t row, const std::int64_t* values, std::int64_t* to, std::int64_t time)>;
  Tensor for_rows(const Tensor& pixels, const MakeRow& make) const;

  ImageShape shape_;
  bool whole_pixels_;
  std::int64_t together_;
  std::shared_ptr<const std::vector<std::int64_t>> places_;    // by position
  std::shared_ptr<const std::vector<std::int64_t>> previous_;  // place that is read; -1: the start
};

}  // namespace longspan
