// An encoder layer, pre-norm or post-norm (PyTorch's nn.TransformerEncoderLayer).
#include "framework/nn/attention/softmax_attention.h"
#include "models/stack.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {

void check_encoder_layer(const GoldenFile& file) {
  ModelOptions options = {.layers = 1,
                          .width = file.integer("d_model"),
                          .heads = file.integer("heads"),
                          .feed_forward = file.integer("d_ff"),
                          .activation = activation_of(file),
                          .norm = file.flag("pre_norm") ? NormPosition::pre : NormPosition::post,
                          .dropout = 0};
  Parameters parameters(testing::backend_device(), DType::f64, ProcessMesh());
  const std::vector<Layer> layers = make_layers(
      Scope(parameters), {.common = options, .initial_out = {}}, [](const Scope&, std::int64_t) {
        return std::make_unique<SoftmaxAttention>(0);
      });
  parameters.allocate(Random(0));
  const std::string attention = "layers/0/attention/";
  const std::string feed_forward = "layers/0/feed_forward/";
  std::vector<WeightName> weights;
  for (const std::string part : {"weight", "bias"}) {
    weights.push_back(
        {"self_attn_in_proj_" + part,
         {attention + "query/" + part, attention + "key/" + part, attention + "value/" + part}});
    weights.push_back({"self_attn_out_proj_" + part, {attention + "out/" + part}});
    weights.push_back({"linear1_" + part, {feed_forward + "in/" + part}});
    weights.push_back({"linear2_" + part, {feed_forward + "out/" + part}});
    weights.push_back({"norm1_" + part, {attention + "norm/" + part}});
    weights.push_back({"norm2_" + part, {feed_forward + "norm/" + part}});
  }
  load(file, weights, parameters);

  const Variable x = leaf_of(file, "inputs/src");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "src_len", x.shape()[1]);
  AttentionContext context;
  context.mask.rules = Mask();
  if (file.flag("padding")) context.mask.key_padding = padding_of(file);
  const Variable y = make_residual(options)->run(layers, x, {.context = context}, ForwardContext());
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, "src", gradient_of(x));
  expect_weight_gradients(file, weights, parameters);
}

}  // namespace longspan::golden
