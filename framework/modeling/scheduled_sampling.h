// Scheduled sampling: in training, some gold input tokens are replaced by the model's own
// predictions (Bengio et al. 2015).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/modeling/model_input.h"
#include "framework/nn/forward_context.h"
#include "framework/options/options.h"

namespace longspan {

class Model;

// Number and order of sampling passes.
enum class ScheduledSamplingMethod : std::uint8_t {
  none,
  sequential,  // one pass per token, each conditioned on earlier samples (Bengio et al. 2015)
  two_pass,    // one pass on gold tokens (Mihaylova & Martins 2019)
  parallel     // a few passes, each on the output of the previous one (Duckworth et al. 2019)
};

// Model input derived from scores s.
enum class ScheduledSamplingPrediction : std::uint8_t {
  sample,     // a token drawn from softmax(s / temperature)
  argmax,     // the most likely token
  softmax,    // mean embedding under softmax(s / temperature)
  gumbel,     // as softmax, with Gumbel noise added to s
  top_five,   // as softmax, over the five most likely tokens
  sparsemax,  // mean embedding under sparsemax(s / temperature) (Martins & Astudillo 2016)
};
inline bool is_a_word(ScheduledSamplingPrediction guess) {
  return guess <= ScheduledSamplingPrediction::argmax;
}

// Decay of the gold probability with the step i, counted from 0.
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
  std::int64_t passes = 1;  // with ScheduledSamplingMethod::parallel
  GoldProbabilitySchedule schedule = GoldProbabilitySchedule::warmup;
  double start = 1;
  double least = 0;
  std::optional<double> decay = {};  // none: 1e-4, 0.9999 or 1000, depending on the schedule
  double most = 0.5;
  std::int64_t warmup = 50000;

  double decays() const;
  double gold_share(std::int64_t step) const;
};

void declare(OptionTable& table, ScheduledSampling& options);

// Returns why the options cannot be combined; empty if they can.
std::string problem_of(const ScheduledSampling& options);

// Collective over the ranks that share the rows' time or the weights. Returns the input with
// predictions in place of some tokens, never of a row's first. The choice is a function of (seed,
// step, pass, global row, position). No gradient flows through the predictions.
ModelInput mix_in_predictions(const ScheduledSampling& options,
                              const Model& model,
                              const ModelInput& reading,
                              const ForwardContext& pass);

// Returns embedding weights for scores [vocabulary], which sum to 1. For soft predictions. noise:
// Gumbel noise [vocabulary].
std::vector<double> prediction_weights(ScheduledSamplingPrediction guess,
                                       double temperature,
                                       std::span<const double> scores,
                                       std::span<const double> noise = {});

}  // namespace longspan
