// Position encoding of the values of an image.
#pragma once

#include "framework/modeling/backbone.h"
#include "framework/modeling/pixel_sequence.h"
#include "models/model_options.h"

namespace longspan {

// Encoding of a value's row and column.
enum class PixelPositions : std::uint8_t { sinusoidal, learned };

// Position encoding of values in their image: the sum of a row vector and a column vector. Value
// type.
class PixelPlaces {
 public:
  // Creates "rows/weight" and "columns/weight" [count, width] for learned positions.
  PixelPlaces(const Scope& scope,
              const PixelSequence& sequence,
              PixelPositions kind,
              const ModelOptions& common,
              const ModelBuildOptions& setting);

  // [total_count(positions), width].
  Variable of(const Ranges& positions) const;

 private:
  Variable looked_up(const Variable& table, const std::vector<std::int64_t>& ids) const;

  PixelSequence sequence_;
  Device device_;
  Weight row_weights_;
  Weight column_weights_;
  Variable rows_;
  Variable columns_;
};

}  // namespace longspan
