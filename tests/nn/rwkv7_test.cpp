// RWKV-7 time mixing by token, with plain loops over the formulas of the authors' code.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/rwkv7_layer.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan {
namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t heads = 2, dim = 3, width = 5, features = heads * dim, time = 9, layers = 3;

Numbers numbers_of(const Tensor& x) {
  const Tensor here = x.to_host();
  const auto values = here.span<double>();
  return {values.begin(), values.end()};
}

// A layer, and its weights by name.
struct Layer {
  Layer(std::int64_t index, std::uint64_t seed)
      : parameters(testing::backend_device(), DType::f64, ProcessMesh()),
        attention(
            Scope(parameters),
            {.width = width, .heads = heads, .dim = dim, .bias = false},
            std::make_unique<Rwkv7Op>(
                Scope(parameters),
                Rwkv7Op::Options{
                    .rwkv7 = {.decay_rank = 4, .rate_rank = 2, .value_rank = 3, .gate_rank = 5},
                    .heads = heads,
                    .dim = dim,
                    .width = width,
                    .layer = index,
                    .layers = layers})) {
    parameters.allocate(Random(seed));
    // Also the ones that start equal for all channels.
    std::uint64_t element = 0;
    for (const auto& parameter : parameters.all())
      for (double& value : parameter->variable.value().span<double>())
        value += 0.3 * Random(seed + 1).normal_at(element++);
  }
  Numbers weight(const std::string& name) const {
    return numbers_of(parameters.named(name).variable.value());
  }

  Parameters parameters;
  MultiHeadAttention attention;
};

// y[i] = sum of w[i, j] x[j].
Numbers times(const Numbers& w, const Numbers& x) {
  Numbers y(w.size() / x.size());
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
  return y;
}
Numbers each(const Numbers& x, const std::function<double(std::size_t, double)>& f) {
  Numbers y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = f(i, x[i]);
  return y;
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Mixed {
  std::vector<Numbers> rows;   // output
  std::vector<Numbers> value;  // of layer 0, which later layers read
};

// x: rows of one sequence. first: `value` of layer 0; empty: this is layer 0.
Mixed reference(const Layer& layer,
                const std::vector<Numbers>& x,
                const std::vector<bool>& starts,
                const std::vector<Numbers>& first) {
  Mixed result;
  std::vector<Numbers> state;  // by head: [value, key], as in the authors' code
  for (std::size_t t = 0; t < x.size(); ++t) {
    if (starts[t]) state.assign(heads, Numbers(dim * dim));
    const Numbers before = starts[t] ? Numbers(width) : x[t - 1];
    const auto mixed = [&](const char* name) {
      const Numbers shift = layer.weight(std::string(name) + "/shift");
      return each(x[t],
                  [&](std::size_t i, double now) { return now + shift[i] * (before[i] - now); });
    };
    const auto low = [&](const std::string& name, const Numbers& from) {
      return times(layer.weight(name + "/down"), from);
    };
    const auto logits = [&](const std::string& name, const Numbers& from) {
      const Numbers bias = layer.weight(name + "/bias");
      return each(times(layer.weight(name + "/weight"), from),
                  [&](std::size_t i, double y) { return bias[i] + y; });
    };
    const Numbers r = times(layer.weight("query/weight"), mixed("query"));
    Numbers k = times(layer.weight("key/weight"), mixed("key"));
    Numbers v = times(layer.weight("value/weight"), mixed("value"));
    if (first.empty()) {
      result.value.push_back(v);
    } else {
      const Numbers share = logits("value_residual", low("value_residual", mixed("value")));
      v = each(v, [&](std::size_t i, double own) {
        return own + (first[t][i] - own) * sigmoid(share[i]);
      });
    }
    const Numbers hidden =
        each(low("decay", mixed("decay")), [](std::size_t, double y) { return std::tanh(y); });
    const Numbers w = each(logits("decay", hidden), [](std::size_t, double y) {
      return std::exp(-std::exp(-std::log1p(std::exp(-y)) - 0.5));
    });
    const Numbers a = each(logits("rate", low("rate", mixed("rate"))),
                           [](std::size_t, double y) { return sigmoid(y); });
    const Numbers open = each(low("output_gate", mixed("output_gate")),
                              [](std::size_t, double y) { return sigmoid(y); });
    const Numbers gate = times(layer.weight("output_gate/weight"), open);

    const Numbers key_scale = layer.weight("key_scale"), rate_scale = layer.weight("rate_scale");
    Numbers kk = each(k, [&](std::size_t i, double y) { return y * key_scale[i]; });
    for (std::int64_t h = 0; h < heads; ++h) {
      double norm = 0;
      for (std::int64_t i = h * dim; i < (h + 1) * dim; ++i)
        norm += kk[static_cast<std::size_t>(i)] * kk[static_cast<std::size_t>(i)];
      for (std::int64_t i = h * dim; i < (h + 1) * dim; ++i)
        kk[static_cast<std::size_t>(i)] /= std::sqrt(norm);
    }
    k = each(k, [&](std::size_t i, double y) { return y * (1 + (a[i] - 1) * rate_scale[i]); });

    const Numbers gain = layer.weight("output_norm/weight"),
                  bias = layer.weight("output_norm/bias"), bonus = layer.weight("bonus");
    Numbers y(features);
    for (std::size_t h = 0; h < heads; ++h) {
      Numbers& s = state[h];
      const std::size_t at = h * dim;
      Numbers next(dim * dim), out(dim);
      double mean = 0, variance = 0, own = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        double read = 0;
        for (std::size_t j = 0; j < dim; ++j) read -= s[i * dim + j] * kk[at + j];
        for (std::size_t j = 0; j < dim; ++j) {
          next[i * dim + j] =
              s[i * dim + j] * w[at + j] + read * kk[at + j] * a[at + j] + v[at + i] * k[at + j];
          out[i] += next[i * dim + j] * r[at + j];
        }
        mean += out[i] / dim;
        own += r[at + i] * k[at + i] * bonus[at + i];
      }
      for (const double value : out) variance += (value - mean) * (value - mean) / dim;
      for (std::size_t i = 0; i < dim; ++i)
        y[at + i] = ((out[i] - mean) / std::sqrt(variance + dim * 1e-5) * gain[at + i] +
                     bias[at + i] + own * v[at + i]) *
                    gate[at + i];
      s = next;
    }
    result.rows.push_back(times(layer.weight("out/weight"), y));
  }
  return result;
}

