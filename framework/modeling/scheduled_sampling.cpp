#include "framework/modeling/scheduled_sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/modeling/all_gather_logits.h"
#include "framework/modeling/model.h"

namespace longspan {
namespace {

std::vector<double> soft(std::span<const double> x) {
  const double largest = *std::ranges::max_element(x);
  std::vector<double> result;
  for (const double value : x) result.push_back(std::exp(value - largest));
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& value : result) value /= sum;
  return result;
}

// Returns the projection of x onto the simplex (Martins & Astudillo 2016, algorithm 1).
std::vector<double> sparse(std::span<const double> x) {
  std::vector<double> sorted(x.begin(), x.end());
  std::ranges::sort(sorted, std::greater());
  double sum = 0, threshold = 0;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    sum += sorted[k];
    if (1 + static_cast<double>(k + 1) * sorted[k] <= sum) break;
    threshold = (sum - 1) / static_cast<double>(k + 1);
  }
  std::vector<double> result;
  for (const double value : x) result.push_back(std::max(value - threshold, 0.0));
  return result;
}

// Ties resolve to the first.
std::int64_t best_of(std::span<const double> x) { return std::ranges::max_element(x) - x.begin(); }

std::int64_t drawn(std::span<const double> weights, double uniform) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (uniform < sum) return static_cast<std::int64_t>(i);
  }
  return best_of(weights);
}

// In (0, 1).
double open_uniform(const Random& random, std::uint64_t element) {
  return (static_cast<double>(random.word(element)) + 0.5) * 0x1p-32;
}

// The unsharded scores of this rank's positions.
class Scored {
 public:
  Scored(const Tensor& scores, const ShardRange& part, const ProcessMesh& mesh)
      : scores_(all_gather_logits(
            scores.reshape({scores.shape().rows(), part.count}), part, mesh.tensor)) {}

  std::vector<double> of(std::int64_t place) const {
    std::vector<double> row;
    with_floating_type(scores_.dtype(), [&]<typename T>(TypeTag<T>) {
      const std::int64_t width = scores_.shape().width();
      for (std::int64_t i = place * width; i < (place + 1) * width; ++i)
        row.push_back(static_cast<double>(static_cast<Accumulator<T>>(scores_.data<T>()[i])));
    });
    return row;
  }

 private:
  Tensor scores_;
};

// One sampling pass.
class Round {
 public:
  Round(const ScheduledSampling& options,
        const Model& model,
        const ModelInput& reading,
        const ForwardContext& pass,
        std::int64_t number)
      : options_(options),
        model_(model),
        mesh_(model.parameters().mesh()),
        pass_(pass.child("sampling").child(static_cast<std::uint64_t>(number))),
        rows_(reading.rows()),
        time_(reading.time()) {}

  // Mixes predictions into `before`; its first `fixed` positions are unchanged.
  ModelInput mixed(const ModelInput& before,
                   const Tensor& gold,
                   std::int64_t fixed,
                   double share) const {
    ForwardContext asking = pass_;
    asking.reconstruction = nullptr;
    asking.layer_losses = nullptr;
    asking.updates_statistics = false;
    const Tensor scores = model_.scores(before, asking).scores.value();
    if (scores.device().state().is_meta()) return before;
    const Scored scored(scores, model_.readout().part(), mesh_);
    ModelInput after = before;
    Tensor& tokens = after.fields["tokens"];
    tokens = tokens.clone(MemoryTag::workspace);
    // The score row of each predicted position; -1: gold token.
    const std::vector<std::int64_t> sources = chosen(tokens, gold, fixed, share);
    if (is_a_word(options_.guess))
      put_words(scored, sources, tokens);
    else
      after.soft_embeddings = mixtures(scored, sources);
    return after;
  }

 private:
  std::uint64_t element(std::int64_t row, std::int64_t t) const {
    return static_cast<std::uint64_t>((pass_.first_stream + row) * time_ + t);
  }

