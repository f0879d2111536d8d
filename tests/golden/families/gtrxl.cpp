// GTrXL: the gates, and one layer (Transformers-RL). Its data are time-major.
#include <gtest/gtest.h>

#include "framework/autograd/ops.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/relative_attention.h"
#include "framework/nn/residual/gated.h"
#include "models/stack.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

// A parameter that is the sum of several biases in the file and a constant.
struct BiasSum {
  std::string parameter;
  std::vector<std::string> weights;
  double sign = 1;
  double constant = 0;

  void load(const GoldenFile& file, const Parameters& parameters) const {
    const Tensor& bias = parameters.named(parameter).master;
    for (std::int64_t i = 0; i < bias.elements(); ++i) bias.data<double>()[i] = constant;
    for (const std::string& weight : weights)
      on(bias.device(),
         [&](auto backend) { accumulate(backend, sign, file.numbers("weights/" + weight), bias); });
  }
  void expect_gradients(const GoldenFile& file, const Parameters& parameters) const {
    const Tensor gradient = gradient_of(parameters.named(parameter).variable).clone();
    on(gradient.device(), [&](auto backend) { scale(backend, sign, gradient, gradient); });
    for (const std::string& weight : weights) expect_gradient(file, weight, gradient);
  }
};

// Maps the weights of a gate: `prefix` in the file, `place` in the parameters.
struct GateNames {
  std::vector<WeightName> weights;
  std::vector<BiasSum> biases;

  void add_gru(const std::string& prefix, const std::string& place, double bias) {
    const std::pair<const char*, std::string> parts[] = {
        {"r", "reset"}, {"z", "update"}, {"g", "candidate"}};
    for (const auto& [letter, part] : parts) {
      const std::string w = prefix + "w" + letter, u = prefix + "u" + letter;
      weights.push_back({w + "_weight", {place + part + "/change/weight"}});
      weights.push_back({u + "_weight", {place + part + "/stream/weight"}});
      const std::vector<std::string> both = {w + "_bias", u + "_bias"};
      if (part == "update")  // z = s(W y + U x - b): the file adds its bias
        biases.push_back({place + "bias", both, -1, bias});
      else
        biases.push_back({place + part + "/bias", both});
    }
  }
  void load(const GoldenFile& file, const Parameters& parameters) const {
    std::size_t loaded = biases.size();
    for (const BiasSum& bias : biases) bias.load(file, parameters);
    for (const auto& [weight, names] : weights) {
      golden::load(file, weight, parameters, names);
      loaded += names.size();
    }
    EXPECT_EQ(loaded, parameters.all().size()) << file.name();
  }
  void expect_gradients(const GoldenFile& file, const Parameters& parameters) const {
    expect_weight_gradients(file, weights, parameters);
    for (const BiasSum& bias : biases) bias.expect_gradients(file, parameters);
  }
};

// Gate bias in the reference code, for files without the attribute.
constexpr double usual_gate_bias = 0.1;

}  // namespace

void check_gate(const GoldenFile& file) {
  const std::string kind = file.name().substr(std::string("gtrxl-gate_").size());
  const std::map<std::string, GateKind> kinds = {{"gru", GateKind::gru},
                                                 {"input", GateKind::input},
                                                 {"output", GateKind::output},
                                                 {"highway", GateKind::highway},
                                                 {"sigtanh", GateKind::sigtanh}};
  const auto found =
      std::ranges::find_if(kinds, [&](const auto& named) { return kind.starts_with(named.first); });
  if (found == kinds.end()) throw DataError("{}: there is no gate \"{}\"", file.name(), kind);
  const bool gru = found->second == GateKind::gru;
  const std::int64_t width = file.integer("d");
  Parameters parameters(testing::backend_device(), DType::f64, ProcessMesh());
  const Gate::Options options = {.kind = found->second, .width = width, .biases = gru};
  const Gate gate(Scope(parameters), options);
  parameters.allocate(Random(0));
  GateNames names;
  if (gru) {
    names.add_gru("", "", file.real("bg"));
  } else {
    names.weights.push_back({"wg_weight", {"weight"}});
    if (found->second == GateKind::sigtanh)
      names.weights.push_back({"ug_weight", {"candidate/weight"}});
    if (found->second != GateKind::input) names.weights.push_back({"bg", {"bias"}});
  }
  names.load(file, parameters);

  const Variable x = leaf_of(file, "inputs/x"), y = leaf_of(file, "inputs/y");
  expect_extent(file, "len", x.shape()[0]);
  expect_extent(file, "batch", x.shape()[1]);
  const Variable g = gate(x, y);
  expect_output(file, "g", g.value());
  backward({g}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, "x", gradient_of(x));
  expect_gradient(file, "y", gradient_of(y));
  names.expect_gradients(file, parameters);
}

