#include "framework/modeling/pixel_sequence.h"

#include <algorithm>

#include "framework/core/device.h"
#include "framework/core/error.h"
#include "framework/data/batch.h"

namespace longspan {
namespace {

// Raster index by position, and the first position of each block.
struct Order {
  std::vector<std::int64_t> places;
  std::vector<std::int64_t> begins;
};

Order order_of(std::int64_t rows, std::int64_t columns, const PixelOrder& order) {
  const std::int64_t height = order.in_blocks() ? order.block_height : rows;
  const std::int64_t width = order.in_blocks() ? order.block_width : columns;
  Order result;
  result.places.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t top = 0; top < rows; top += height)
    for (std::int64_t left = 0; left < columns; left += width) {
      result.begins.push_back(std::ssize(result.places));
      for (std::int64_t row = top; row < std::min(top + height, rows); ++row)
        for (std::int64_t column = left; column < std::min(left + width, columns); ++column)
          result.places.push_back(row * columns + column);
    }
  return result;
}

}  // namespace

PixelSequence::PixelSequence(const ImageShape& shape, const PixelOrder& order)
    : shape_(shape),
      whole_pixels_(order.whole_pixels),
      together_(order.whole_pixels ? shape.channels : 1) {
  if (shape.values() <= 0)
    throw ConfigurationError("an image of {} has no pixels", to_string(shape));
  require(!order.in_blocks() || order.block_width > 0, "pixel blocks require at least 1 column");
  Order found = order_of(rows(), columns(), order);
  std::vector<std::int64_t> previous = {-1};
  previous.insert(previous.end(), found.places.begin(), found.places.end() - 1);
  if (order.shift_each_block)
    for (const std::int64_t begin : found.begins) previous[static_cast<std::size_t>(begin)] = -1;
  places_ = std::make_shared<const std::vector<std::int64_t>>(std::move(found.places));
  previous_ = std::make_shared<const std::vector<std::int64_t>>(std::move(previous));
}

void PixelSequence::read_at(std::int64_t position,
                            const std::int64_t* values,
                            std::int64_t* to) const {
  const std::int64_t place = place_before(position);
  if (!whole_pixels_)
    *to = place < 0 ? start() : values[place] + pixel_levels * (place % shape_.channels);
  else if (place < 0)
    std::fill_n(to, together_, -1);
  else
    std::copy_n(values + place * together_, together_, to);
}

Tensor PixelSequence::for_rows(const Tensor& pixels, const MakeRow& make) const {
  const std::int64_t input_columns = pixels.shape()[1];
  const std::int64_t time = (input_columns + together_ - 1) / together_;
  const Tensor result = Tensor::empty(
      {pixels.shape()[0], time * together_}, DType::i64, pixels.device(), MemoryTag::workspace);
  dispatch_on_host(pixels.device(), [&] {
    for (std::int64_t row = 0; row < pixels.shape()[0]; ++row)
      make(row,
           pixels.data<std::int64_t>() + row * input_columns,
           result.data<std::int64_t>() + row * time * together_,
           time);
  });
  return result;
}

Tensor PixelSequence::read_of(const Tensor& pixels) const {
  const auto read =
      [this](std::int64_t, const std::int64_t* values, std::int64_t* to, std::int64_t time) {
        for (std::int64_t i = 0; i < time; ++i)
          read_at(i < positions() ? i : 0, values, to + i * together_);
      };
  return for_rows(pixels, read);
}

Tensor PixelSequence::targets_of(const Tensor& pixels, const Tensor& length) const {
  const auto want =
      [&](std::int64_t row, const std::int64_t* values, std::int64_t* to, std::int64_t time) {
        const bool is_empty = length.data<std::int64_t>()[row] == 0;
        for (std::int64_t i = 0; i < time; ++i)
          if (is_empty || i >= positions())
            std::fill_n(to + i * together_, together_, ignored_target);
          else
            std::copy_n(values + position_of(i) * together_, together_, to + i * together_);
      };
  return for_rows(pixels, want);
}

}  // namespace longspan