  // Returns [rows * time]: the row of this rank's scores that a position samples from; -1: none,
  // -2: another rank's. Writes the remaining tokens: the gold token, or -1 for a prediction.
  std::vector<std::int64_t> chosen(const Tensor& tokens,
                                   const Tensor& gold,
                                   std::int64_t fixed,
                                   double share) const {
    // Score index of each position.
    const Ranges positions = shard_sequence(mesh_, time_).inside();
    std::vector<std::int64_t> place(static_cast<std::size_t>(time_), -1);
    for (std::int64_t i = 0; const Range& range : positions)
      for (std::int64_t t = range.begin; t < range.end; ++t)
        place[static_cast<std::size_t>(t)] = i++;
    const std::int64_t held = total_count(positions);
    const Random coin = pass_.random.child("coin");
    std::vector<std::int64_t> sources(static_cast<std::size_t>(rows_ * time_), -1);
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t t = std::max<std::int64_t>(fixed, 1); t < time_; ++t) {
        const std::int64_t at = row * time_ + t;
        const bool is_gold = open_uniform(coin, element(row, t)) < share;
        tokens.data<std::int64_t>()[at] = is_gold ? gold.data<std::int64_t>()[at] : -1;
        if (is_gold) continue;
        // The prediction for a position is made at the previous one.
        const std::int64_t here = place[static_cast<std::size_t>(t - 1)];
        sources[static_cast<std::size_t>(at)] = here < 0 ? -2 : row * held + here;
      }
    return sources;
  }

  void put_words(const Scored& scored,
                 const std::vector<std::int64_t>& sources,
                 const Tensor& tokens) const {
    const Device host = tokens.device();
    const Tensor words = Tensor::zeros({rows_ * time_}, DType::f64, host, MemoryTag::workspace);
    const Random draws = pass_.random.child("draw");
    for (std::int64_t at = 0; at < rows_ * time_; ++at) {
      const std::int64_t source = sources[static_cast<std::size_t>(at)];
      if (source < 0) continue;
      std::vector<double> scores = scored.of(source);
      std::int64_t word = best_of(scores);
      if (options_.guess == ScheduledSamplingPrediction::sample) {
        for (double& score : scores) score /= options_.temperature;
        word = drawn(soft(scores), open_uniform(draws, element(at / time_, at % time_)));
      }
      words.data<double>()[at] = static_cast<double>(word);
    }
    mesh_.context.all_reduce(words, Reduction::sum);
    for (std::int64_t at = 0; at < rows_ * time_; ++at)
      if (sources[static_cast<std::size_t>(at)] != -1)
        tokens.data<std::int64_t>()[at] = static_cast<std::int64_t>(words.data<double>()[at]);
  }

  std::vector<double> weights_of(const Scored& scored, std::int64_t source, std::int64_t at) const {
    const std::vector<double> scores = scored.of(source);
    std::vector<double> noise;
    if (options_.guess == ScheduledSamplingPrediction::gumbel) {
      const Random random = pass_.random.child("gumbel");
      const auto first = element(at / time_, at % time_) * scores.size();
      for (std::size_t i = 0; i < scores.size(); ++i)
        noise.push_back(-std::log(-std::log(open_uniform(random, first + i))));
    }
    return prediction_weights(options_.guess, options_.temperature, scores, noise);
  }

  // [rows, time, width], zeros at positions without a prediction.
  Tensor mixtures(const Scored& scored, const std::vector<std::int64_t>& sources) const {
    const Parameters& parameters = model_.parameters();
    const ShardRange& part = model_.readout().part();
    const Device host = parameters.device().host();
    std::vector<std::int64_t> places;
    std::vector<double> weights;
    for (std::int64_t at = 0; at < rows_ * time_; ++at) {
      const std::int64_t source = sources[static_cast<std::size_t>(at)];
      if (source < 0) continue;
      places.push_back(at);
      const std::vector<double> all = weights_of(scored, source, at);
      weights.insert(
          weights.end(), all.begin() + part.begin, all.begin() + part.begin + part.count);
    }
    const Tensor mine =
        Tensor::from<double>(weights, {std::ssize(places), part.count}, host, MemoryTag::workspace);
    const Tensor found =
        cast(Variable(model_.body().mixed_embeddings(
                 cast(Variable(copy_async(mine, parameters.device())), parameters.compute_dtype())
                     .value())),
             DType::f64)
            .value()
            .to_host();
    const std::int64_t width = found.shape().width();
    const Tensor all = Tensor::zeros({rows_, time_, width}, DType::f64, host, MemoryTag::workspace);
    for (std::size_t i = 0; i < places.size(); ++i)
      std::copy_n(found.data<double>() + static_cast<std::int64_t>(i) * width,
                  width,
                  all.data<double>() + places[i] * width);
    mesh_.context.all_reduce(all, Reduction::sum);
    return cast(Variable(copy_async(all, parameters.device())), parameters.compute_dtype()).value();
  }

  const ScheduledSampling& options_;
  const Model& model_;
  const ProcessMesh& mesh_;
  ForwardContext pass_;
  std::int64_t rows_;
  std::int64_t time_;
};

}  // namespace

