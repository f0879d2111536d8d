#include "models/pixel_positions.h"

#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/modeling/sequence_parallel.h"

namespace longspan {
namespace {

// Sinusoids of `count` rows or columns of an image in one half of the features, zeros in the other.
// Sines and cosines are interleaved as in Vaswani et al. 2017.
Variable sinusoids_in_half(std::int64_t count,
                           std::int64_t width,
                           bool second,
                           const ModelBuildOptions& setting) {
  const std::int64_t half = width / 2;
  const std::int64_t begin = second ? half : 0;
  const std::int64_t features = second ? width - half : half;
  std::vector<double> table(static_cast<std::size_t>(count * width), 0);
  for (std::int64_t place = 0; place < count; ++place)
    for (std::int64_t i = 0; i < features; ++i) {
      const double exponent = static_cast<double>(i / 2 * 2) / static_cast<double>(features);
      const double angle = static_cast<double>(place) * std::pow(10000.0, -exponent);
      table[static_cast<std::size_t>(place * width + begin + i)] =
          i % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  const Tensor made =
      Tensor::from<double>(table, {count, width}, setting.device.host(), MemoryTag::workspace);
  return cast(Variable(made.to(setting.device)), setting.compute);
}

}  // namespace

PixelPlaces::PixelPlaces(const Scope& scope,
                         const PixelSequence& sequence,
                         PixelPositions kind,
                         const ModelOptions& common,
                         const ModelBuildOptions& setting)
    : sequence_(sequence), device_(setting.device) {
  const auto learned = [&](const char* name, std::int64_t count) {
    return scope.weight(name, {count, common.width}, common.table_initial());
  };
  if (kind == PixelPositions::learned) {
    row_weights_ = learned("rows/weight", sequence.rows());
    column_weights_ = learned("columns/weight", sequence.columns());
  } else {
    rows_ = sinusoids_in_half(sequence.rows(), common.width, false, setting);
    columns_ = sinusoids_in_half(sequence.columns(), common.width, true, setting);
  }
}

Variable PixelPlaces::of(const Ranges& positions) const {
  std::vector<std::int64_t> rows, columns;
  for (const Range& range : positions)
    for (std::int64_t position = range.begin; position < range.end; ++position) {
      const std::int64_t place =
          position < sequence_.positions() ? sequence_.position_of(position) : 0;
      rows.push_back(place / sequence_.columns());
      columns.push_back(place % sequence_.columns());
    }
  return add(looked_up(row_weights_ ? row_weights_->variable : rows_, rows),
             looked_up(column_weights_ ? column_weights_->variable : columns_, columns));
}

Variable PixelPlaces::looked_up(const Variable& table, const std::vector<std::int64_t>& ids) const {
  const std::int64_t count = std::ssize(ids);
  const Variable found = embedding(table, host_field(ids, {1, count}, device_), 0, 1);
  return reshape(found, {count, found.shape()[2]});
}

}  // namespace longspan
