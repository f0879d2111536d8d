// Adaptive span attention against its definition (Sukhbaatar et al. 2019).
#include "framework/nn/attention/adaptive_span.h"

#include "tests/nn/attention_kinds_testing.h"
#include "tests/nn/layer_testing.h"

namespace longspan::adaptive_span_test {
namespace {

using namespace testing::kinds;
using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

struct Attended {
  Parameters parameters = testing::one_process_parameters();
  AdaptiveSpanOptions form;
  AdaptiveSpans spans;
  AdaptiveSpanAttentionOp attention;

  explicit Attended(const AdaptiveSpanOptions& asked)
      : form(asked),
        spans(Scope(parameters).child("a"), form, heads),
        attention(form, spans, span_positions(Scope(parameters), form, dim), 0) {
    parameters.allocate(Random(1));
  }
  // Sets the spans, in keys.
  void set(const Values& z) {
    for (std::size_t h = 0; h < z.size(); ++h)
      parameters.named("a/span").master.data<double>()[h] = z[h] / static_cast<double>(form.limit);
  }
  double span(std::int64_t h) const {
    return parameters.named("a/span").master.data<double>()[h] * static_cast<double>(form.limit);
  }
  const double* position(std::int64_t x) const {
    return parameters.named("span_positions").master.data<double>() + (form.limit - 1 - x) * dim;
  }
  Variable operator()(const std::vector<Variable>& inputs) const {
    return attention({.query = inputs[0], .key = inputs[1], .value = inputs[2], .heads = all_heads},
                     {},
                     ForwardContext());
  }
};

std::vector<Tensor> inputs_of(std::int64_t time) {
  std::vector<Tensor> inputs;
  for (const std::uint64_t seed : {1, 2, 3})
    inputs.push_back(random_tensor({batch, time, heads, dim}, seed));
  return inputs;
}

Values by_definition(const Attended& a, const std::vector<Tensor>& inputs) {
  const std::int64_t time = inputs[0].shape()[1];
  const Tensor y = Tensor::zeros(inputs[0].shape(), DType::f64, backend_device());
  const auto at = [&](const Tensor& x, std::int64_t b, std::int64_t t, std::int64_t h) {
    return x.data<double>() + ((b * time + t) * heads + h) * dim;
  };
  const auto ramp = static_cast<double>(a.form.ramp);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t p = 0; p < time; ++p) {
        double total = 0;
        const std::int64_t window = a.spans.windows()[static_cast<std::size_t>(h)];
        for (std::int64_t x = 0; x < window; ++x) {
          const std::int64_t k = p - a.form.nearest() - x;
          if (k < 0) break;
          const double* const query = at(inputs[0], b, p, h);
          const double score =
              dot(query, at(inputs[1], b, k, h), dim) + dot(query, a.position(x), dim);
          const double soft =
              std::clamp((ramp + a.span(h) - static_cast<double>(x)) / ramp, 0.0, 1.0);
          const double power = std::exp(score / std::sqrt(static_cast<double>(dim)));
          const double weight = soft * power;
          total += weight + 1e-8 * power;  // as in the authors' code
          add_to(at(y, b, p, h), weight, at(inputs[2], b, k, h), dim);
        }
        for (std::int64_t e = 0; e < dim; ++e)
          at(y, b, p, h)[e] = total > 0 ? at(y, b, p, h)[e] / total : 0;
      }
  return values_of(y);
}

TEST(AdaptiveSpanAttention, MatchesDefinitionForAnySpan) {
  const std::vector<Tensor> inputs = inputs_of(150);
  for (const bool self : {false, true})
    for (const std::int64_t limit : {1, 7, 100, 300}) {
      SCOPED_TRACE(fmt::format("limit {}{}", limit, self ? ", with its own key" : ""));
      Attended a({.limit = limit, .ramp = 5, .self = self});
      const auto most = static_cast<double>(limit);
      a.set({0, most, most / 3, std::min(most, 61.5)});
      const Variable y = a({Variable(inputs[0]), Variable(inputs[1]), Variable(inputs[2])});
      expect_close(values_of(y.value()), by_definition(a, inputs), 1e-12);
    }
}

TEST(AdaptiveSpanAttention, GradientsMatchNumericalGradients) {
  for (const bool self : {false, true}) {
    Attended a({.limit = 8, .ramp = 3, .self = self});
    a.set({0.7, 7.6, 2.3, 4.1});  // no key at a kink of the ramp
    testing::expect_layer_gradients(a.parameters, a, inputs_of(9));
  }
}

TEST(AdaptiveSpanAttention, WindowsFollowSpans) {
  Attended a({.limit = 1000, .ramp = 32});
  a.set({0, 33, 500, 1000});
  EXPECT_EQ(a.spans.windows(), (std::vector<std::int64_t>{64, 128, 576, 1000}));
  EXPECT_EQ(a.spans.max_window_length(), 1000);
  EXPECT_EQ(a.attention.max_distance(), 1000);
  EXPECT_NEAR(a.spans.extent().sum, 1533, 1e-9);
  EXPECT_NEAR(a.spans.extent().longest, 1000, 1e-9);
}

TEST(AdaptiveSpanAttention, KeysBeyondRampDoNotAffectSpanGradients) {
  Attended a({.limit = 50, .ramp = 4});
  a.set({3, 3, 3, 3});
  const std::vector<Tensor> inputs = inputs_of(40);
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.push_back(Variable::leaf(input.clone()));
  // Spans that end inside the sequence have a gradient.
  backward(sum(a(leaves)));
  const Values inside = values_of(a.parameters.named("a/span").gradient);
  for (const double gradient : inside) EXPECT_NE(gradient, 0);
  Attended full({.limit = 50, .ramp = 4});
  full.set({45, 45, 45, 45});  // every key is before the ramp
  backward(sum(full({Variable(inputs[0]), Variable(inputs[1]), Variable(inputs[2])})));
  for (const double gradient : values_of(full.parameters.named("a/span").gradient))
    EXPECT_EQ(gradient, 0);
}

}  // namespace
}  // namespace longspan::adaptive_span_test