double ScheduledSampling::decays() const {
  if (decay) return *decay;
  if (schedule == GoldProbabilitySchedule::linear) return 1e-4;
  return schedule == GoldProbabilitySchedule::exponential ? 0.9999 : 1000;
}

double ScheduledSampling::gold_share(std::int64_t step) const {
  const auto i = static_cast<double>(step);
  const double k = decays();
  if (schedule == GoldProbabilitySchedule::linear)
    return std::min(1.0, std::max(least, start - k * i));
  if (schedule == GoldProbabilitySchedule::exponential) return std::pow(k, i);
  if (schedule == GoldProbabilitySchedule::inverse_sigmoid) return k / (k + std::exp(i / k));
  const auto last = static_cast<double>(std::max<std::int64_t>(warmup, 1));
  return 1 - most * std::pow(0.001, std::max(0.0, last - i) / last);
}

std::string problem_of(const ScheduledSampling& options) {
  if (options.mixing == ScheduledSamplingMethod::none) return "";
  if (options.mixing != ScheduledSamplingMethod::two_pass && !is_a_word(options.guess))
    return "training.scheduled_sampling.prediction: mean embeddings require "
           "training.scheduled_sampling.method: two_pass; set it to sample or argmax";
  const double decay = options.decays();
  if (options.schedule == GoldProbabilitySchedule::exponential && decay > 1)
    return fmt::format(
        "training.scheduled_sampling.decay: expected at most 1 with "
        "training.scheduled_sampling.schedule: exponential, found {}",
        decay);
  if (options.schedule == GoldProbabilitySchedule::inverse_sigmoid && decay < 1)
    return fmt::format(
        "training.scheduled_sampling.decay: expected at least 1 with "
        "training.scheduled_sampling.schedule: inverse_sigmoid, found {}",
        decay);
  return "";
}

std::vector<double> prediction_weights(ScheduledSamplingPrediction guess,
                                       double temperature,
                                       std::span<const double> scores,
                                       std::span<const double> noise) {
  std::vector<double> x(scores.begin(), scores.end());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (x[i] + (noise.empty() ? 0.0 : noise[i])) / temperature;
  if (guess == ScheduledSamplingPrediction::sparsemax) return sparse(x);
  if (guess == ScheduledSamplingPrediction::top_five) {
    std::vector<std::size_t> order(x.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return x[i]; });
    for (std::size_t rank = 5; rank < order.size(); ++rank)
      x[order[rank]] = -std::numeric_limits<double>::infinity();
  }
  return soft(x);
}

ModelInput mix_in_predictions(const ScheduledSampling& options,
                              const Model& model,
                              const ModelInput& reading,
                              const ForwardContext& pass) {
  const double share = options.gold_share(pass.step);
  const Tensor gold = field_of(reading.fields, "tokens");
  // Without predictions no pass is needed, except for memory plans.
  if (share >= 1 && !gold.device().state().is_meta()) return reading;
  const NoGradGuard unrecorded;
  std::int64_t rounds = 1;
  if (options.mixing == ScheduledSamplingMethod::sequential)
    rounds = std::max<std::int64_t>(reading.time() - 1, 1);
  if (options.mixing == ScheduledSamplingMethod::parallel) rounds = options.passes;
  ModelInput mixed = reading;
  for (std::int64_t round = 1; round <= rounds; ++round)
    mixed = Round(options, model, reading, pass, round).mixed(mixed, gold, round, share);
  return mixed;
}

