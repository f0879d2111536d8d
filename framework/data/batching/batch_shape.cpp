#include "framework/data/batching/batch_shape.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace longspan {

std::vector<BatchShape> shapes_of(const BatchPlan& plan, const ColumnsOf& columns_of) {
  std::vector<BatchShape> shapes;
  for (const Range& range : plan.batches) {
    BatchShape& shape = shapes.emplace_back();
    shape.rows = range.count();
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const Lengths columns = columns_of(plan.order[static_cast<std::size_t>(i)]);
      shape.columns = {std::max(shape.columns.source, columns.source),
                       std::max(shape.columns.target, columns.target)};
    }
  }
  const auto key = [](const BatchShape& shape) {
    return std::tuple(shape.rows, shape.columns.source, shape.columns.target);
  };
  std::ranges::sort(shapes, std::less<>(), key);
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  return shapes;
}

std::vector<BatchShape> shapes_of_budget(const BucketOptions& options,
                                         bool pairs,
                                         std::int64_t each) {
  const std::int64_t budget = options.batch_tokens;
  const std::int64_t multiple = options.length_multiple;
  const std::int64_t any = std::max(budget / multiple, std::int64_t{1}) * multiple;
  const auto most = [&](std::int64_t more) {
    const std::int64_t longest = options.max_columns_length(more);
    return longest == 0 ? any : std::min(longest, any);
  };
  const std::int64_t target = most(pairs ? 1 : 0);
  const std::int64_t source = pairs ? most(0) : 0;
  // Smallest sides: one token, plus the end token of a target.
  const std::int64_t min_source = pairs ? multiple : 0;
  const std::int64_t min_target = pairs ? (multiple + 1) / multiple * multiple : multiple;
  std::vector<BatchShape> shapes;
  const auto add = [&](std::int64_t rows, Lengths columns) {
    if (rows < 1) return;
    // Truncates the longer side, or both sides of equal length.
    const auto cut = [&](std::int64_t here, std::int64_t other) {
      const std::int64_t room = here == other ? budget / rows / 2 : budget / rows - other;
      return std::max(multiple, std::min(here, room / multiple * multiple));
    };
    const Lengths whole = columns;
    if (whole.source >= whole.target) columns.source = cut(whole.source, whole.target);
    if (whole.target >= whole.source) columns.target = cut(whole.target, whole.source);
    if (rows == 1 || rows * columns.total() <= budget) shapes.push_back({rows, columns});
  };
  for (const Lengths& columns : {Lengths{std::min(source, target), std::min(source, target)},
                                 Lengths{min_source, target},
                                 Lengths{source, min_target}}) {
    if (columns.target == 0 || (!pairs && columns.source > 0)) continue;
    // Maximum number of rows, and the fewest that give a rank one row more or less.
    const std::int64_t rows = std::max<std::int64_t>(budget / columns.total(), 1);
    for (const std::int64_t of_rank : {rows / each - 1, rows / each, rows / each + 1})
      add(of_rank * each + 1, columns);
    add(rows, columns);
  }
  return shapes;
}

std::vector<BatchShape> largest_of(std::span<const BatchShape> shapes, std::int64_t each) {
  std::vector<BatchShape> result;
  if (shapes.empty()) return result;
  constexpr std::array<Lengths, 5> weights = {{{1, 1}, {0, 1}, {1, 2}, {2, 1}, {1, 0}}};
  for (const Lengths& weight : weights) {
    const auto size = [&](const BatchShape& shape) {
      const std::int64_t rows = (shape.rows + each - 1) / each;
      return rows * (weight.source * shape.columns.source + weight.target * shape.columns.target);
    };
    const BatchShape& found = *std::ranges::max_element(shapes, std::less<>(), size);
    if (size(found) > 0 && std::ranges::find(result, found) == result.end())
      result.push_back(found);
  }
  return result;
}

}  // namespace longspan
