// Attention over projected keys and values (lucidrains/linformer).
#include <gtest/gtest.h>

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/linformer_attention.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

const std::string layer_name = "attention";

const Parameter& parameter_of(const Parameters& parameters, const std::string& name) {
  return parameters.named(layer_name + "/" + name);
}

// The reference shares one head of keys or values among all heads: its rows repeat per head, and
// its gradient is the sum.
void load_repeated(const GoldenFile& file,
                   const std::string& weight,
                   const Parameter& parameter,
                   std::int64_t times) {
  const Tensor& rows = file.numbers("weights/" + weight);
  ASSERT_EQ(rows.elements() * times, parameter.master.elements()) << weight;
  for (std::int64_t i = 0; i < times; ++i)
    std::copy_n(rows.data<double>(),
                rows.elements(),
                parameter.master.data<double>() + i * rows.elements());
}

void expect_summed_gradient(const GoldenFile& file,
                            const std::string& weight,
                            const Parameter& parameter,
                            std::int64_t times) {
  const Tensor gradient = gradient_of(parameter.variable);
  const Tensor sum = Tensor::zeros({gradient.elements() / times}, DType::f64, gradient.device());
  for (std::int64_t i = 0; i < gradient.elements(); ++i)
    sum.data<double>()[i % sum.elements()] += gradient.data<double>()[i];
  expect_gradient(file, weight, sum);
}

}  // namespace

void check_linformer(const GoldenFile& file) {
  const std::int64_t width = file.integer("d_model"), heads = file.integer("heads");
  const bool one_head = file.flag("one_kv_head"), shared = file.flag("share_kv");
  Parameters parameters(testing::backend_device(), DType::f64, ProcessMesh());
  const Scope scope = Scope(parameters).child(layer_name);
  const LinformerAttention::Options options = {
      .linformer = {.keys = file.integer("k"),
                    .sharing = shared ? LinformerSharing::keys_values : LinformerSharing::heads},
      .longest = file.integer("max_len"),
      .heads = heads};
  const std::int64_t rows = file.numbers("weights/to_q_weight").shape()[0];
  const MultiHeadAttention layer(scope,
                                 {.width = width, .heads = heads, .dim = rows / heads},
                                 std::make_unique<LinformerAttention>(scope, options));
  parameters.allocate(Random(0));
  struct Loaded {
    std::string weight;
    std::string parameter;
    std::int64_t times = 1;
  };
  const std::int64_t times = one_head ? heads : 1;
  std::vector<Loaded> weights = {{"to_q_weight", "query/weight"},
                                 {"to_k_weight", "key/weight", times},
                                 {"to_out_weight", "out/weight"},
                                 {"to_out_bias", "out/bias"},
                                 {"proj_k", "linformer_keys"}};
  // With shared sequence projections the values of the reference are its keys.
  if (!shared || file.has("weights/to_v_weight"))
    weights.push_back({"to_v_weight", "value/weight", times});
  if (!shared) weights.push_back({"proj_v", "linformer_values"});
  for (const Loaded& each : weights)
    load_repeated(file, each.weight, parameter_of(parameters, each.parameter), each.times);
  const bool values_are_keys = shared && !file.has("weights/to_v_weight");
  if (values_are_keys)
    load_repeated(file, "to_k_weight", parameter_of(parameters, "value/weight"), times);
  parameters.refresh_compute();

  const Variable x = leaf_of(file, "inputs/x");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  AttentionContext context;
  context.mask.rules = masks::everything();
  const Variable y = layer(x, Variable(), context, ForwardContext());
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, "x", gradient_of(x));
  if (values_are_keys) {
    const Tensor sum = gradient_of(parameter_of(parameters, "key/weight").variable).clone();
    const Tensor values = gradient_of(parameter_of(parameters, "value/weight").variable);
    for (std::int64_t i = 0; i < sum.elements(); ++i)
      sum.data<double>()[i] += values.data<double>()[i];
    parameter_of(parameters, "key/weight").gradient.copy_from(sum);
  }
  for (const Loaded& each : weights)
    expect_summed_gradient(file, each.weight, parameter_of(parameters, each.parameter), each.times);
}

}  // namespace longspan::golden
