// Transformer-XL (the authors' mem_transformer.py): one layer, and the language model over
// consecutive segments. Its data are time-major.
#include "models/transformer_xl.h"

#include "framework/autograd/collectives.h"
#include "framework/nn/attention/relative_attention.h"
#include "models/stack.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

ModelOptions stack_options(const GoldenFile& file, std::int64_t layers) {
  return {.layers = layers,
          .width = file.integer("d_model"),
          .heads = file.integer("heads"),
          .head_width = file.integer("d_head"),
          .feed_forward = file.integer("d_inner"),
          .norm = file.flag("pre_lnorm") ? NormPosition::pre : NormPosition::post,
          .final_norm = false,
          .dropout = 0};
}

// Maps the weights of layer `index`; `prefix`: prefix in the file.
void add_layer(std::vector<WeightName>& weights, std::int64_t index, const std::string& prefix) {
  const std::string layer = "layers/" + std::to_string(index) + "/";
  const std::string attention = layer + "attention/";
  const std::string feed_forward = layer + "feed_forward/";
  weights.push_back(
      {prefix + "dec_attn_qkv_net_weight",
       {attention + "query/weight", attention + "key/weight", attention + "value/weight"}});
  weights.push_back({prefix + "dec_attn_o_net_weight", {attention + "out/weight"}});
  weights.push_back({prefix + "dec_attn_r_net_weight", {attention + "position/weight"}});
  for (const std::string part : {"weight", "bias"}) {
    weights.push_back({prefix + "dec_attn_layer_norm_" + part, {attention + "norm/" + part}});
    weights.push_back({prefix + "pos_ff_corenet_0_" + part, {feed_forward + "in/" + part}});
    weights.push_back({prefix + "pos_ff_corenet_3_" + part, {feed_forward + "out/" + part}});
    weights.push_back({prefix + "pos_ff_layer_norm_" + part, {feed_forward + "norm/" + part}});
  }
}

Tensor rows(const Tensor& tensor, std::int64_t begin, std::int64_t count) {
  return exchanged_leading_axes(tensor.slice(begin, begin + count));
}

// Compares the memory after a segment. The file's last entry is the top layer's output, which no
// layer reads.
void expect_memory(const GoldenFile& file, std::size_t segment, const RecurrentState& memory) {
  const std::string name = "outputs/memory_after_segment_" + std::to_string(segment);
  if (!file.has(name)) {
    if (memory.length() > 0) throw DataError("{}: there is no {}", file.name(), name);
    return;
  }
  const Tensor& expected = file.numbers(name);
  const Shape& shape = expected.shape();  // [layers + 1, length, batch, width]
  for (std::int64_t layer = 0; layer + 1 < shape[0]; ++layer) {
    const Tensor reference = exchanged_leading_axes(
        expected.slice(layer, layer + 1).reshape({shape[1], shape[2], shape[3]}));
    if (memory.length() == 0 && shape[1] == 0) continue;
    expect_near(file.name() + ": " + name + ", layer " + std::to_string(layer),
                memory.tensors.at(static_cast<std::size_t>(layer)).tensor,
                reference,
                output_tolerance);
  }
}

}  // namespace

void check_transformer_xl_layer(const GoldenFile& file) {
  const ModelOptions options = stack_options(file, 1);
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
  std::vector<WeightName> weights = {{"r_w_bias", {"layers/0/attention/content_bias"}},
                                     {"r_r_bias", {"layers/0/attention/position_bias"}}};
  add_layer(weights, 0, "");
  load(file, weights, parameters);

  const Variable x = Variable::leaf(exchanged_leading_axes(file.numbers("inputs/x")));
  // A layer without memory has no memory input, or an empty one.
  const bool remembers = file.has("inputs/memory") && file.numbers("inputs/memory").elements() > 0;
  Variable memory;
  if (remembers) memory = Variable::leaf(exchanged_leading_axes(file.numbers("inputs/memory")));
  const std::int64_t remembered = remembers ? memory.shape()[1] : 0;
  // The file starts at the largest relative position, the library at 0.
  const Variable distances = Variable::leaf(reversed(file.numbers("inputs/r")));
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "tgt_len", x.shape()[1]);
  expect_extent(file, "mem_now", remembered);
  AttentionContext context;
  context.mask.query_begin = remembered;
  context.distances = distances;
  StackInputs reads = {.context = context};
  if (remembers) reads.memories = {memory};
  const Variable y = make_residual(options)->run(layers, x, reads, ForwardContext());
  expect_output(file, "y", exchanged_leading_axes(y.value()));

  backward({y}, {exchanged_leading_axes(file.numbers("inputs/upstream"))});
  expect_gradient(file, "x", exchanged_leading_axes(gradient_of(x)));
  if (file.has("gradients/memory"))
    expect_gradient(
        file,
        "memory",
        remembers ? exchanged_leading_axes(gradient_of(memory)) : file.numbers("inputs/memory"));
  expect_gradient(file, "r", reversed(gradient_of(distances)));
  expect_weight_gradients(file, weights, parameters);
}

void check_transformer_xl(const GoldenFile& file) {
  const std::int64_t clamp = file.integer("clamp_len");
  TransformerXlOptions options = {.common = stack_options(file, file.integer("n_layer")),
                                  .memory = file.integer("mem_len"),
                                  .same_length = file.flag("same_length")};
  if (clamp > 0) options.clamp_length = clamp;
  const std::vector<std::int64_t> lengths = file.integers("seg_lens");
  const std::unique_ptr<Model> model = make_transformer_xl(options,
                                                           {.vocabulary = file.integer("vocab"),
                                                            .segment = lengths.front(),
                                                            .compute = DType::f64,
                                                            .device = testing::backend_device()});
  std::vector<WeightName> weights = {{"embedding", {"embedding/weight"}},
                                     {"softmax_bias", {"output/bias"}},
                                     {"r_w_bias", {"content_bias"}},
                                     {"r_r_bias", {"position_bias"}}};
  for (std::int64_t layer = 0; layer < options.common.layers; ++layer)
    add_layer(weights, layer, "layers_" + std::to_string(layer) + "_");
  load(file, weights, model->parameters());

  const Tensor& tokens = file.ids("inputs/data");
  const Tensor& targets = file.ids("inputs/target");
  const Tensor& upstream = file.numbers("inputs/upstream");
  const std::int64_t batch = tokens.shape()[1];
  expect_extent(file, "batch", batch);
  const Tensor losses = upstream.empty_like();
  std::vector<Variable> roots;
  std::vector<Tensor> seeds;
  RecurrentState memory;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t time = lengths[i];
    const Losses result = model->losses(
        {.fields = {{"tokens", rows(tokens, begin, time)}, {"targets", rows(targets, begin, time)}},
         .carried = memory,
         .max_mem_len = options.memory},
        ForwardContext());
    const Variable& values = result.terms.front().values;
    memory = result.carried;
    expect_memory(file, i, memory);
    losses.slice(begin, begin + time)
        .copy_from(exchanged_leading_axes(values.value().reshape({batch, time})));
    seeds.push_back(rows(upstream, begin, time).reshape({batch * time}));
    roots.push_back(values);
    begin += time;
  }
  if (begin != tokens.shape()[0])
    throw DataError("{}: seg_lens add up to {} of {} rows", file.name(), begin, tokens.shape()[0]);
  expect_output(file, "loss", losses);
  backward(roots, std::move(seeds));
  expect_weight_gradients(file, weights, model->parameters());
}

}  // namespace longspan::golden
