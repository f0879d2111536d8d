#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "framework/decoding/top_k.h"

namespace longspan {
namespace {

// An active hypothesis.
struct Beam {
  std::vector<std::int64_t> tokens = {};
  double log_probability = 0;
  std::int64_t row = 0;   // row in the previous step
  std::int64_t next = 0;  // next token to read
};

struct Continuation {
  double log_probability;
  std::int64_t token;
  std::size_t of;  // index of the active hypothesis
};

class BeamState {
 public:
  BeamState(const SearchInput& input, std::int64_t place, const BeamOptions& options)
      : input_(input), options_(options), living_(1, Beam{.row = place, .next = input.first}) {}

  bool done() const { return living_.empty() || std::ssize(finished_) >= options_.beam; }
  const std::vector<Beam>& living() const { return living_; }
  std::int64_t index() const { return input_.index; }

  // Extends the active hypotheses by their choices. `row` is the first one's row in this step.
  void go_on(std::span<const TopK> choices, std::int64_t row) {
    const bool last = length_ == input_.longest;
    ++length_;
    std::vector<Beam> next;
    const auto beam = static_cast<std::size_t>(options_.beam);
    const std::vector<Continuation> best = continuations(choices, last);
    for (std::size_t i = 0; i < best.size() && next.size() < beam; ++i) {
      const Beam& before = living_[best[i].of];
      if (best[i].token == options_.vocabulary.end) {
        if (i < beam) finish(before, best[i].log_probability);
        continue;
      }
      next.push_back({.tokens = before.tokens,
                      .log_probability = best[i].log_probability,
                      .row = row + static_cast<std::int64_t>(best[i].of),
                      .next = best[i].token});
      next.back().tokens.push_back(best[i].token);
    }
    living_ = std::move(next);
  }

  std::vector<Hypothesis> best() {
    require(!finished_.empty(), "input {}: no finished hypothesis", input_.index);
    std::ranges::stable_sort(finished_, std::ranges::greater{}, &Hypothesis::score);
    if (std::ssize(finished_) > options_.n_best)
      finished_.resize(static_cast<std::size_t>(options_.n_best));
    return std::move(finished_);
  }

 private:
  // Returns the best 2 `beam` continuations, best first; at the maximum length only end tokens.
  std::vector<Continuation> continuations(std::span<const TopK> choices, bool last) const {
    std::vector<Continuation> result;
    for (std::size_t i = 0; i < living_.size(); ++i) {
      const auto add = [&](std::int64_t token, double logit) {
        result.push_back({living_[i].log_probability + (logit - choices[i].log_sum), token, i});
      };
      if (!last)
        for (const TokenLogit& best : choices[i].best) add(best.token, best.logit);
      else if (choices[i].end >= std::numeric_limits<double>::lowest())
        add(options_.vocabulary.end, choices[i].end);
    }
    std::ranges::sort(result, [](const Continuation& a, const Continuation& b) {
      if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
      return a.token != b.token ? a.token < b.token : a.of < b.of;
    });
    result.resize(std::min(result.size(), 2 * static_cast<std::size_t>(options_.beam)));
    return result;
  }

  void finish(const Beam& living, double log_probability) {
    const double penalty = length_penalty(options_.penalty, options_.alpha, length_);
    finished_.push_back({.tokens = living.tokens,
                         .log_probability = log_probability,
                         .score = log_probability / penalty,
                         .ended = true});
  }

  SearchInput input_;
  const BeamOptions& options_;
  std::int64_t length_ = 0;
  std::vector<Beam> living_;
  std::vector<Hypothesis> finished_;
};

// One step of all unfinished inputs.
void decode_step(std::span<BeamState* const> active,
                 const SearchStep& step,
                 const BeamOptions& options) {
  std::vector<std::int64_t> tokens = {};
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> index;
  for (const BeamState* sentence : active)
    for (const Beam& living : sentence->living()) {
      tokens.push_back(living.next);
      rows.push_back(living.row);
      index.push_back(sentence->index());
    }
  const StepLogits logits(step, tokens, rows, options.vocabulary);
  const std::vector<TopK> choices =
      logits.top_k(2 * static_cast<std::size_t>(options.beam),
                   [&](std::size_t row) { return fmt::format("input {}", index[row]); });
  std::size_t row = 0;
  for (BeamState* sentence : active) {
    const std::size_t count = sentence->living().size();
    sentence->go_on(std::span(choices).subspan(row, count), static_cast<std::int64_t>(row));
    row += count;
  }
}

}  // namespace

double length_penalty(LengthPenalty kind, double alpha, std::int64_t length) {
  const auto n = static_cast<double>(length);
  return std::pow(kind == LengthPenalty::wu ? (5 + n) / 6 : n, alpha);
}

std::string problem_of(const BeamOptions& options) {
  if (options.beam < 1) return fmt::format("beam: expected at least 1, found {}", options.beam);
  if (options.n_best < 1 || options.n_best > options.beam)
    return fmt::format(
        "n-best: expected 1 to the beam of {}, found {}", options.beam, options.n_best);
  if (!std::isfinite(options.alpha))
    return fmt::format("length penalty: expected a finite number, found {}", options.alpha);
  if (options.vocabulary.end < 0) return "beam search requires an end token";
  if (std::ranges::count(options.vocabulary.forbidden, options.vocabulary.end))
    return fmt::format("the end token {} is forbidden", options.vocabulary.end);
  return "";
}

std::vector<std::vector<Hypothesis>> beam_search(const SearchStep& step,
                                                 std::span<const SearchInput> inputs,
                                                 const BeamOptions& options) {
  throw_if_error(problem_of(options));
  std::vector<BeamState> sentences;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    sentences.emplace_back(inputs[i], static_cast<std::int64_t>(i), options);
  std::vector<BeamState*> active;
  for (BeamState& sentence : sentences) active.push_back(&sentence);
  while (!active.empty()) {
    decode_step(active, step, options);
    std::erase_if(active, [](const BeamState* sentence) { return sentence->done(); });
  }
  std::vector<std::vector<Hypothesis>> result;
  for (BeamState& sentence : sentences) result.push_back(sentence.best());
  return result;
}

}  // namespace longspan
