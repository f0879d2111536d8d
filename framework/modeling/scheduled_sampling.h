// Scheduled sampling: in training a model reads, in place of some of the true words, what it would
// say itself (Bengio et al. 2015).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/modeling/model_input.h"
#include "framework/nn/forward_context.h"
#include "framework/options/options.h"

namespace longspan {

class Model;

// How often the model is asked.
enum class ScheduledSamplingMethod : std::uint8_t {
  none,
  sequential,  // once a word: what it says next is of what it has said (Bengio et al. 2015)
  two_pass,    // once, after the true words (Mihaylova & Martins 2019)
  parallel     // a few times, each after what came of the time before (Duckworth et al. 2019)
};

// What is read of its scores s.
enum class ScheduledSamplingPrediction : std::uint8_t {
  sample,     // a word drawn by softmax(s / temperature)
  argmax,     // the likeliest word
  softmax,    // the mean of all embeddings by softmax(s / temperature)
  gumbel,     // the same of s with Gumbel noise added
  top_five,   // the same of the five likeliest words
  sparsemax,  // the mean by sparsemax(s / temperature) (Martins & Astudillo 2016)
};
inline bool is_a_word(ScheduledSamplingPrediction guess) {
  return guess <= ScheduledSamplingPrediction::argmax;
}

// How the share of true words falls with the step i, counted from 0.
enum class GoldProbabilitySchedule : std::uint8_t {
  linear,           // max(least, start - decay i)
  exponential,      // decay^i
  inverse_sigmoid,  // decay / (decay + exp(i / decay))
  warmup            // 1 - most 0.001^(max(0, warmup - i) / warmup), as in tensor2tensor
};

struct ScheduledSampling {
  ScheduledSamplingMethod mixing = ScheduledSamplingMethod::none;
  ScheduledSamplingPrediction guess = ScheduledSamplingPrediction::sample;
  double temperature = 1;
  std::int64_t passes = 1;  // with InputMixing::parallel
  GoldProbabilitySchedule schedule = GoldProbabilitySchedule::warmup;
  double start = 1;
  double least = 0;
  std::optional<double> decay = {};  // none: 1e-4, 0.9999 or 1000, by the schedule
  double most = 0.5;
  std::int64_t warmup = 50000;

  double decays() const;
  double gold_share(std::int64_t step) const;
};

void declare(OptionTable& table, ScheduledSampling& options);

// What keeps the options from going together, as a sentence; empty where nothing does.
std::string problem_of(const ScheduledSampling& options);

// The reading with guesses in place of some of its tokens, never of a row's first: of each a coin
// decides, a function of (seed, step, pass, global row, position). No gradient goes through the
// guesses. Collective over the ranks that share the rows' time or the weights.
ModelInput mix_in_predictions(const ScheduledSampling& options,
                              const Model& model,
                              const ModelInput& reading,
                              const ForwardContext& pass);

// What such a guess reads of scores [vocabulary]: weights of the embeddings, which sum to 1.
// `noise`: Gumbel noise, as many. For soft guesses.
std::vector<double> prediction_weights(ScheduledSamplingPrediction guess,
                                       double temperature,
                                       std::span<const double> scores,
                                       std::span<const double> noise = {});

}  // namespace longspan
