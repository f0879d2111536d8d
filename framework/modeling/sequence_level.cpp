#include "framework/modeling/sequence_level.h"

#include <algorithm>
#include <numeric>

#include "framework/autograd/collectives.h"
#include "framework/autograd/losses.h"
#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/core/error.h"

namespace longspan {
namespace {

// Computes the losses of the candidates of one microbatch.
class CandidateLosses {
 public:
  CandidateLosses(const Variable& token_losses,
                  const ModelInput& reading,
                  const SequenceShard& time,
                  const SequenceLevelOptions& options,
                  const Communicator& context)
      : token_losses_(token_losses),
        reading_(reading),
        time_(time),
        options_(options),
        context_(context),
        device_(token_losses.value().device()),
        sum_(token_losses.value().dtype()) {}

  // Weighted sums over this rank's positions of each row.
  Variable sums(const char* weights) const {
    return weighted_row_sums(
        token_losses_, cast(Variable(columns_of(reading_, weights, time_, device_)), sum_).value());
  }

  // Expected costs of the groups. Each context rank counts some of them, 0 for the others.
  Variable risks() const {
    Variable log_probabilities = sums("candidate_weights");
    if (context_.size() > 1)
      log_probabilities = copy_to_tensor_parallel_region(
          reduce_from_tensor_parallel_region(std::move(log_probabilities), context_), context_);
    // A dry pass may have any number of rows.
    const std::int64_t rows = reading_.rows();
    const std::int64_t group = device_.state().is_meta() ? 1 : options_.rows_per_pair();
    require(rows % group == 0, "{} rows do not consist of groups of {}", rows, group);
    const Shape shape = {rows / group, group};
    const auto constant = [&](const char* field) {
      return copy_async(field_of(reading_.fields, field).reshape(shape), device_);
    };
    const Variable risks =
        expected_costs(log_probabilities,
                       {.cost = cast(Variable(constant("candidate_costs")), sum_).value(),
                        .present = constant("candidate_present")},
                       options_.alpha);
    return context_.size() > 1 ? weighted_row_sums(risks, own(shape[0])) : risks;
  }

 private:
  // 1 for the groups that this context rank counts.
  Tensor own(std::int64_t groups) const {
    const ShardRange range = shard_range(groups, context_.rank(), context_.size());
    const Tensor result =
        Tensor::zeros({groups, 1}, DType::f64, device_.host(), MemoryTag::workspace);
    if (!device_.state().is_meta())
      std::fill_n(result.data<double>() + range.begin, range.count, 1);
    return cast(Variable(copy_async(result, device_)), sum_).value();
  }

  const Variable& token_losses_;
  const ModelInput& reading_;
  const SequenceShard& time_;
  const SequenceLevelOptions& options_;
  const Communicator& context_;
  Device device_;
  DType sum_;
};

}  // namespace

std::vector<double> leave_one_out_baselines(std::span<const double> rewards, std::size_t samples) {
  require(samples >= 2, "a leave-one-out baseline requires 2 samples, found {}", samples);
  std::vector<double> baselines;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    const auto group = rewards.subspan(i / samples * samples, samples);
    const double sum = std::accumulate(group.begin(), group.end(), 0.0);
    baselines.push_back((sum - rewards[i]) / static_cast<double>(samples - 1));
  }
  return baselines;
}

std::vector<LossTerm> sequence_level_losses(const Variable& token_losses,
                                            const ModelInput& reading,
                                            const SequenceShard& time,
                                            const SequenceLevelOptions& options,
                                            const Communicator& context) {
  const CandidateLosses losses(token_losses, reading, time, options, context);
  std::vector<LossTerm> terms;
  if (options.cross_entropy_weight > 0)
    terms.push_back({.name = "loss",
                     .values = losses.sums("reference_weights"),
                     .count = "reference_tokens",
                     .weight = options.cross_entropy_weight});
  if (options.method == SequenceLevelMethod::minimum_risk)
    terms.push_back({.name = "risk", .values = losses.risks(), .count = "rows"});
  else
    terms.push_back({.name = "reinforce",
                     .values = losses.sums("candidate_weights"),
                     .count = options.normalizer == SequenceNormalizer::tokens ? "candidate_tokens"
                                                                               : "candidates"});
  return terms;
}

std::string validate_sequence_level(const OutputHeadSpec& end, const ModelBuildOptions& setting) {
  if (!setting.sequence_level.is_used()) return "";
  if (std::string problem = problem_of(setting.sequence_level); !problem.empty()) return problem;
  const char* other = nullptr;
  if (end.masked) other = "model.decoder_type: non_autoregressive";
  if (end.source.coverage > 0) other = "model.coverage_loss_weight";
  if (end.source.guide != GuidedAttentionType::none) other = "model.guided_attention.type";
  if (setting.smoothing.share > 0) other = "training.label_smoothing";
  if (setting.sampling.mixing != ScheduledSamplingMethod::none)
    other = "training.scheduled_sampling.method";
  if (setting.memory.bptt_chunk_length) other = "memory.bptt_chunk_length";
  return other == nullptr
             ? ""
             : fmt::format("training.sequence_level.method cannot be combined with {}", other);
}

}  // namespace longspan
