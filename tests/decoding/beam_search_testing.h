// Search steps whose logits are a function of the input and of all tokens read.
#pragma once

#include <cmath>
#include <limits>
#include <utility>

#include "framework/decoding/beam_search.h"

namespace longspan::testing {

using Tokens = std::vector<std::int64_t>;

inline constexpr double never = -std::numeric_limits<double>::infinity();

// A step that stores the tokens read by each hypothesis, as a model would.
class HistoryStep {
 public:
  // Returns the logits after `read`, which starts with the input's first token.
  using Logits = std::function<std::vector<double>(std::int64_t input, const Tokens& read)>;

  // `input_of`: the number of each input in the list.
  HistoryStep(Logits logits, Tokens input_of, DType dtype = DType::f64)
      : logits_(std::move(logits)), dtype_(dtype) {
    for (const std::int64_t input : input_of) histories_.push_back({input, {}});
  }

  Tensor operator()(std::span<const std::int64_t> tokens, std::span<const std::int64_t> rows) {
    std::vector<History> next;
    std::vector<double> values;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      next.push_back(histories_.at(static_cast<std::size_t>(rows[i])));
      next.back().read.push_back(tokens[i]);
      const std::vector<double> row = logits_(next.back().input, next.back().read);
      values.insert(values.end(), row.begin(), row.end());
    }
    histories_ = std::move(next);
    batches.push_back(tokens.size());
    const auto count = static_cast<std::int64_t>(tokens.size());
    const Shape shape = {count, static_cast<std::int64_t>(values.size()) / count};
    if (dtype_ == DType::f64) return Tensor::from<double>(values, shape, Device::cpu());
    const std::vector<float> narrow(values.begin(), values.end());
    return Tensor::from<float>(narrow, shape, Device::cpu());
  }

  std::vector<std::size_t> batches;  // number of hypotheses of each call

 private:
  struct History {
    std::int64_t input;
    Tokens read;
  };
  Logits logits_;
  DType dtype_;
  std::vector<History> histories_;
};

inline SearchStep by(HistoryStep& step) {
  return [&step](auto tokens, auto rows) { return step(tokens, rows); };
}

// Returns random logits for each history.
inline HistoryStep::Logits varied_logits(std::int64_t vocabulary, double deviation = 1) {
  return [=](std::int64_t input, const Tokens& read) {
    Random random = Random(11).child(static_cast<std::uint64_t>(input));
    for (const std::int64_t token : read) random = random.child(static_cast<std::uint64_t>(token));
    std::vector<double> result;
    for (std::int64_t i = 0; i < vocabulary; ++i)
      result.push_back(deviation * random.normal_at(static_cast<std::uint64_t>(i)));
    return result;
  };
}

inline std::vector<double> logs(std::vector<double> probabilities) {
  for (double& value : probabilities) value = std::log(value);
  return probabilities;
}

inline std::vector<double> log_softmax(std::vector<double> logits) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  for (double& logit : logits) logit -= std::log(sum);
  return logits;
}

}  // namespace longspan::testing
