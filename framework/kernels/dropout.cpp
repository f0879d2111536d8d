#include "framework/kernels/dropout.h"

#include <cmath>

namespace longspan {

std::uint32_t dropout_threshold(double rate) {
  return static_cast<std::uint32_t>(std::ceil(rate * 0x1p24));
}

std::vector<RowPlacement> placed_rows(const ShardPlacement& placement, std::int64_t rows) {
  if (placement.middle_ranges.empty()) return {{0, rows, 0}};
  std::vector<RowPlacement> pieces;
  std::int64_t first = 0;
  for (const Range& range : placement.middle_ranges) {
    pieces.push_back({first, range.count(), range.begin});
    first += range.count();
  }
  return pieces;
}

void check(const Dropout& dropout) {
  const Shape& shape = dropout.x.shape();
  require(shape.dimensions() == 3 && dropout.y.elements() == dropout.x.elements() &&
              dropout.y.dtype() == dropout.x.dtype(),
          "dropout: expected x [outer, middle, inner] and an equal y, found {} {} and {} {}",
          name_of(dropout.x.dtype()),
          shape.to_string(),
          name_of(dropout.y.dtype()),
          dropout.y.shape().to_string());
  const Tensor& rows = dropout.rows;
  require(!rows.defined() || (rows.dtype() == DType::i64 && rows.elements() == shape.rows()),
          "dropout: expected {} row indices, found {}",
          shape.rows(),
          rows.defined() ? rows.elements() : 0);
  const Ranges& middle = dropout.placement.middle_ranges;
  require(middle.empty() || total_count(middle) == shape[1],
          "dropout: expected a placement of {} middle rows, found {}",
          shape[1],
          total_count(middle));
  require(dropout.rate >= 0 && dropout.rate < 1,
          "dropout: expected a rate of at least 0 and below 1, found {}",
          dropout.rate);
}

}  // namespace longspan