TEST(Rwkv7, MatchesTheFormulasByToken) {
  const Layer first(0, 1), second(2, 7);
  Numbers values(time * width);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = Random(3).normal_at(i);
  const Variable x(Tensor::from<double>(values, {1, time, width}, testing::backend_device()));
  std::vector<Numbers> rows;
  for (std::size_t t = 0; t < time; ++t)
    rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(t * width),
                      values.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));

  for (const bool has_documents : {false, true}) {
    SCOPED_TRACE(has_documents);
    std::vector<bool> starts(time);
    starts[0] = true;
    AttentionContext context;
    context.mask.rules = masks::causal();
    if (has_documents) {
      starts[4] = starts[5] = true;
      context.mask.max_lookback =
          Tensor::from<std::int64_t>(std::vector<std::int64_t>{0, 1, 2, 3, 0, 0, 1, 2, 3},
                                     {1, time},
                                     testing::backend_device());
    }
    context.first_value = first.attention.first_value(x, context, ForwardContext());
    const Mixed expected = reference(first, rows, starts, {});
    const Mixed later = reference(second, rows, starts, expected.value);
    const auto expect_rows = [&](const Layer& layer, const std::vector<Numbers>& expected_rows) {
      const Numbers found =
          numbers_of(layer.attention(x, Variable(), context, ForwardContext()).value());
      ASSERT_EQ(found.size(), values.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected_rows[i / width][i % width], 1e-12) << i;
    };
    expect_rows(first, expected.rows);
    expect_rows(second, later.rows);
  }
}

TEST(Rwkv7, RejectsModelsWithoutValuesOfTheFirstLayer) {
  const auto problem = [](std::vector<std::string> kinds, const AttentionBuildOptions& setting) {
    return problem_of({.kinds = std::move(kinds)}, setting);
  };
  AttentionBuildOptions setting = {.layers = 2, .heads = heads, .dim = dim, .width = width};
  EXPECT_EQ(problem({"rwkv7"}, setting), "");
  EXPECT_EQ(problem({"rwkv7", "full"}, setting), "");
  EXPECT_EQ(
      problem({"full", "rwkv7"}, setting),
      "model.attention.layer_types: rwkv7 layers read the values of the first layer; expected "
      "rwkv7 as the first element");
  setting.value_residual = false;
  EXPECT_EQ(
      problem({"rwkv7"}, setting),
      "model.attention.layer_types: rwkv7 reads the values of the first layer, which requires "
      "layers that run once and have no cross-attention; use it in a decoder");
  setting.causal = false;
  EXPECT_EQ(problem({"rwkv7"}, setting),
            "model.attention.layer_types: rwkv7 requires a causal model; use it in a decoder");
  setting = {.layers = 2, .heads = heads, .dim = dim, .width = width, .memory = true};
  EXPECT_EQ(problem({"rwkv7"}, setting),
            "model.attention.layer_types: rwkv7 does not support model.mem_len");
}

}  // namespace
}  // namespace longspan
