// Multi-head attention (PyTorch's nn.MultiheadAttention).
#include "framework/nn/attention/attention.h"

#include "framework/nn/attention/softmax_attention.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

struct Kind {
  bool causal;
  bool padding;
  bool cross;
};

Kind kind_of(const GoldenFile& file) {
  const std::string kind = file.name().substr(std::string("attention-").size());
  if (kind == "causal") return {true, false, false};
  if (kind == "padding") return {false, true, false};
  if (kind == "causal_padding") return {true, true, false};
  if (kind == "cross") return {false, file.has("inputs/key_padding_mask"), true};
  throw DataError("{}: there is no such case of attention", file.name());
}

// Probabilities [batch, heads, time, keys]: attention over unit-vector values.
Tensor probabilities(const Parameters& parameters,
                     const Tensor& asking,
                     const Tensor& source,
                     std::int64_t heads,
                     const AttentionMask& mask) {
  const auto project = [&](const std::string& name, const Tensor& x) {
    const Variable projected = linear(Variable(x),
                                      parameters.named("attention/" + name + "/weight").variable,
                                      parameters.named("attention/" + name + "/bias").variable);
    const Shape& shape = projected.shape();
    return reshape(projected, {shape[0], shape[1], heads, shape[2] / heads});
  };
  const std::int64_t batch = source.shape()[0];
  const std::int64_t keys = source.shape()[1];
  const Tensor unit = Tensor::zeros({batch, keys, heads, keys}, DType::f64, source.device());
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t j = 0; j < keys; ++j)
      for (std::int64_t h = 0; h < heads; ++h)
        unit.data<double>()[((b * keys + j) * heads + h) * keys + j] = 1;
  const Variable out =
      attention(project("query", asking), project("key", source), Variable(unit), mask);
  const std::int64_t time = asking.shape()[1];
  const Tensor result = Tensor::empty({batch, heads, time, keys}, DType::f64, source.device());
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 0; i < time; ++i)
      for (std::int64_t h = 0; h < heads; ++h)
        std::copy_n(out.value().data<double>() + ((b * time + i) * heads + h) * keys,
                    keys,
                    result.data<double>() + ((b * heads + h) * time + i) * keys);
  return result;
}

}  // namespace

void check_attention(const GoldenFile& file) {
  const Kind kind = kind_of(file);
  const std::int64_t width = file.integer("d_model");
  const std::int64_t heads = file.integer("heads");
  Parameters parameters(testing::backend_device(), DType::f64, ProcessMesh());
  const MultiHeadAttention layer(Scope(parameters).child("attention"),
                                 {.width = width, .heads = heads, .dim = width / heads},
                                 std::make_unique<SoftmaxAttention>(0));
  parameters.allocate(Random(0));
  const std::vector<WeightName> weights = {
      {"in_proj_weight",
       {"attention/query/weight", "attention/key/weight", "attention/value/weight"}},
      {"in_proj_bias", {"attention/query/bias", "attention/key/bias", "attention/value/bias"}},
      {"out_proj_weight", {"attention/out/weight"}},
      {"out_proj_bias", {"attention/out/bias"}}};
  load(file, weights, parameters);

  const Variable x = leaf_of(file, kind.cross ? "inputs/query" : "inputs/x");
  const Variable source = kind.cross ? leaf_of(file, "inputs/memory") : x;
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "tgt_len", x.shape()[1]);
  if (kind.cross) expect_extent(file, "src_len", source.shape()[1]);
  AttentionContext context;
  if (!kind.causal) context.mask.rules = Mask();
  if (kind.padding) context.mask.key_padding = mask_of(file, "inputs/key_padding_mask");
  const Variable y = kind.cross ? layer(x, EncoderOutput{.rows = source}, context, ForwardContext())
                                : layer(x, Variable(), context, ForwardContext());
  expect_output(file, "y", y.value());
  expect_output(
      file, "attention", probabilities(parameters, x.value(), source.value(), heads, context.mask));

  backward({y}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, kind.cross ? "query" : "x", gradient_of(x));
  if (kind.cross) expect_gradient(file, "memory", gradient_of(source));
  expect_weight_gradients(file, weights, parameters);
}

}  // namespace longspan::golden
