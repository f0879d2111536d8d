#include "framework/decoding/top_k.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "framework/core/error.h"

namespace longspan {
namespace {

// Returns how many values from `begin` on are at most `bound`, which cannot enter the best of a
// row.
template <typename T>
std::size_t nothing_above(std::span<const T> row, std::size_t begin, T bound) {
  constexpr std::size_t block = 64;
  std::size_t end = begin;
  for (; end + block <= row.size(); end += block) {
    const T* const x = row.data() + end;
    bool above = false;  // or NaN
#pragma omp simd reduction(| : above)
    for (std::size_t i = 0; i < block; ++i) above |= !(x[i] <= bound);
    if (above) break;
  }
  return end - begin;
}

template <typename T>
void check_row(std::span<const T> row) {
  check_logits(std::vector<double>(row.begin(), row.end()));
}

}  // namespace

StepLogits::StepLogits(const SearchStep& step,
                       std::span<const std::int64_t> tokens,
                       std::span<const std::int64_t> rows,
                       const SearchVocabulary& vocabulary)
    : logits_(step(tokens, rows)), vocabulary_(vocabulary), rows_(tokens.size()) {
  require(logits_.defined() && logits_.shape().dimensions() == 2 &&
              logits_.shape()[0] == static_cast<std::int64_t>(rows_) && logits_.shape()[1] > 0 &&
              (logits_.dtype() == DType::f32 || logits_.dtype() == DType::f64),
          "expected logits [{}, vocabulary] of f32 or f64 for {} hypotheses, found {} of {}",
          rows_,
          rows_,
          logits_.defined() ? logits_.shape() : Shape{},
          logits_.defined() ? name_of(logits_.dtype()) : "nothing");
  logits_ = logits_.to_host();
  width_ = static_cast<std::size_t>(logits_.shape()[1]);
  size_ = vocabulary.size > 0 ? static_cast<std::size_t>(vocabulary.size) : width_;
  require(size_ <= width_, "expected at most {} token ids, found {}", width_, size_);
  require(vocabulary.end < static_cast<std::int64_t>(size_),
          "the end token {} is out of range ({} tokens)",
          vocabulary.end,
          size_);
}

template <typename T>
std::span<const T> StepLogits::row(std::size_t index) const {
  return std::span<const T>(logits_.span<T>()).subspan(index * width_, size_);
}

template <typename T>
TopK StepLogits::choice(std::span<const T> row, std::size_t wanted) const {
  // Forbidden tokens may rank among the best, so as many more are selected.
  const std::size_t most = std::min(wanted + vocabulary_.forbidden.size(), row.size());
  std::vector<std::pair<T, std::int64_t>> best;
  best.reserve(most + 1);
  T least = std::numeric_limits<T>::lowest();
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i % 64 == 0 && best.size() == most) {
      i += nothing_above(row, i, least);
      if (i == row.size()) break;
    }
    const T x = row[i];
    if (best.size() == most ? x <= least : x < least) continue;
    if (!(x <= std::numeric_limits<T>::max())) check_row(row);
    auto place = best.end();
    while (place != best.begin() && std::prev(place)->first < x) --place;
    best.insert(place, {x, static_cast<std::int64_t>(i)});
    if (best.size() > most) best.pop_back();
    if (best.size() == most) least = best.back().first;
  }
  if (best.empty()) check_row(row);
  TopK result;
  const auto highest = static_cast<double>(best.front().first);
  result.log_sum = highest + std::log(sum_of_exponentials(row, highest));
  if (vocabulary_.end >= 0)
    result.end = static_cast<double>(row[static_cast<std::size_t>(vocabulary_.end)]);
  for (const auto& [logit, token] : best)
    if (result.best.size() < wanted && !std::ranges::count(vocabulary_.forbidden, token))
      result.best.push_back({token, static_cast<double>(logit)});
  return result;
}

std::vector<TopK> StepLogits::top_k(std::size_t wanted,
                                    const std::function<std::string(std::size_t)>& name) const {
  std::vector<TopK> result(rows_);
  for_each_row(rows_, [&](std::size_t i) {
    try {
      result[i] = logits_.dtype() == DType::f32 ? choice(row<float>(i), wanted)
                                                : choice(row<double>(i), wanted);
    } catch (const InvalidLogits& error) {
      throw InvalidLogits("{}: {}", name(i), error.what());
    }
  });
  return result;
}

std::vector<double> StepLogits::all(std::size_t index) const {
  const auto copy = [](const auto& values) {
    return std::vector<double>(values.begin(), values.end());
  };
  return logits_.dtype() == DType::f32 ? copy(row<float>(index)) : copy(row<double>(index));
}

std::vector<double> StepLogits::allowed(std::size_t index) const {
  std::vector<double> result = all(index);
  for (const std::int64_t token : vocabulary_.forbidden)
    if (token < std::ssize(result))
      result[static_cast<std::size_t>(token)] = -std::numeric_limits<double>::infinity();
  return result;
}

void for_each_row(std::size_t rows, const std::function<void(std::size_t)>& work) {
  std::vector<std::exception_ptr> problems(rows);
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(rows); ++i) {
    const auto row = static_cast<std::size_t>(i);
    try {
      work(row);
    } catch (...) {
      problems[row] = std::current_exception();
    }
  }
  for (const std::exception_ptr& problem : problems)
    if (problem) std::rethrow_exception(problem);
}

}  // namespace longspan
