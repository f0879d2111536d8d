// Sequence-level training: minimum risk (nematus), REINFORCE with a self-critical and a
// leave-one-out baseline (self-critical.pytorch), and sentence BLEU (nematus).
#include "framework/modeling/sequence_level.h"

#include <gtest/gtest.h>

#include "framework/autograd/losses.h"
#include "framework/autograd/ops.h"
#include "framework/metrics/sentence_score.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

using testing::Values;

// The log-probabilities of a file, [rows, candidates, time], with the lengths of the candidates.
struct Candidates {
  Variable log_probabilities;
  std::vector<std::int64_t> lengths;
  std::int64_t rows, count, time;

  explicit Candidates(const GoldenFile& file)
      : log_probabilities(leaf_of(file, "inputs/token_log_probs")) {
    const auto of_file = file.ids("inputs/lengths").span<std::int64_t>();
    lengths.assign(of_file.begin(), of_file.end());
    const Shape& shape = log_probabilities.shape();
    rows = shape[0];
    count = shape[1];
    time = shape[2];
    expect_extent(file, "batch", rows);
    expect_extent(file, "len", time);
  }

  // Sums of the log-probabilities times the factor of their candidate.
  Variable sums(const Values& factors) const {
    const Tensor weights =
        Tensor::zeros({rows * count, time}, DType::f64, log_probabilities.value().device());
    for (std::size_t row = 0; row < lengths.size(); ++row)
      std::fill_n(weights.data<double>() + static_cast<std::int64_t>(row) * time,
                  lengths[row],
                  factors[row]);
    return weighted_row_sums(log_probabilities, weights);
  }
};

void expect_loss(const GoldenFile& file,
                 const std::string& name,
                 const Variable& loss,
                 const Variable& log_probabilities) {
  expect_output(file, name, loss.value());
  backward({loss}, {file.numbers("inputs/upstream").reshape({1}).clone()});
  expect_gradient(file, "token_log_probs", gradient_of(log_probabilities));
}

// The loss of advantages, which is divided by the number of all tokens.
void check_reinforce(const GoldenFile& file, const Values& rewards, const Values& baselines) {
  const Candidates candidates(file);
  expect_extent(file, "samples", candidates.count);
  Values factors(rewards.size());
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    factors[i] = baselines[i] - rewards[i];
    tokens += candidates.lengths[i];
  }
  expect_loss(file,
              "loss",
              sum(candidates.sums(factors), 1 / static_cast<double>(tokens)),
              candidates.log_probabilities);
}

}  // namespace

void check_minimum_risk(const GoldenFile& file) {
  const Candidates candidates(file);
  expect_extent(file, "candidate_limit", candidates.count);
  const Shape shape = {candidates.rows, candidates.count};
  const Tensor present = Tensor::zeros(shape, DType::i64, testing::backend_device());
  const auto counts = file.ids("inputs/candidates").span<std::int64_t>();
  for (std::int64_t i = 0; i < present.elements(); ++i)
    present.data<std::int64_t>()[i] =
        i % candidates.count < counts[static_cast<std::size_t>(i / candidates.count)] ? 1 : 0;
  const Variable risks = expected_costs(candidates.sums(Values(candidates.lengths.size(), 1.0)),
                                        {file.numbers("inputs/cost"), present},
                                        file.real("alpha"));
  expect_loss(file,
              "risk",
              sum(risks, 1 / static_cast<double>(candidates.rows)),
              candidates.log_probabilities);
}

void check_self_critical(const GoldenFile& file) {
  const Values rewards = testing::values_of(file.numbers("inputs/reward"));
  const Values greedy = testing::values_of(file.numbers("inputs/greedy_reward"));
  Values baselines;
  for (std::size_t i = 0; i < rewards.size(); ++i)
    baselines.push_back(greedy[i / (rewards.size() / greedy.size())]);
  check_reinforce(file, rewards, baselines);
}

void check_leave_one_out(const GoldenFile& file) {
  const Values rewards = testing::values_of(file.numbers("inputs/reward"));
  const auto samples = static_cast<std::size_t>(file.numbers("inputs/reward").shape()[1]);
  check_reinforce(file, rewards, leave_one_out_baselines(rewards, samples));
}

void check_sentence_bleu(const GoldenFile& file) {
  const auto items_of = [&](const std::string& side, std::int64_t row) {
    const Tensor& ids = file.ids("inputs/" + side);
    const std::int64_t length = file.ids("inputs/" + side + "_lengths").data<std::int64_t>()[row];
    const std::int64_t* const begin = ids.data<std::int64_t>() + row * ids.shape()[1];
    return std::vector<std::uint32_t>(begin, begin + length);
  };
  expect_extent(file, "len", file.ids("inputs/hypothesis").shape()[1]);
  expect_extent(file, "reference_len", file.ids("inputs/reference").shape()[1]);
  Values scores;
  for (std::int64_t row = 0; row < file.integer("count"); ++row)
    scores.push_back(sentence_bleu(items_of("hypothesis", row),
                                   items_of("reference", row),
                                   static_cast<std::size_t>(file.integer("order"))));
  expect_output(file, "score", testing::tensor_of<double>(scores, {std::ssize(scores)}));
}

}  // namespace longspan::golden
