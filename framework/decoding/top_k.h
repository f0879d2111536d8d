// Top-k reduction of step logits for the searches. Private to framework/decoding.
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

// The best tokens of a row, ties by lower id, without those of -infinity.
struct TopK {
  std::vector<TokenLogit> best;
  double log_sum = 0;  // ln of the sum of e^logit over all tokens, which normalizes the logits
  double end = 0;      // logit of the end token
};

// The logits of a step, on the host.
class StepLogits {
 public:
  // Runs the step. Throws Failure if its result has another shape.
  StepLogits(const SearchStep& step,
             std::span<const std::int64_t> tokens,
             std::span<const std::int64_t> rows,
             const SearchVocabulary& vocabulary);

  // Returns the best tokens of each row, multithreaded. Throws Failure for logits that check_logits
  // rejects; `name(row)` identifies the row.
  std::vector<TopK> top_k(std::size_t wanted,
                          const std::function<std::string(std::size_t)>& name) const;
  // Returns the logits of a row: of all tokens, and with -infinity for forbidden ones.
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
  std::size_t size_;   // vocabulary size
};

// Calls work(row) for each row, in parallel threads. Rethrows the exception of the first row that
// throws.
void for_each_row(std::size_t rows, const std::function<void(std::size_t)>& work);

}  // namespace longspan
