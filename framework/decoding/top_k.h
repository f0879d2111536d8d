// What the searches read of the logits that a step gives. Private to framework/decoding.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/decoding/beam_search.h"

namespace longspan {

struct TokenLogit {
  std::int64_t token = 0;
  double logit = 0;
};

// The best tokens of a row, the lower one first where logits are equal, none of -infinity.
struct TopK {
  std::vector<TokenLogit> best;
  double log_sum = 0;  // ln of the sum of e^logit over all tokens: what log-probabilities lack
  double end = 0;      // the logit of the token that ends
};

// The logits of a step, on the host.
class StepLogits {
 public:
  // Runs the step. Throws Failure when its result has another shape.
  StepLogits(const SearchStep& step,
             std::span<const std::int64_t> tokens,
             std::span<const std::int64_t> rows,
             const SearchVocabulary& vocabulary);

  // The `wanted` best of each row, looked at by all threads. Throws Failure for logits that
  // check_logits refuses; `name(row)` says whose they are.
  std::vector<TopK> top_k(std::size_t wanted,
                          const std::function<std::string(std::size_t)>& name) const;
  // One row, of all tokens, and with -infinity where one is forbidden.
  std::vector<double> all(std::size_t row) const;
  std::vector<double> allowed(std::size_t row) const;

 private:
  template <typename T>
  TopK choice(std::span<const T> row, std::size_t wanted) const;
  template <typename T>
  std::span<const T> row(std::size_t index) const;

  Tensor logits_;
  const SearchVocabulary& vocabulary_;
  std::size_t rows_;
  std::size_t width_;  // of a row
  std::size_t size_;   // tokens there are
};

// Calls work(row) for each, shared among threads; the exception of the first row that throws goes
// on.
void for_each_row(std::size_t rows, const std::function<void(std::size_t)>& work);

}  // namespace longspan
