// Encoder and decoder stacks match one process on every layout and in every memory mode.
#include <gtest/gtest.h>

#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/embedding.h"
#include "models/stack.h"
#include "tests/nn/layer_testing.h"
#include "tests/nn/shares_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::stacks_mesh_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::Held;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t batch = 4;
constexpr std::int64_t source_time = 22;
constexpr std::int64_t target_time = 13;  // divides neither by tensor ranks nor into chunks
constexpr std::int64_t width = 8;
constexpr std::int64_t vocabulary = 11;
const std::vector<std::int64_t> source_lengths = {22, 3, 0, 15};
const std::vector<std::int64_t> target_lengths = {2, target_time, 9, 0};
constexpr std::int64_t without_source = 2;  // row index

struct Case {
  std::string name;
  NormPosition norm = NormPosition::pre;
  CrossAttentionMapping wiring = CrossAttentionMapping::last;
  MemoryOptions memory = {};
  ResidualKind residual = ResidualKind::plain;
  StreamMerge join = StreamMerge::mean;
  LabelSmoothing smoothing = {};
};

ModelOptions options_of(const Case& c) {
  return {.layers = 2,
          .width = width,
          .heads = 4,
          .head_width = 3,
          .feed_forward = 10,
          .norm = c.norm,
          .residual = c.residual,
          .reversible_output = c.join,
          .dropout = 0.2,
          .attention_dropout = 0.15,
          .initial_deviation = 0.4};
}

// Encoder and decoder stacks with an output layer.
struct Translator {
  Parameters parameters;
  CrossAttentionMapping wiring;
  LabelSmoothing smoothing;
  Stack encoder;
  Stack decoder;
  LMHead output;

  Translator(const Case& c, const ProcessMesh& mesh)
      : parameters(backend_device(), DType::f64, mesh),
        wiring(c.wiring),
        smoothing(c.smoothing),
        encoder(Scope(parameters).child("encoder"),
                {.common = options_of(c), .memory = c.memory},
                softmax),
        decoder(Scope(parameters).child("decoder"),
                {.common = options_of(c),
                 .memory = c.memory,
                 .cross = CrossAttentionOptions{.wiring = c.wiring,
                                                .encoder_layers = options_of(c).layers,
                                                .encoder_width = options_of(c).output_width()}},
                softmax),
        output(Scope(parameters).child("output"),
               {.vocabulary = vocabulary,
                .width = options_of(c).output_width(),
                .initial = Initializer::normal(0.4),
                .chunks = c.memory.loss_chunks}) {
    parameters.allocate(Random(3));
  }

  static std::unique_ptr<AttentionOp> softmax(const Scope&, std::int64_t) {
    return std::make_unique<SoftmaxAttention>(0.15);
  }

  Variable losses(const Variable& source,
                  const EncoderOutput& side,
                  const Variable& target,
                  const Tensor& length,
                  const Tensor& labels,
                  const ForwardContext& pass) const {
    StackInputs reads;
    reads.encoder_outputs = encoder.encode(source, side, wiring, pass.child("encoder"));
    reads.context.mask.key_length = length;
    return output.losses(
        decoder(target, reads, pass.child("decoder")), labels, pass.time, smoothing);
  }
};

// Ids, negative after each row's length.
Tensor labels() {
  const Tensor ids = Tensor::empty({batch, target_time}, DType::i64, backend_device());
  for (std::int64_t row = 0; row < batch; ++row)
    for (std::int64_t i = 0; i < target_time; ++i)
      ids.data<std::int64_t>()[row * target_time + i] =
          i < target_lengths[static_cast<std::size_t>(row)] ? (3 * row + 5 * i) % vocabulary : -1;
  return ids;
}

struct Found {
  double loss = 0;
  Tensor dsource;
  Tensor dtarget;
  std::vector<std::shared_ptr<Parameter>> parameters;
  std::vector<Tensor> gradients;  // summed over all ranks
};

Found run(const Case& c, const ProcessMesh& mesh) {
  const Held source(mesh, batch, source_time);
  const Held target(mesh, batch, target_time);
  Translator model(c, mesh);
  const Variable x = Variable::leaf(source.of(random_tensor({batch, source_time, width}, 1)));
  const Variable y = Variable::leaf(target.of(random_tensor({batch, target_time, width}, 2)));
  const Variable losses =
      model.losses(x,
                   {.time = source.time, .length = source.lengths(source_lengths)},
                   y,
                   target.lengths(target_lengths),
                   target.ids_of(labels()),
                   {.training = true,
                    .random = Random(5),
                    .first_stream = target.rows.begin,
                    .time = target.time});
  const Variable loss = sum(losses);
  const Tensor total = loss.value().clone();
  mesh.replicas.all_reduce(total, Reduction::sum);
  backward(loss);
  return {.loss = values_of(total)[0],
          .dsource = x.gradient(),
          .dtarget = y.gradient(),
          .parameters = model.parameters.all(),
          .gradients = testing::summed_gradients(model.parameters)};
}

// A row without a source has exactly zero source gradient.
void expect_no_gradient_without_source(const Tensor& dsource, const Range& rows) {
  if (without_source < rows.begin || without_source >= rows.end) return;
  const std::int64_t at = without_source - rows.begin;
  for (const double value : values_of(dsource.slice(at, at + 1))) ASSERT_EQ(value, 0);
}

