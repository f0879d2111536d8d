#include "framework/kernels/precondition.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

// The rows that a part overlaps, and the columns within one of them.
struct Lines {
  std::int64_t first;
  std::int64_t end;
  std::int64_t columns;

  explicit Lines(const MatrixPart& part)
      : first(part.first), end(part.first + part.elements.elements()), columns(part.columns) {}

  std::int64_t first_row() const { return first / columns; }
  std::int64_t end_row() const { return (end + columns - 1) / columns; }
  std::int64_t first_column(std::int64_t row) const {
    return std::max<std::int64_t>(first - row * columns, 0);
  }
  std::int64_t end_column(std::int64_t row) const { return std::min(end - row * columns, columns); }
};

}  // namespace

void add_squares(Cpu, double factor, double epsilon, const MatrixPart& part) {
  check("add_squares", part);
  if (part.elements.elements() == 0) return;
  const Lines lines(part);
  double* const by_row = part.by_row.data<double>();
  double* const by_column = part.by_column.data<double>();
  with_accumulator_type(part.elements.dtype(), [&]<typename W>(TypeTag<W>) {
    const W* const elements = part.elements.data<W>();
    const auto square = [=, begin = lines.first](std::int64_t i) {
      const double value = factor * static_cast<double>(elements[i - begin]);
      return value * value + epsilon;
    };
    const std::int64_t rows = lines.end_row() - lines.first_row();
    for_ranges(rows, lines.columns, 1, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = lines.first_row() + begin; r < lines.first_row() + end; ++r) {
        double sum = 0;
        for (std::int64_t c = lines.first_column(r); c < lines.end_column(r); ++c)
          sum += square(r * lines.columns + c);
        by_row[r] += sum;
      }
    });
    for_ranges(lines.columns, rows, 16, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = lines.first_row(); r < lines.end_row(); ++r) {
        double* const sums = by_column + r / part.rows * lines.columns;
        const std::int64_t last = std::min(end, lines.end_column(r));
        for (std::int64_t c = std::max(begin, lines.first_column(r)); c < last; ++c)
          sums[c] += square(r * lines.columns + c);
      }
    });
  });
}

}  // namespace longspan
