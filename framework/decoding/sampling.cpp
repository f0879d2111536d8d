#include "framework/decoding/sampling.h"

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/core/error.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// `probability` is a logit here.
bool better(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
}

std::vector<Candidate> with_logits(std::span<const double> logits) {
  std::vector<Candidate> result(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    result[i] = {static_cast<std::int64_t>(i), logits[i]};
  return result;
}

// Candidates that are sorted lazily.
class SortedAsAsked {
 public:
  explicit SortedAsAsked(std::vector<Candidate> all) : all_(std::move(all)) {}

  std::size_t size() const { return all_.size(); }
  const Candidate& operator[](std::size_t i) {
    while (i >= sorted_) sort_more();
    return all_[i];
  }

 private:
  void sort_more() {
    const std::size_t end = std::min(all_.size(), std::max<std::size_t>(64, 4 * sorted_));
    const auto at = [this](std::size_t i) { return all_.begin() + static_cast<std::ptrdiff_t>(i); };
    if (end < all_.size()) std::nth_element(at(sorted_), at(end), all_.end(), better);
    std::sort(at(sorted_), at(end), better);
    sorted_ = end;
  }

  std::vector<Candidate> all_;
  std::size_t sorted_ = 0;
};

}  // namespace

void check_sampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    throw ConfigurationError("temperature: expected at least 0, found {}", options.temperature);
  if (options.top_k < 0)
    throw ConfigurationError("top-k: expected at least 1, or 0 for no limit, found {}",
                             options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw ConfigurationError("top-p: expected more than 0 and at most 1, found {}", options.top_p);
}

void check_logits(std::span<const double> logits) {
  bool possible = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) throw InvalidLogits("the logit of token {} is NaN", i);
    if (logits[i] > std::numeric_limits<double>::max())
      throw InvalidLogits(
          "the logit of token {} is +infinity; expected a finite number or -infinity", i);
    possible = possible || logits[i] >= std::numeric_limits<double>::lowest();
  }
  if (!possible) throw InvalidLogits("all {} logits are -infinity", logits.size());
}

template <typename T>
double sum_of_exponentials(std::span<const T> logits, double highest, double temperature) {
  const hn::ScalableTag<double> tag;
  const std::size_t lanes = hn::Lanes(tag);
  const auto most = hn::Set(tag, highest), divisor = hn::Set(tag, temperature);
  auto sums = hn::Zero(tag);
  double block[HWY_MAX_BYTES / sizeof(double)];
  for (std::size_t i = 0; i < logits.size(); i += lanes) {
    const std::size_t count = std::min(lanes, logits.size() - i);
    std::copy_n(logits.data() + i, count, block);
    std::fill(block + count, block + lanes, -std::numeric_limits<double>::infinity());
    sums = hn::Add(sums, hn::Exp(tag, hn::Div(hn::Sub(hn::LoadU(tag, block), most), divisor)));
  }
  return hn::GetLane(hn::SumOfLanes(tag, sums));
}
template double sum_of_exponentials(std::span<const float>, double, double);
template double sum_of_exponentials(std::span<const double>, double, double);

std::vector<Candidate> candidates(std::span<const double> logits, const SamplingOptions& options) {
  check_logits(logits);
  std::vector<Candidate> result = with_logits(logits);
  const bool greedy = options.temperature == 0;
  const auto wanted = static_cast<std::size_t>(greedy ? 1 : options.top_k);
  const std::size_t count = wanted > 0 ? std::min(wanted, result.size()) : result.size();
  std::partial_sort(
      result.begin(), result.begin() + static_cast<std::ptrdiff_t>(count), result.end(), better);
  result.resize(count);
  const double highest = result.front().probability;
  double sum = 0;
  for (Candidate& candidate : result) {
    candidate.probability =
        greedy ? 1 : std::exp((candidate.probability - highest) / options.temperature);
    sum += candidate.probability;
  }
  double kept = 0;
  std::size_t nucleus = 0;
  while (nucleus < result.size() && (nucleus == 0 || kept < options.top_p * sum))
    kept += result[nucleus++].probability;
  if (options.top_p < 1) result.resize(nucleus);
  if (options.top_p >= 1) kept = sum;
  for (Candidate& candidate : result) candidate.probability /= kept;
  return result;
}

std::int64_t choose(std::span<const Candidate> candidates, double uniform) {
  double below = 0;
  for (const Candidate& candidate : candidates) {
    below += candidate.probability;
    if (uniform < below) return candidate.token;
  }
  // The sum may be slightly below 1 after rounding.
  return candidates.back().token;
}

std::int64_t sample_token(std::span<const double> logits,
                          const SamplingOptions& options,
                          double uniform) {
  if (options.temperature == 0) {
    check_logits(logits);
    return std::ranges::max_element(logits) - logits.begin();
  }
  if (options.top_k > 0) return choose(candidates(logits, options), uniform);
  check_logits(logits);
  const double highest = std::ranges::max(logits);
  const auto weight = [&](double logit) {
    return std::exp((logit - highest) / options.temperature);
  };
  double kept = sum_of_exponentials(logits, highest, options.temperature);
  SortedAsAsked sorted(with_logits(logits));
  if (options.top_p < 1) {
    const double enough = options.top_p * kept;
    kept = 0;
    for (std::size_t i = 0; i < sorted.size() && (i == 0 || kept < enough); ++i)
      kept += weight(sorted[i].probability);
  }
  double below = 0;
  std::int64_t last = 0;  // the sum may be slightly below `kept` after rounding
  for (std::size_t i = 0; i < sorted.size() && below < kept; ++i) {
    const double more = weight(sorted[i].probability);
    if (more == 0) break;
    below += more;
    last = sorted[i].token;
    if (uniform * kept < below) break;
  }
  return last;
}

double uniform_at(const Random& random, std::uint64_t index) {
  const auto words = random.block(index);
  const std::uint64_t high = words[0] >> 5;
  const std::uint64_t low = words[1] >> 6;
  return static_cast<double>(high << 26 | low) * 0x1p-53;
}

}  // namespace longspan
HWY_AFTER_NAMESPACE();
