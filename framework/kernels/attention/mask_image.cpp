#include "framework/kernels/attention/mask_image.h"

#include <algorithm>

namespace longspan {

std::int64_t ImageRule::position_of(Pixel pixel) const {
  if (order_ == masks::ImageOrder::raster) return pixel.row * image_.width + pixel.column;
  const Pixel corner = corner_of(pixel);
  const Pixel extent = extent_of(corner);
  return corner.row * image_.width + corner.column * extent.row +
         (pixel.row - corner.row) * extent.column + pixel.column - corner.column;
}

template <typename F>
void ImageRule::for_row(std::int64_t row, std::int64_t left, std::int64_t right, const F& f) const {
  if (row < 0 || row >= image_.height) return;
  right = std::min(right, image_.width);
  // In generation order a row is contiguous only inside a block.
  const std::int64_t step = order_ == masks::ImageOrder::raster ? image_.width : image_.query_width;
  for (std::int64_t c = std::max<std::int64_t>(left, 0); c < right;) {
    const std::int64_t end = std::min(right, (c / step + 1) * step);
    const std::int64_t begin = position_of({row, c});
    f(KeyRange{begin, begin + end - c});
    c = end;
  }
}

template <typename F>
void ImageRule::for_flange(Pixel corner, const F& f) const {
  const std::int64_t bottom = corner.row + image_.query_height;
  const std::int64_t right = corner.column + image_.query_width;
  const std::int64_t far_left = corner.column - image_.flange_width;
  const std::int64_t far_right = right + image_.flange_width;
  for (std::int64_t row = corner.row - image_.flange_height; row < corner.row; ++row)
    for_row(row, far_left, far_right, f);
  for (std::int64_t row = corner.row; row < bottom; ++row) {
    for_row(row, far_left, corner.column, f);
    if (!image_.causal) for_row(row, right, far_right, f);
  }
  if (!image_.causal)
    for (std::int64_t row = bottom; row < bottom + image_.flange_height; ++row)
      for_row(row, far_left, far_right, f);
}

template <typename F>
void ImageRule::for_block(Pixel corner, const F& f) const {
  for (std::int64_t row = corner.row; row < corner.row + image_.query_height; ++row)
    for_row(row, corner.column, corner.column + image_.query_width, f);
}

KeyRanges ImageRule::visible_to(KeyRange queries) const {
  KeyRanges found;
  const auto add = [&](KeyRange s) { found.push_back(s); };
  queries.begin = std::max<std::int64_t>(queries.begin, 0);
  queries.end = std::min(queries.end, pixels());
  std::int64_t before = -1;
  for (std::int64_t p = queries.begin; p < queries.end; ++p) {
    const Pixel corner = corner_of(pixel_of(p));
    if (position_of(corner) == before) continue;
    before = position_of(corner);
    for_flange(corner, add);
    for_block(corner, add);
  }
  std::sort(found.begin(), found.end(), [](KeyRange a, KeyRange b) { return a.begin < b.begin; });
  KeyRanges result;
  for (const KeyRange& s : found) {
    if (!result.empty() && s.begin <= result.back().end)
      result.back().end = std::max(result.back().end, s.end);
    else
      result.push_back(s);
  }
  return result;
}

std::uint64_t ImageRule::word(std::int64_t p, std::int64_t k) {
  if (p < 0 || p >= pixels()) return 0;
  std::uint64_t* to = &known_;
  const auto mark = [&](KeyRange s) {
    const std::int64_t begin = std::max(s.begin, k);
    const std::int64_t end = std::min(s.end, k + 64);
    if (begin < end) *to |= (~std::uint64_t{0} >> (64 - (end - begin))) << (begin - k);
  };
  const Pixel corner = corner_of(pixel_of(p));
  if (const std::int64_t place = position_of(corner); place != known_corner_ || k != known_key_) {
    known_corner_ = place;
    known_key_ = k;
    known_ = 0;
    for_flange(corner, mark);
    if (!image_.causal) for_block(corner, mark);
  }
  std::uint64_t result = known_;
  if (!image_.causal) return result;
  to = &result;
  const Pixel at = pixel_of(p);
  for (std::int64_t row = corner.row; row < at.row; ++row)
    for_row(row, corner.column, corner.column + image_.query_width, mark);
  for_row(at.row, corner.column, at.column + 1, mark);
  return result;
}

}  // namespace longspan
