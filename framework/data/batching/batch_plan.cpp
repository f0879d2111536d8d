#include "framework/data/batching/batch_plan.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "framework/core/error.h"
#include "framework/data/corpus/mixture_source.h"

namespace longspan {

namespace {

// A bucket with this many batches is sorted by the other side's length. Fewer would increase
// padding; more would delay the emission of batches.
constexpr std::int64_t batches_of_bucket = 8;
constexpr std::int64_t any_rows = std::numeric_limits<std::int64_t>::max();

// Draws a number in 0 .. bound - 1 for each position of a shuffle.
class Draws {
 public:
  explicit Draws(const Random& place) : place_(place) {}
  std::uint32_t below(std::uint64_t bound, std::uint64_t element) {
    if (element / 4 != block_) words_ = place_.block(block_ = element / 4);
    return static_cast<std::uint32_t>((words_[element % 4] * bound) >> 32);
  }

 private:
  Random place_;
  std::uint64_t block_ = std::numeric_limits<std::uint64_t>::max();
  std::array<std::uint32_t, 4> words_ = {};
};

template <typename T>
void shuffle(std::vector<T>& values, const Random& place) {
  Draws draws(place);
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[draws.below(i, i)]);
}

// Appends batches of examples to the plan in order. Without `keep_last`, the last batch, which may
// be incomplete, is omitted. Returns the number of examples used.
std::size_t cut(std::span<const std::uint32_t> examples,
                const ColumnsOf& columns_of,
                std::int64_t budget,
                std::int64_t max_rows,
                bool keep_last,
                BatchPlan& plan) {
  std::size_t begin = 0;
  const auto emit = [&](std::size_t end) {
    const std::int64_t first = std::ssize(plan.order);
    plan.order.insert(plan.order.end(),
                      examples.begin() + static_cast<std::ptrdiff_t>(begin),
                      examples.begin() + static_cast<std::ptrdiff_t>(end));
    plan.batches.push_back({first, std::ssize(plan.order)});
    begin = end;
  };
  Lengths widest;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Lengths columns = columns_of(examples[i]);
    const Lengths with = {std::max(widest.source, columns.source),
                          std::max(widest.target, columns.target)};
    const auto rows = static_cast<std::int64_t>(i - begin) + 1;
    if (rows > 1 && (rows > max_rows || rows * with.total() > budget)) {
      emit(i);
      widest = columns;
    } else {
      widest = with;
    }
  }
  if (!keep_last && begin < examples.size()) emit(examples.size());
  return begin;
}

// Longest examples first, and those of equal columns in their original order.
BatchPlan longest_first(std::vector<std::uint32_t> examples,
                        const ColumnsOf& columns_of,
                        std::int64_t budget,
                        std::int64_t max_rows) {
  std::erase_if(examples, [&](std::uint32_t i) { return columns_of(i).target == 0; });
  std::ranges::sort(examples, [&](std::uint32_t a, std::uint32_t b) {
    const Lengths x = columns_of(a);
    const Lengths y = columns_of(b);
    return std::tuple(y.target, y.source, a) < std::tuple(x.target, x.source, b);
  });
  BatchPlan plan;
  cut(examples, columns_of, budget, max_rows, false, plan);
  return plan;
}

void require_countable(std::int64_t count) {
  if (count > std::numeric_limits<std::uint32_t>::max())
    throw DataError(
        "expected at most {} examples, found {}", std::numeric_limits<std::uint32_t>::max(), count);
}

}  // namespace