void expect_same(const Case& c, const std::vector<MeshShape>& layouts) {
  SCOPED_TRACE(c.name);
  const Found whole = run(c, ProcessMesh());
  EXPECT_GT(whole.loss, 1);
  testing::for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    SCOPED_TRACE(testing::to_string(mesh.shape));
    const Found found = run(c, mesh);
    const Held source(mesh, batch, source_time);
    EXPECT_NEAR(found.loss, whole.loss, 1e-9 * whole.loss);
    expect_close(values_of(found.dsource), values_of(source.of(whole.dsource)), 1e-9);
    expect_close(values_of(found.dtarget),
                 values_of(Held(mesh, batch, target_time).of(whole.dtarget)),
                 1e-9);
    expect_no_gradient_without_source(found.dsource, source.rows);
    ASSERT_EQ(found.gradients.size(), whole.gradients.size());
    for (std::size_t i = 0; i < found.gradients.size(); ++i) {
      SCOPED_TRACE(found.parameters[i]->name);
      expect_close(values_of(found.gradients[i]),
                   values_of(testing::piece_of(whole.gradients[i], *found.parameters[i])),
                   1e-9);
    }
  });
}

std::vector<MeshShape> all_layouts() {
  std::vector<MeshShape> all = testing::data_and_tensor_layouts();
  for (const MeshShape& shape : testing::time_layouts()) all.push_back(shape);
  return all;
}

// Each mesh axis, and each kind of sequence sharding.
const std::vector<MeshShape> some_layouts = {
    {.data = 2, .context = 2}, {.context = 4}, {.context = 2, .tensor = 2, .sequence = true}};

const MemoryOptions chunked = {.feed_forward_chunks = 3, .loss_chunks = 3};
constexpr LabelSmoothing torch = {0.1, LabelSmoothingStyle::all_classes};
constexpr LabelSmoothing fairseq = {0.1, LabelSmoothingStyle::wrong_classes};

TEST(Stack, MatchesOneProcessOnEveryLayout) {
  expect_same({.name = "plain", .norm = NormPosition::post, .smoothing = torch}, all_layouts());
  expect_same({.name = "reversible",
               .memory = chunked,
               .residual = ResidualKind::reversible,
               .smoothing = fairseq},
              all_layouts());
}

TEST(Stack, MatchesOneProcessInEveryMemoryMode) {
  for (const Case& c :
       std::initializer_list<Case>{{.name = "attention recomputed, full",
       .wiring = CrossAttentionMapping::full,
       .memory = {.recompute_granularity = RecomputeGranularity::selective}},
                                   {.name = "layers recomputed, mix",
                                   .wiring = CrossAttentionMapping::mix,
                                   .memory = {.recompute_granularity = RecomputeGranularity::full},
                                   .smoothing = torch},
                                   {.name = "two layers recomputed, same",
                                   .norm = NormPosition::post,
                                   .wiring = CrossAttentionMapping::same,
                                   .memory = {.recompute_granularity = RecomputeGranularity::full,
                                             .recompute_num_layers = 2}},
                                   {.name = "reversible, reverse",
                                   .wiring = CrossAttentionMapping::reverse,
                                   .residual = ResidualKind::reversible},
                                   {.name = "reversible, mix, side by side",
                                   .wiring = CrossAttentionMapping::mix,
                                   .memory = chunked,
                                   .residual = ResidualKind::reversible,
                                   .join = StreamMerge::concatenate,
                                   .smoothing = fairseq}})
    expect_same(c, some_layouts);
}

// Memory options do not change results on one process.
void expect_same_functions(const Case& a, const Case& b, double tolerance) {
  SCOPED_TRACE(b.name);
  const Found expected = run(a, ProcessMesh());
  const Found found = run(b, ProcessMesh());
  EXPECT_NEAR(found.loss, expected.loss, tolerance * expected.loss);
  expect_close(values_of(found.dsource), values_of(expected.dsource), tolerance);
  expect_close(values_of(found.dtarget), values_of(expected.dtarget), tolerance);
  for (std::size_t i = 0; i < found.gradients.size(); ++i)
    expect_close(values_of(found.gradients[i]), values_of(expected.gradients[i]), tolerance);
}

TEST(Stack, RecomputationDoesNotChangeResults) {
  for (const CrossAttentionMapping wiring :
       {CrossAttentionMapping::last, CrossAttentionMapping::mix, CrossAttentionMapping::full}) {
    for (const NormPosition norm : {NormPosition::pre, NormPosition::post})
      for (const MemoryOptions& again :
           {MemoryOptions{.recompute_granularity = RecomputeGranularity::selective},
            MemoryOptions{.recompute_granularity = RecomputeGranularity::full},
            MemoryOptions{.recompute_granularity = RecomputeGranularity::full,
            .recompute_num_layers = 2}}) {
        const Case plain = {.name = "plain", .norm = norm, .wiring = wiring};
        Case other = plain;
        other.name = name_of(again.recompute_granularity);
        other.memory = again;
        other.memory.loss_chunks = 2;
        expect_same_functions(plain, other, 1e-12);
      }
    Case stored = {.name = "kept", .wiring = wiring, .residual = ResidualKind::reversible};
    Case rebuilt = stored;
    rebuilt.name = "rebuilt";
    stored.memory.stores_streams = true;
    expect_same_functions(stored, rebuilt, 1e-10);
  }
}

}  // namespace
}  // namespace longspan::stacks_mesh_test