void check_gated_layer(const GoldenFile& file) {
  const bool gated = file.flag("gating");
  ModelOptions options = {.layers = 1,
                          .width = file.integer("d_model"),
                          .heads = file.integer("heads"),
                          .head_width = file.integer("d_head"),
                          .feed_forward = file.integer("d_ff"),
                          .norm = NormPosition::pre,
                          .residual = ResidualKind::gated,
                          .dropout = 0};
  options.gate = {.kind = gated ? GateKind::gru : GateKind::sum, .biases = gated};
  Parameters parameters(testing::backend_device(), DType::f64, ProcessMesh());
  const auto mechanism = [&](const Scope& scope, std::int64_t) {
    return std::make_unique<RelativeAttention>(
        scope,
        RelativeAttention::Options{
            .width = options.width, .heads = options.heads, .dim = options.head_dim()},
        PositionBiases(scope, options.heads, options.head_dim(), {}));
  };
  const std::vector<Layer> layers =
      make_layers(Scope(parameters),
                  {.common = options, .attention_bias = false, .initial_out = {}},
                  mechanism);
  parameters.allocate(Random(0));
  const std::string attention = "layers/0/attention/", feed_forward = "layers/0/feed_forward/";
  GateNames names;
  names.weights = {{"u", {attention + "content_bias"}},
                   {"v", {attention + "position_bias"}},
                   {"mha_linear_q_weight", {attention + "query/weight"}},
                   {"mha_linear_kv_weight", {attention + "key/weight", attention + "value/weight"}},
                   {"mha_linear_p_weight", {attention + "position/weight"}},
                   {"mha_lout_weight", {attention + "out/weight"}}};
  for (const std::string part : {"weight", "bias"}) {
    names.weights.push_back({"norm1_" + part, {attention + "norm/" + part}});
    names.weights.push_back({"norm2_" + part, {feed_forward + "norm/" + part}});
    names.weights.push_back({"ff_ff_0_" + part, {feed_forward + "in/" + part}});
    names.weights.push_back({"ff_ff_3_" + part, {feed_forward + "out/" + part}});
  }
  if (gated) {
    names.add_gru("gate1_", attention + "gate/", usual_gate_bias);
    names.add_gru("gate2_", feed_forward + "gate/", usual_gate_bias);
  }
  names.load(file, parameters);

  const Variable x = Variable::leaf(exchanged_leading_axes(file.numbers("inputs/x")));
  // A layer without memory has no memory input, or an empty one.
  const bool remembers = file.has("inputs/memory") && file.numbers("inputs/memory").elements() > 0;
  Variable memory;
  if (remembers) memory = Variable::leaf(exchanged_leading_axes(file.numbers("inputs/memory")));
  const std::int64_t remembered = remembers ? memory.shape()[1] : 0;
  // The file starts at the largest relative position, the library at 0.
  const Variable distances = Variable::leaf(reversed(file.numbers("inputs/r")));
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  expect_extent(file, "mem_now", remembered);
  AttentionContext context;
  context.mask.query_begin = remembered;
  context.distances = distances;
  const GatedResidual residual({.relu = false, .normed_memory = false});
  StackInputs reads = {.context = context};
  if (remembers) reads.memories = {memory};
  const Variable y = residual.run(layers, x, reads, ForwardContext());
  expect_output(file, "y", exchanged_leading_axes(y.value()));
  backward({y}, {exchanged_leading_axes(file.numbers("inputs/upstream"))});
  expect_gradient(file, "x", exchanged_leading_axes(gradient_of(x)));
  if (file.has("gradients/memory"))
    expect_gradient(
        file,
        "memory",
        remembers ? exchanged_leading_axes(gradient_of(memory)) : file.numbers("inputs/memory"));
  expect_gradient(file, "r", reversed(gradient_of(distances)));
  names.expect_gradients(file, parameters);
}

}  // namespace longspan::golden