BatchPlan shuffled_batches(std::int64_t count,
                           const ColumnsOf& columns_of,
                           std::int64_t budget,
                           const Random& place) {
  require_countable(count);
  struct Bucket {
    std::vector<std::uint32_t> examples;
    std::int64_t elements = 0;
  };
  std::vector<std::uint32_t> examples(static_cast<std::size_t>(count));
  std::iota(examples.begin(), examples.end(), 0);
  shuffle(examples, place.child("examples"));
  const auto by_source = [&](std::uint32_t a, std::uint32_t b) {
    return columns_of(a).source < columns_of(b).source;
  };
  BatchPlan plan;
  plan.order.reserve(examples.size());
  std::map<std::int64_t, Bucket> buckets;  // by columns of the target
  for (const std::uint32_t example : examples) {
    const Lengths columns = columns_of(example);
    if (columns.target == 0) continue;
    Bucket& bucket = buckets[columns.target];
    bucket.examples.push_back(example);
    bucket.elements += columns.total();
    if (bucket.elements < batches_of_bucket * budget) continue;
    std::ranges::stable_sort(bucket.examples, by_source);
    const auto taken = cut(bucket.examples, columns_of, budget, any_rows, true, plan);
    bucket.examples.erase(bucket.examples.begin(),
                          bucket.examples.begin() + static_cast<std::ptrdiff_t>(taken));
    bucket.elements = 0;
    for (const std::uint32_t left : bucket.examples) bucket.elements += columns_of(left).total();
  }
  std::vector<std::uint32_t> left;
  for (auto& [target, bucket] : buckets) {
    std::ranges::stable_sort(bucket.examples, by_source);
    left.insert(left.end(), bucket.examples.begin(), bucket.examples.end());
  }
  cut(left, columns_of, budget, any_rows, false, plan);
  shuffle(plan.batches, place.child("batches"));
  return plan;
}

BatchPlan sorted_batches(std::int64_t count,
                         const ColumnsOf& columns_of,
                         std::int64_t budget,
                         std::int64_t max_rows) {
  require_countable(count);
  std::vector<std::uint32_t> examples(static_cast<std::size_t>(count));
  std::iota(examples.begin(), examples.end(), 0);
  return longest_first(std::move(examples), columns_of, budget, max_rows);
}

BatchPlan sampled_batches(std::int64_t count,
                          const ColumnsOf& columns_of,
                          std::int64_t budget,
                          std::int64_t batches,
                          const Random& place) {
  require_countable(count);
  require(batches >= 1, "expected a sample of at least 1 batch, found {}", batches);
  const auto plan_of = [&](std::int64_t first) {
    std::vector<std::uint32_t> examples;
    for (std::int64_t i = 0; i < first; ++i)
      examples.push_back(static_cast<std::uint32_t>(shuffled_index(place, count, i)));
    return longest_first(std::move(examples), columns_of, budget, any_rows);
  };
  BatchPlan plan;
  const auto fits = [&](std::int64_t first) {
    BatchPlan found = plan_of(first);
    if (std::ssize(found.batches) > batches) return false;
    plan = std::move(found);
    return true;
  };
  // Binary search for the largest number that fits: `least` fits, `most` does not.
  std::int64_t least = 0, most = std::min<std::int64_t>(batches, count);
  while (fits(most)) {
    least = most;
    if (most == count) return plan;
    most = std::min(2 * most, count);
  }
  while (most - least > 1) {
    const std::int64_t middle = least + (most - least) / 2;
    (fits(middle) ? least : most) = middle;
  }
  return plan;
}

std::uint64_t fingerprint(const BatchPlan& plan) {
  const std::array<std::uint64_t, 2> hashes = {
      XXH3_64bits(plan.order.data(), plan.order.size() * sizeof plan.order.front()),
      XXH3_64bits(plan.batches.data(), plan.batches.size() * sizeof plan.batches.front())};
  return XXH3_64bits(hashes.data(), sizeof hashes);
}

std::vector<std::vector<std::size_t>> examples_of(const BatchPlan& plan) {
  std::vector<std::vector<std::size_t>> batches;
  for (const Range& range : plan.batches)
    batches.emplace_back(plan.order.begin() + range.begin, plan.order.begin() + range.end);
  return batches;
}

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
