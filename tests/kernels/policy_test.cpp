#include "framework/kernels/policy.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::policy_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t rows = 40;
constexpr double clip = 0.2;

// Logits and outcomes of actions. Some rows have no action. Ratios lie on both sides of the clip.
struct Numbers {
  std::int64_t actions;
  Values logits, before, advantage, values, wanted;
  std::vector<std::int64_t> action;
};

Numbers numbers_of(std::int64_t actions) {
  Numbers result = {.actions = actions,
                    .logits = normal_values<double>(rows * actions, 1),
                    .before = {},
                    .advantage = normal_values<double>(rows, 2),
                    .values = normal_values<double>(rows, 3),
                    .wanted = normal_values<double>(rows, 4),
                    .action = {}};
  for (std::int64_t r = 0; r < rows; ++r) {
    result.action.push_back(r % 5 == 3 ? -1 : r % actions);
    double sum = 0;
    for (std::int64_t i = 0; i < actions; ++i)
      sum += std::exp(result.logits[static_cast<std::size_t>(r * actions + i)]);
    const auto at = static_cast<std::size_t>(r * actions + std::max<std::int64_t>(0, r % actions));
    // Ratios of about 0.55 to 1.75.
    const double shift = (static_cast<double>(r % 7) - 3) * 0.19 + 0.01;
    result.before.push_back(result.logits[at] - std::log(sum) - shift);
  }
  return result;
}

template <typename T>
PolicyLoss score_of(PolicyLossKind function, const Numbers& n) {
  const bool square = function == PolicyLossKind::square;
  PolicyLoss score = {
      .function = function,
      .x = square ? tensor_of<T>(n.values, {rows, 1}) : tensor_of<T>(n.logits, {rows, n.actions}),
      .action = ids_of(n.action),
      .clip = clip};
  if (function == PolicyLossKind::clipped) {
    score.before = tensor_of<T>(n.before, {rows});
    score.advantage = tensor_of<T>(n.advantage, {rows});
  }
  if (square) score.wanted = tensor_of<T>(n.wanted, {rows});
  return score;
}

Values written(PolicyLoss score) {
  score.y = Tensor::empty({rows}, score.x.dtype(), backend_device());
  policy_loss(backend(), score);
  return values_of(score.y);
}

// The formulas of the papers.
Values defined(PolicyLossKind function, const Numbers& n) {
  Values result;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    if (n.action[row] < 0) {
      result.push_back(0);
      continue;
    }
    Values p(n.logits.begin() + r * n.actions, n.logits.begin() + (r + 1) * n.actions);
    double sum = 0, entropy = 0;
    for (double& x : p) {
      x = std::exp(x);
      sum += x;
    }
    for (double& x : p) {
      x /= sum;
      entropy -= x * std::log(x);
    }
    const double ratio = p[static_cast<std::size_t>(n.action[row])] / std::exp(n.before[row]);
    const double a = n.advantage[row], off = n.values[row] - n.wanted[row];
    result.push_back(function == PolicyLossKind::entropy ? entropy
                     : function == PolicyLossKind::square
                         ? off * off / 2
                         : -std::min(ratio * a, std::clamp(ratio, 1 - clip, 1 + clip) * a));
  }
  return result;
}

constexpr PolicyLossKind functions[] = {
    PolicyLossKind::clipped, PolicyLossKind::entropy, PolicyLossKind::square};

TEST(PolicyLoss, MatchesDefinitions) {
  for (const std::int64_t actions : {2, 9})
    for (const PolicyLossKind function : functions) {
      const Numbers n = numbers_of(actions);
      expect_close(written(score_of<double>(function, n)), defined(function, n), 1e-13);
      expect_close(written(score_of<float>(function, n)), defined(function, n), 1e-5);
    }
}

TEST(PolicyLoss, GradientsMatchNumericalGradients) {
  const Numbers n = numbers_of(4);
  const Values upstream = normal_values<double>(rows, 6);
  for (const PolicyLossKind function : functions) {
    const PolicyLoss score = score_of<double>(function, n);
    const PolicyScoreGradient gradient = {
        .forward = score, .dy = tensor_of<double>(upstream, {rows}), .dx = score.x.empty_like()};
    policy_score_backward(backend(), gradient);
    const Values x = values_of(score.x);
    Values expected;
    constexpr double step = 1e-6;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto moved = [&](double by) {
        Values values = x;
        values[i] += by;
        PolicyLoss other = score;
        other.x = tensor_of<double>(values, score.x.shape());
        const std::size_t row = i / (x.size() / rows);
        return written(other)[row] * upstream[row];
      };
      expected.push_back((moved(step) - moved(-step)) / (2 * step));
    }
    expect_close(values_of(gradient.dx), expected, 1e-8);
  }
}

// A ratio beyond the clip has no gradient if moving further would not reduce the loss.
TEST(PolicyLoss, HasNoGradientBeyondClip) {
  const std::vector<std::int64_t> actions = {0, 0, 0, 0};
  const double half = std::log(0.5);
  // Ratios 2, 2, 0.5, 0.5.
  PolicyLoss score = {
      .x = tensor_of<double>(Values(8, 0.0), {4, 2}),
      .action = ids_of(actions),
      .before = tensor_of<double>({half - std::log(2.0), half - std::log(2.0), 0, 0}, {4}),
      .advantage = tensor_of<double>({1, -1, 1, -1}, {4}),
      .clip = clip};
  const PolicyScoreGradient gradient = {
      .forward = score, .dy = tensor_of<double>(Values(4, 1.0), {4}), .dx = score.x.empty_like()};
  policy_score_backward(backend(), gradient);
  const Values found = values_of(gradient.dx);
  expect_close(found, {0, 0, 1, -1, -0.25, 0.25, 0, 0}, 1e-15);
}

TEST(PolicyLoss, RejectsMissingOrMismatchedInputs) {
  const Numbers n = numbers_of(3);
  PolicyLoss score = score_of<double>(PolicyLossKind::clipped, n);
  score.before = Tensor();
  EXPECT_THROW(written(score), Failure);
  score = score_of<double>(PolicyLossKind::square, n);
  score.x = tensor_of<double>(n.logits, {rows, 3});
  EXPECT_THROW(written(score), Failure);
}

}  // namespace
}  // namespace longspan::policy_test
