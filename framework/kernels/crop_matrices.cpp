#include "framework/kernels/crop_matrices.h"

#include "framework/kernels/element.h"

namespace longspan {

void check(const MatrixCrop& crop) {
  const Shape& whole = crop.whole.shape();
  const Shape& part = crop.part.shape();
  require(whole.dimensions() == 3 && part.dimensions() == 3 && whole[0] == part[0] &&
              crop.begin >= 0 && crop.begin + part[1] <= whole[1] && part[2] <= whole[2] &&
              is_floating(crop.whole.dtype()) && is_floating(crop.part.dtype()),
          "crop_matrices: {} does not contain {} from row {} on",
          whole,
          part,
          crop.begin);
}

}  // namespace longspan
