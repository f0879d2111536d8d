// Decoder layers and a full encoder-decoder (PyTorch's nn.TransformerDecoderLayer and
// nn.Transformer).
#include <algorithm>

#include "framework/nn/attention/softmax_attention.h"
#include "models/stack.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

std::unique_ptr<AttentionOp> softmax(const Scope&, std::int64_t) {
  return std::make_unique<SoftmaxAttention>(0);
}

ModelOptions options_of(const GoldenFile& file, std::int64_t layers) {
  return {.layers = layers,
          .width = file.integer("d_model"),
          .heads = file.integer("heads"),
          .feed_forward = file.integer("d_ff"),
          .activation = activation_of(file),
          .norm = file.flag("pre_norm") ? NormPosition::pre : NormPosition::post,
          .dropout = 0};
}

// Maps the weights of a layer to parameters. `from`: prefix in the file, `to`: prefix of the
// parameters.
void add_layer(const std::string& from,
               const std::string& to,
               bool crosses,
               std::vector<WeightName>& names) {
  const auto add = [&](const std::string& weight, const std::vector<std::string>& parameters) {
    for (const std::string part : {"weight", "bias"}) {
      WeightName name = {from + weight + part, {}};
      for (const std::string& parameter : parameters)
        name.parameters.push_back(to + parameter + "/" + part);
      names.push_back(std::move(name));
    }
  };
  const auto add_attention = [&](const std::string& weight, const std::string& sublayer) {
    add(weight + "_in_proj_", {sublayer + "/query", sublayer + "/key", sublayer + "/value"});
    add(weight + "_out_proj_", {sublayer + "/out"});
  };
  add_attention("self_attn", "attention");
  add("norm1_", {"attention/norm"});
  if (crosses) {
    add_attention("multihead_attn", "cross_attention");
    add("norm2_", {"cross_attention/norm"});
  }
  add(crosses ? "norm3_" : "norm2_", {"feed_forward/norm"});
  add("linear1_", {"feed_forward/in"});
  add("linear2_", {"feed_forward/out"});
}

// Number of real positions in each source row; padding comes last.
Tensor lengths_of(const GoldenFile& file) {
  const Tensor mask = padding_of(file);
  const Tensor lengths = Tensor::empty({mask.shape()[0]}, DType::i64, mask.device());
  const std::int64_t time = mask.shape()[1];
  for (std::int64_t row = 0; row < mask.shape()[0]; ++row) {
    const std::uint8_t* const padding = mask.data<std::uint8_t>() + row * time;
    const std::uint8_t* const first = std::find(padding, padding + time, 1);
    if (std::find(first, padding + time, 0) != padding + time)
      throw DataError("{}: the source has padding before a real position", file.name());
    lengths.data<std::int64_t>()[row] = first - padding;
  }
  return lengths;
}

}  // namespace

void check_decoder_layer(const GoldenFile& file) {
  const ModelOptions options = options_of(file, 1);
  Parameters parameters(testing::backend_device(), DType::f64, ProcessMesh());
  const std::vector<Layer> layers = make_layers(
      Scope(parameters),
      {.common = options, .cross = CrossAttentionOptions{.encoder_width = options.width}},
      softmax);
  parameters.allocate(Random(0));
  std::vector<WeightName> weights;
  add_layer("", "layers/0/", true, weights);
  load(file, weights, parameters);

  const Variable x = leaf_of(file, "inputs/tgt");
  const Variable memory = leaf_of(file, "inputs/memory");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "tgt_len", x.shape()[1]);
  expect_extent(file, "src_len", memory.shape()[1]);
  EncoderOutput side = {.rows = memory};
  if (file.flag("padding")) side.length = lengths_of(file);
  StackInputs reads;
  reads.encoder_outputs = {side};
  const Variable y = make_residual(options)->run(layers, x, reads, ForwardContext());
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, "tgt", gradient_of(x));
  expect_gradient(file, "memory", gradient_of(memory));
  expect_weight_gradients(file, weights, parameters);
}

void check_encoder_decoder(const GoldenFile& file) {
  // PyTorch has a final norm on both stacks for each norm position.
  ModelOptions encoder_options = options_of(file, file.integer("enc_layers"));
  ModelOptions decoder_options = options_of(file, file.integer("dec_layers"));
  encoder_options.final_norm = decoder_options.final_norm = true;
  Parameters parameters(testing::backend_device(), DType::f64, ProcessMesh());
  const Stack encoder(Scope(parameters).child("encoder"), {.common = encoder_options}, softmax);
  const Stack decoder(
      Scope(parameters).child("decoder"),
      {.common = decoder_options,
       .cross = CrossAttentionOptions{.encoder_layers = encoder_options.layers,
                                      .encoder_width = encoder_options.output_width()}},
      softmax);
  parameters.allocate(Random(0));
  std::vector<WeightName> weights;
  for (const std::string stack : {"encoder", "decoder"}) {
    const bool crosses = stack == "decoder";
    const std::int64_t layers = crosses ? decoder_options.layers : encoder_options.layers;
    for (std::int64_t i = 0; i < layers; ++i)
      add_layer(stack + "_layers_" + std::to_string(i) + "_",
                stack + "/layers/" + std::to_string(i) + "/",
                crosses,
                weights);
    for (const std::string part : {"weight", "bias"})
      weights.push_back({stack + "_norm_" + part, {stack + "/final_norm/" + part}});
  }
  load(file, weights, parameters);

  const Variable source = leaf_of(file, "inputs/src");
  const Variable target = leaf_of(file, "inputs/tgt");
  expect_extent(file, "batch", source.shape()[0]);
  expect_extent(file, "src_len", source.shape()[1]);
  expect_extent(file, "tgt_len", target.shape()[1]);
  EncoderOutput side;
  if (file.flag("padding")) side.length = lengths_of(file);
  const ForwardContext pass;
  StackInputs reads;
  reads.encoder_outputs = encoder.encode(source, side, CrossAttentionMapping::last, pass);
  const Variable y = decoder(target, reads, pass);
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, "src", gradient_of(source));
  expect_gradient(file, "tgt", gradient_of(target));
  expect_weight_gradients(file, weights, parameters);
}

}  // namespace longspan::golden
