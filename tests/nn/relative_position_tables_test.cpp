// Softmax attention with relative position tables against the definition (Shaw et al. 2018).
#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/attention_kinds_testing.h"
#include "tests/nn/layer_testing.h"

namespace longspan::relative_position_tables_test {
namespace {

using namespace testing::kinds;
using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t reach = 2;

struct Attended {
  Parameters parameters = testing::one_process_parameters();
  RelativePositionTables tables{Scope(parameters).child("a"), {.max_distance = reach, .dim = dim}};
  std::unique_ptr<AttentionOp> mechanism;

  Attended(const AttentionOptions& options, bool causal)
      : mechanism(std::make_unique<SoftmaxAttention>(
            0, pattern_of(options, causal), RelativeTerms{.tables = tables})) {
    testing::allocate_randomly(parameters, 1);
  }
  const double* row(const char* table, std::int64_t p, std::int64_t k) const {
    const std::int64_t r = std::clamp(k - p, -reach, reach) + reach;
    return parameters.named(table).master.data<double>() + r * dim;
  }
};

AttentionContext context_of(bool causal) {
  AttentionContext context;
  if (!causal) context.mask.rules = masks::everything();
  return context;
}

Values by_definition(const Attended& a,
                     const std::vector<Tensor>& inputs,
                     const Sees& sees,
                     bool causal) {
  const std::int64_t time = inputs[0].shape()[1];
  const Tensor y = Tensor::zeros(inputs[0].shape(), DType::f64, backend_device());
  const auto at = [&](const Tensor& x, std::int64_t b, std::int64_t t, std::int64_t h) {
    return x.data<double>() + ((b * time + t) * heads + h) * dim;
  };
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t p = 0; p < time; ++p) {
        double total = 0;
        const double* const query = at(inputs[0], b, p, h);
        for (std::int64_t k = 0; k < (causal ? p + 1 : time); ++k) {
          if (!sees(h, p, k)) continue;
          const double score = dot(query, at(inputs[1], b, k, h), dim) +
                               dot(query, a.row("a/relative_keys", p, k), dim);
          const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
          total += weight;
          add_to(at(y, b, p, h), weight, at(inputs[2], b, k, h), dim);
          add_to(at(y, b, p, h), weight, a.row("a/relative_values", p, k), dim);
        }
        for (std::int64_t e = 0; e < dim; ++e) at(y, b, p, h)[e] /= total;
      }
  return values_of(y);
}

std::vector<Tensor> inputs_of(std::int64_t time) {
  std::vector<Tensor> inputs;
  for (const std::uint64_t seed : {1, 2, 3})
    inputs.push_back(random_tensor({batch, time, heads, dim}, seed));
  return inputs;
}

Variable attended(const Attended& a, const std::vector<Variable>& inputs, bool causal) {
  return (*a.mechanism)(
      {.query = inputs[0], .key = inputs[1], .value = inputs[2], .heads = all_heads},
      context_of(causal),
      ForwardContext());
}

struct Case {
  std::string kinds;
  Sees sees;
};

std::vector<Case> cases() {
  return {
      {"full", sees::causal()},
      {"strided", sees::strided(4)},  // not folded with relative positions
      {"sliding_window+strided", sees::either(sees::local(2), sees::strided(4))},
      {"fixed/dilated",
       sees::by_head({sees::either(sees::block(4), sees::summary(4, 1)), sees::dilated(2, 3)})}};
}

AttentionOptions options_of(const Case& c) {
  return with(c.kinds, {.sliding_window = {3}, .dilation = 3, .stride = 4, .summary = 1});
}

TEST(RelativePositionTables, MatchesDefinitionForEachAttentionKind) {
  for (const Case& c : cases())
    for (const bool causal : {true, false})
      for (const std::int64_t time : {1, 7, 70}) {
        SCOPED_TRACE(c.kinds + (causal ? ", causal, " : ", ") + std::to_string(time));
        const Attended a(options_of(c), causal);
        const std::vector<Tensor> inputs = inputs_of(time);
        const Variable y =
            attended(a, {Variable(inputs[0]), Variable(inputs[1]), Variable(inputs[2])}, causal);
        expect_close(values_of(y.value()), by_definition(a, inputs, c.sees, causal), 1e-12);
      }
}

TEST(RelativePositionTables, GradientMatchesFiniteDifferences) {
  for (const Case& c : cases())
    for (const bool causal : {true, false}) {
      SCOPED_TRACE(c.kinds + (causal ? ", causal" : ""));
      Attended a(options_of(c), causal);
      testing::expect_layer_gradients(
          a.parameters,
          [&](const std::vector<Variable>& inputs) { return attended(a, inputs, causal); },
          inputs_of(9));
    }
}

// Global positions have separate projections but the same tables.
TEST(RelativePositionTables, AppliesToSeparateGlobalProjections) {
  AttentionOptions options = with("global_local", {.sliding_window = {3}});
  options.global = {0, 5};
  const Attended one(options, false);
  options.global_projections = true;
  const Attended two(options, false);
  std::vector<Variable> inputs;
  for (const Tensor& input : inputs_of(9)) inputs.emplace_back(input);
  const ProjectedQKV projected = {
      .query = inputs[0],
      .key = inputs[1],
      .value = inputs[2],
      .heads = all_heads,
      .global = ProjectedQKV::Global{.query = inputs[0], .key = inputs[1], .value = inputs[2]}};
  expect_close(values_of((*two.mechanism)(projected, context_of(false), ForwardContext()).value()),
               values_of(attended(one, inputs, false).value()),
               1e-12);
}

}  // namespace
}  // namespace longspan::relative_position_tables_test