void declare(OptionTable& table, ScheduledSampling& options) {
  table.add("training.scheduled_sampling.method",
            options.mixing,
            "scheduled sampling: none, sequential (one pass per token, Bengio et al. 2015), "
            "two_pass (one pass, Mihaylova and Martins 2019) or parallel "
            "(training.scheduled_sampling.num_passes passes, Duckworth et al. 2019)",
            {{"none", ScheduledSamplingMethod::none},
             {"sequential", ScheduledSamplingMethod::sequential},
             {"two_pass", ScheduledSamplingMethod::two_pass},
             {"parallel", ScheduledSamplingMethod::parallel}},
            needs(is("run.task", {"translation"})));
  table.add("training.scheduled_sampling.prediction",
            options.guess,
            "decoder input made of the predictions: sample or argmax (a token); with two_pass also "
            "softmax, gumbel (softmax with Gumbel noise), top5 (softmax of the five most likely) "
            "or sparsemax (a mean of embeddings)",
            {{"sample", ScheduledSamplingPrediction::sample},
             {"argmax", ScheduledSamplingPrediction::argmax},
             {"softmax", ScheduledSamplingPrediction::softmax},
             {"gumbel", ScheduledSamplingPrediction::gumbel},
             {"top5", ScheduledSamplingPrediction::top_five},
             {"sparsemax", ScheduledSamplingPrediction::sparsemax}},
            only_with(is_not("training.scheduled_sampling.method", "none")));
  table.add("training.scheduled_sampling.temperature",
            options.temperature,
            "temperature of the prediction, which divides the logits",
            more_than(0.0),
            only_with(is_not("training.scheduled_sampling.prediction", "argmax")));
  table.add("training.scheduled_sampling.num_passes",
            options.passes,
            "number of prediction passes",
            between(1, 1 << 16),
            only_with(is("training.scheduled_sampling.method", {"parallel"})));
  table.add("training.scheduled_sampling.schedule",
            options.schedule,
            "probability of feeding the gold token at step i, from 0: linear, max(min_gold_prob, "
            "initial_gold_prob - decay i); exponential, decay^i; inverse_sigmoid, k / (k + exp(i / "
            "k)) with k = decay; or warmup, 1 - max_sampling_prob 0.001^(max(0, w - i) / w) with w "
            "= warmup_steps",
            {{"linear", GoldProbabilitySchedule::linear},
             {"exponential", GoldProbabilitySchedule::exponential},
             {"inverse_sigmoid", GoldProbabilitySchedule::inverse_sigmoid},
             {"warmup", GoldProbabilitySchedule::warmup}},
            only_with(is_not("training.scheduled_sampling.method", "none")));
  table.add("training.scheduled_sampling.initial_gold_prob",
            options.start,
            "initial probability of feeding the gold token",
            at_least(0.0),
            only_with(is("training.scheduled_sampling.schedule", {"linear"})));
  table.add("training.scheduled_sampling.min_gold_prob",
            options.least,
            "lowest probability of feeding the gold token, 0 to 1",
            between(0, 1),
            only_with(is("training.scheduled_sampling.schedule", {"linear"})));
  table.add("training.scheduled_sampling.decay",
            options.decay,
            "decay of the schedule; none: 1e-4 for linear, 0.9999 for exponential, 1000 for "
            "inverse_sigmoid",
            at_least(0.0),
            only_with(is("training.scheduled_sampling.schedule",
                         {"linear", "exponential", "inverse_sigmoid"})));
  table.add("training.scheduled_sampling.max_sampling_prob",
            options.most,
            "highest probability of feeding a predicted token, 0 to 1",
            between(0, 1),
            only_with(is("training.scheduled_sampling.schedule", {"warmup"})));
  table.add("training.scheduled_sampling.warmup_steps",
            options.warmup,
            "steps until the highest probability of feeding a predicted token",
            at_least(1),
            only_with(is("training.scheduled_sampling.schedule", {"warmup"})));
  table.check({"training.scheduled_sampling.prediction",
               "training.scheduled_sampling.method",
               "training.scheduled_sampling.decay",
               "training.scheduled_sampling.schedule"},
              [&options] { return problem_of(options); });
}

}  // namespace longspan
