#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/precondition.h"

namespace longspan {
namespace {

// Term of both sums: element `at` of all matrices if the part contains it, else 0.
template <typename W>
struct Squares {
  double factor, epsilon;
  std::int64_t first, end;
  const W* elements;

  LONGSPAN_HOST_DEVICE double operator()(std::int64_t at) const {
    if (at < first || at >= end) return 0;
    const double value = factor * static_cast<double>(elements[at - first]);
    return value * value + epsilon;
  }
};

template <typename W>
struct AddRow {
  Squares<W> square;
  std::int64_t columns;
  double* by_row;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += square(row * columns + c);
    by_row[row] += sum;
  }
};

template <typename W>
struct AddColumn {
  Squares<W> square;
  std::int64_t rows, columns;
  double* by_column;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t column) const {
    const std::int64_t begin = column / columns * rows * columns + column % columns;
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) sum += square(begin + r * columns);
    by_column[column] += sum;
  }
};

}  // namespace

// One thread for each line: simple, and cheap relative to a step's products.
void add_squares(Cuda cuda, double factor, double epsilon, const MatrixPart& part) {
  check("add_squares", part);
  with_accumulator_type(part.elements.dtype(), [&]<typename W>(TypeTag<W>) {
    const Squares<W> square{factor,
                            epsilon,
                            part.first,
                            part.first + part.elements.elements(),
                            part.elements.data<W>()};
    for_each_element(
        cuda, part.by_row.elements(), AddRow<W>{square, part.columns, part.by_row.data<double>()});
    for_each_element(cuda,
                     part.by_column.elements(),
                     AddColumn<W>{square, part.rows, part.columns, part.by_column.data<double>()});
  });
}

}  // namespace longspan
