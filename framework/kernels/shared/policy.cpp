// Losses of policies and values.
#include "framework/kernels/policy.h"

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

// Inputs of one row.
template <typename A>
struct PolicyRow {
  const A* x;
  std::int64_t width;

  // Log-sum-exp of the row.
  LONGSPAN_HOST_DEVICE A log_sum_exp() const {
    A largest = x[0];
    for (std::int64_t i = 1; i < width; ++i) largest = x[i] > largest ? x[i] : largest;
    A sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += std::exp(x[i] - largest);
    return largest + std::log(sum);
  }
  LONGSPAN_HOST_DEVICE A entropy(A log_sum) const {
    A sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum -= std::exp(x[i] - log_sum) * (x[i] - log_sum);
    return sum;
  }
};

template <typename A>
struct PolicyScores {
  PolicyLossKind function;
  std::int64_t width;
  A clip;
  const A* x;
  const std::int64_t* action;
  const A* before;
  const A* advantage;
  const A* wanted;

  explicit PolicyScores(const PolicyLoss& score)
      : function(score.function),
        width(score.x.shape()[1]),
        clip(static_cast<A>(score.clip)),
        x(score.x.data<A>()),
        action(score.action.data<std::int64_t>()),
        before(score.before.defined() ? score.before.data<A>() : nullptr),
        advantage(score.advantage.defined() ? score.advantage.data<A>() : nullptr),
        wanted(score.wanted.defined() ? score.wanted.data<A>() : nullptr) {}

  LONGSPAN_HOST_DEVICE PolicyRow<A> row(std::int64_t r) const { return {x + r * width, width}; }
  // Excludes actions out of range, so that there are no out-of-bounds reads.
  LONGSPAN_HOST_DEVICE bool counts(std::int64_t r) const {
    return action[r] >= 0 && (function != PolicyLossKind::clipped || action[r] < width);
  }
  LONGSPAN_HOST_DEVICE A ratio(std::int64_t r, A log_sum) const {
    return std::exp(x[r * width + action[r]] - log_sum - before[r]);
  }
  // NaN propagates.
  LONGSPAN_HOST_DEVICE A clipped(A ratio) const {
    return ratio < A{1} - clip ? A{1} - clip : ratio > A{1} + clip ? A{1} + clip : ratio;
  }
};

template <typename A>
struct ScoreRow {
  PolicyScores<A> scores;
  A* y;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t r) const {
    if (!scores.counts(r)) {
      y[r] = 0;
      return;
    }
    if (scores.function == PolicyLossKind::square) {
      const A difference = scores.x[r] - scores.wanted[r];
      y[r] = difference * difference / A{2};
      return;
    }
    const PolicyRow<A> row = scores.row(r);
    const A log_sum = row.log_sum_exp();
    if (scores.function == PolicyLossKind::entropy) {
      y[r] = row.entropy(log_sum);
      return;
    }
    const A ratio = scores.ratio(r, log_sum);
    const A free = ratio * scores.advantage[r];
    const A held = scores.clipped(ratio) * scores.advantage[r];
    y[r] = free < held ? -free : -held;
  }
};

template <typename A>
struct ScoreRowBackward {
  PolicyScores<A> scores;
  const A* dy;
  A* dx;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t r) const {
    A* const to = dx + r * scores.width;
    if (!scores.counts(r)) {
      for (std::int64_t i = 0; i < scores.width; ++i) to[i] = 0;
      return;
    }
    if (scores.function == PolicyLossKind::square) {
      to[0] = dy[r] * (scores.x[r] - scores.wanted[r]);
      return;
    }
    const PolicyRow<A> row = scores.row(r);
    const A log_sum = row.log_sum_exp();
    if (scores.function == PolicyLossKind::entropy) {
      const A entropy = row.entropy(log_sum);
      for (std::int64_t i = 0; i < scores.width; ++i) {
        const A log_probability = row.x[i] - log_sum;
        to[i] = -dy[r] * std::exp(log_probability) * (log_probability + entropy);
      }
      return;
    }
    // Outside the clipping range, on the side where the loss is constant, the gradient is 0.
    const A ratio = scores.ratio(r, log_sum);
    const A free = ratio * scores.advantage[r];
    const A held = scores.clipped(ratio) * scores.advantage[r];
    const A by_log_probability = free > held ? A{0} : -free * dy[r];
    for (std::int64_t i = 0; i < scores.width; ++i) {
      const A own = i == scores.action[r] ? A{1} : A{0};
      to[i] = by_log_probability * (own - std::exp(row.x[i] - log_sum));
    }
  }
};

// Cost of an exponential in elements of a simple loop, approximately, used to choose the number of
// threads.
constexpr std::int64_t cost_of_score = 16;

}  // namespace

void policy_loss(Backend backend, const PolicyLoss& score) {
  check(score);
  with_accumulator_type(score.x.dtype(), [&]<typename A>(TypeTag<A>) {
    parallel_rows(backend,
                  score.x.shape()[0],
                  cost_of_score * score.x.shape()[1],
                  ScoreRow<A>{PolicyScores<A>(score), score.y.data<A>()});
  });
}

void policy_score_backward(Backend backend, const PolicyScoreGradient& gradient) {
  check(gradient);
  const PolicyLoss& score = gradient.forward;
  with_accumulator_type(score.x.dtype(), [&]<typename A>(TypeTag<A>) {
    parallel_rows(
        backend,
        score.x.shape()[0],
        2 * cost_of_score * score.x.shape()[1],
        ScoreRowBackward<A>{PolicyScores<A>(score), gradient.dy.data<A>(), gradient.dx.data<A>()});
  });
}

}  // namespace longspan
