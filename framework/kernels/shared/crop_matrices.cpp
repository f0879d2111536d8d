// Leading parts of matrices over positions.
#include "framework/kernels/crop_matrices.h"

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

struct CropShape {
  std::int64_t positions, columns, rows, begin;
  bool causal;

  explicit CropShape(const MatrixCrop& crop)
      : positions(crop.whole.shape()[1]),
        columns(crop.whole.shape()[2]),
        rows(crop.part.shape()[1]),
        begin(crop.begin),
        causal(crop.causal) {}
  // Row of the part, of all matrices, as a row of the whole.
  LONGSPAN_HOST_DEVICE std::int64_t source(std::int64_t row) const {
    return row / rows * positions + begin + row % rows;
  }
  LONGSPAN_HOST_DEVICE bool masks(std::int64_t row, std::int64_t column) const {
    return causal && column > begin + row % rows;
  }
};

template <typename T>
struct CropAt {
  CropShape shape;
  std::int64_t width;
  const T* whole;
  T* part;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t c) const {
    const std::int64_t row = i / width;
    put(part[i],
        shape.masks(row, c) ? Accumulator<T>{0}
                            : wide(whole[shape.source(row) * shape.columns + c]));
  }
};

template <typename To, typename From>
struct AddCroppedAt {
  CropShape shape;
  std::int64_t width;
  To* whole;
  const From* part;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t c) const {
    using A = Wider<To, From>;
    const std::int64_t row = i / width, at = shape.source(row) * shape.columns + c;
    const A more = shape.masks(row, c) ? A{0} : static_cast<A>(wide(part[i]));
    put(whole[at], static_cast<A>(wide(whole[at])) + more);
  }
};

}  // namespace

void crop_matrices(Backend backend, const MatrixCrop& crop) {
  check(crop);
  require(crop.whole.dtype() == crop.part.dtype(), "crop_matrices: expected tensors of one dtype");
  with_floating_type(crop.whole.dtype(), [&]<typename T>(TypeTag<T>) {
    parallel_elements(
        backend,
        crop.part.shape(),
        CropAt<T>{
            CropShape(crop), crop.part.shape().width(), crop.whole.data<T>(), crop.part.data<T>()});
  });
}

void add_cropped(Backend backend, const MatrixCrop& crop) {
  check(crop);
  with_both_types(
      crop.whole, crop.part, [&]<typename To, typename From>(TypeTag<To>, TypeTag<From>) {
        parallel_elements(backend,
                          crop.part.shape(),
                          AddCroppedAt<To, From>{CropShape(crop),
                                                 crop.part.shape().width(),
                                                 crop.whole.data<To>(),
                                                 crop.part.data<From>()});
      });
}

}  // namespace longspan
