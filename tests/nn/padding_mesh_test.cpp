// Padded rows and encoder outputs match one process on every layout and in every memory mode.
#include "framework/autograd/recompute.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/lsh_attention.h"
#include "framework/nn/attention/masked_attention_kinds.h"
#include "framework/nn/attention/relative_attention.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/positions.h"
#include "framework/nn/residual/reversible.h"
#include "tests/nn/layer_testing.h"
#include "tests/nn/shares_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::padding_mesh_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::Held;
using testing::piece_of;
using testing::random_tensor;
using testing::values_of;

constexpr std::int64_t batch = 4;
constexpr std::int64_t time = 13;  // not divisible by tensor ranks or chunks
constexpr std::int64_t side_time = 22;
constexpr std::int64_t width = 8;
constexpr std::int64_t heads = 4;
constexpr std::int64_t dim = 3;
constexpr double rate = 0.2;
const Initializer initial = Initializer::normal(0.4);

std::vector<MeshShape> all_layouts() {
  std::vector<MeshShape> all = testing::data_and_tensor_layouts();
  for (const MeshShape& shape : testing::time_layouts()) all.push_back(shape);
  return all;
}

// Each axis, and each way to shard time.
const std::vector<MeshShape> some_layouts = {
    {.data = 2, .context = 2}, {.context = 4}, {.context = 2, .tensor = 2, .sequence = true}};

// A function of this rank's shard of activations. `side` may be undefined.
using Run =
    std::function<Variable(const Variable& x, const Variable& side, const ForwardContext& pass)>;
struct Case {
  std::string name;
  std::function<Run(const Scope& scope, const ProcessMesh& mesh)> make;
  bool reads_side = false;
};

struct Found {
  Tensor y;
  Tensor dx;
  Tensor dside;
  std::vector<std::shared_ptr<Parameter>> parameters;
  std::vector<Tensor> gradients;  // over all ranks
};

Found run(const Case& c, const ProcessMesh& mesh) {
  const Held own(mesh, batch, time);
  const Held own_side(mesh, batch, side_time);
  Parameters parameters(backend_device(), DType::f64, mesh);
  const Run function = c.make(Scope(parameters), mesh);
  parameters.allocate(Random(3));
  const ForwardContext pass = {
      .training = true, .random = Random(5), .first_stream = own.rows.begin, .time = own.time};
  const Variable x = Variable::leaf(own.of(random_tensor({batch, time, width}, 1)));
  const Variable side =
      c.reads_side ? Variable::leaf(own_side.of(random_tensor({batch, side_time, width}, 2)))
                   : Variable();
  const Variable y = function(x, side, pass);
  Found found;
  found.y = y.value().clone();
  backward({y}, {own.of(random_tensor({batch, time, width}, 4))});
  found.dx = x.gradient();
  if (c.reads_side) found.dside = side.gradient();
  found.parameters = parameters.all();
  found.gradients = testing::summed_gradients(parameters);
  return found;
}

void expect_same(const Case& c, const std::vector<MeshShape>& layouts) {
  SCOPED_TRACE(c.name);
  const Found whole = run(c, ProcessMesh());
  testing::for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    SCOPED_TRACE(testing::to_string(mesh.shape));
    const Found found = run(c, mesh);
    const Held own(mesh, batch, time);
    expect_close(values_of(found.y), values_of(own.of(whole.y)), 1e-9);
    expect_close(values_of(found.dx), values_of(own.of(whole.dx)), 1e-9);
    if (c.reads_side)
      expect_close(
          values_of(found.dside), values_of(Held(mesh, batch, side_time).of(whole.dside)), 1e-9);
    for (std::size_t i = 0; i < found.gradients.size(); ++i) {
      SCOPED_TRACE(found.parameters[i]->name);
      expect_close(values_of(found.gradients[i]),
                   values_of(piece_of(whole.gradients[i], *found.parameters[i])),
                   1e-9);
    }
  });
}

std::shared_ptr<MultiHeadAttention> attention_of(const Scope& scope,
                                                 std::unique_ptr<AttentionOp> mechanism) {
  return std::make_shared<MultiHeadAttention>(
      scope,
      MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim, .initial = initial},
      std::move(mechanism));
}

using MakeMechanism = std::function<std::unique_ptr<AttentionOp>(const Scope& scope)>;

std::unique_ptr<AttentionOp> softmax(const Scope&) {
  return std::make_unique<SoftmaxAttention>(rate);
}

// Strided attention. It folds its columns if there is no padding.
std::unique_ptr<AttentionOp> strided(const Scope&) {
  const HeadMaskParts keys = {
      .rules = strided_mask(3), .near = masks::nothing(), .columns = Mask()};
  return std::make_unique<SoftmaxAttention>(
      rate,
      AttentionPattern([keys](std::int64_t) { return std::vector<HeadMaskParts>(heads, keys); },
                       3));
}

std::unique_ptr<AttentionOp> lsh(const Scope& scope) {
  return std::make_unique<LshAttention>(
      scope,
      LshAttention::Options{.lsh = {.chunk = 3, .rounds = 2}, .heads = heads, .dropout = rate});
}

// Attention with feature maps.
MakeMechanism by_features(const std::string& kind) {
  return [kind](const Scope& scope) {
    AttentionOptions options = {.kinds = {kind}};
    options.features.gate = false;
    const AttentionBuildOptions setting = {
        .heads = heads, .dim = dim, .width = width, .causal = false};
    return attention_kind(options, 0)->make(scope, options, setting);
  };
}

std::unique_ptr<AttentionOp> relative(const Scope& scope) {
  return std::make_unique<RelativeAttention>(
      scope,
      RelativeAttention::Options{
          .width = width, .heads = heads, .dim = dim, .dropout = rate, .initial = initial},
      PositionBiases(scope, heads, dim, initial));
}

// Two layers of attention and feed-forward, with the lengths in `context`.
Run stack_of(const Scope& scope,
             const MakeMechanism& mechanism,
             const std::shared_ptr<Residual>& residual,
             const AttentionContext& context) {
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < 2; ++i) {
    const Scope at = scope.child(i).child("attention");
    const auto attention = attention_of(at, mechanism(at));
    const auto feed = std::make_shared<FeedForward>(
        scope.child(i).child("feed"),
        FeedForward::Options{
            .width = width, .hidden = 10, .dropout = rate, .initial = initial, .chunks = 2});
    layers.push_back(
        {{{.norm = Norm(scope.child(i).child("norm0"), width),
           .reads = Reads::memory,
           .run =
               [attention](
                   const Variable& x, const SublayerInputs& of, const ForwardContext& pass) {
                 return (*attention)(x, of.memory, of.context, pass);
               }},
          {.norm = Norm(scope.child(i).child("norm1"), width),
           .run = [feed](const Variable& x, const SublayerInputs&, const ForwardContext& pass) {
             return (*feed)(x, pass);
           }}}});
  }
  return
      [layers, residual, context](const Variable& x, const Variable&, const ForwardContext& pass) {
        return residual->run(layers, x, {.context = context}, pass);
      };
}

// One row each with keys only on the first rank, all keys, part of them and none.
const std::vector<std::int64_t> row_lengths = {2, time, 9, 0};

Case padded_stack(const std::string& name,
                  const MakeMechanism& mechanism,
                  const std::shared_ptr<Residual>& residual,
                  const Mask& rules) {
  return {.name = name, .make = [=](const Scope& scope, const ProcessMesh& mesh) {
            AttentionContext context;
            context.mask.rules = rules;
            context.mask.key_length = Held(mesh, batch, time).lengths(row_lengths);
            context.distances = Variable(sinusoids(
                SinusoidLayout::halves, 0, time, width, -1, DType::f64, backend_device()));
            return stack_of(scope, mechanism, residual, context);
          }};
}

std::shared_ptr<Residual> plain(const Recomputation& again = {}) {
  return std::make_shared<StandardResidual>(NormPosition::pre, rate, again);
}

TEST(Padding, MatchesSingleProcessOnEveryLayout) {
  expect_same(padded_stack("plain", softmax, plain(), masks::everything()), all_layouts());
}

TEST(Padding, MatchesSingleProcessInEachMemoryMode) {
  const Mask all = masks::everything();
  const auto reversible = std::make_shared<ReversibleResidual>(StreamMerge::mean, rate);
  for (const Case& c :
       {padded_stack("attention recomputed", softmax, plain(Recomputation::selective()), all),
        padded_stack("layers recomputed", softmax, plain(Recomputation::every(2)), all),
        padded_stack("reversible", softmax, reversible, all)})
    expect_same(c, some_layouts);
}

TEST(Padding, MatchesSingleProcessForEachAttentionKind) {
  const Mask causal = masks::causal();
  for (const Case& c :
       {padded_stack("full", softmax, plain(), causal),
        padded_stack("strided", strided, plain(), causal),
        padded_stack("relative", relative, plain(), causal),
        padded_stack("lsh", lsh, plain(), masks::everything()),
        padded_stack("causal lsh", lsh, plain(), causal),
        padded_stack("linear", by_features("linear"), plain(), masks::everything()),
        padded_stack("performer", by_features("performer"), plain(), masks::everything()),
        padded_stack("causal performer", by_features("performer"), plain(), causal),
        padded_stack("random features", by_features("rfa"), plain(), causal),
        padded_stack("efficient", by_features("efficient"), plain(), masks::everything())})
    expect_same(c, some_layouts);
}

// Cross-attention to the encoder output, recomputed if `again`.
Case crossing(const std::string& name,
              const std::vector<std::int64_t>& lengths,
              bool again,
              const MakeMechanism& mechanism = softmax,
              const Mask& rules = masks::everything()) {
  return {.name = name,
          .make = [=](const Scope& scope, const ProcessMesh& mesh) -> Run {
            const auto attention = attention_of(scope, mechanism(scope));
            const Held held(mesh, batch, side_time);
            const Tensor length = lengths.empty() ? Tensor() : held.lengths(lengths);
            return [=](const Variable& x, const Variable& rows, const ForwardContext& pass) {
              const auto look = [=](const std::vector<Variable>& in) {
                const EncoderOutput side = {.rows = in[1], .time = held.time, .length = length};
                AttentionContext context = side.key_context();
                context.mask.rules = rules;
                return (*attention)(in[0], side, context, pass);
              };
              return again ? recompute(look, {x, rows}) : look({x, rows});
            };
          },
          .reads_side = true};
}

TEST(EncoderOutput, MatchesSingleProcessOnEveryLayout) {
  for (const Case& c : {crossing("whole", {}, false),
                        crossing("padded", {22, 3, 0, 15}, false),
                        crossing("padded, recomputed", {22, 3, 0, 15}, true),
                        crossing("strided", {}, false, strided, masks::causal())})
    expect_same(c, all_layouts());
}

TEST(EncoderOutput, PaddedRowMatchesRowAlone) {
  Parameters parameters = testing::one_process_parameters();
  const auto layer = attention_of(Scope(parameters), std::make_unique<SoftmaxAttention>(0));
  testing::allocate_randomly(parameters, 3);
  const Tensor x = random_tensor({batch, time, width}, 1);
  const Tensor rows = random_tensor({batch, side_time, width}, 2);
  const std::vector<std::int64_t> lengths = {22, 3, 1, 15};
  const Held all(ProcessMesh(), batch, side_time);
  const EncoderOutput side = {.rows = Variable(rows), .length = all.lengths(lengths)};
  const Tensor y = (*layer)(Variable(x), side, side.key_context(), ForwardContext()).value();
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t real = lengths[static_cast<std::size_t>(b)];
    const Tensor own = rows.slice(b, b + 1).reshape({side_time, width}).slice(0, real);
    const EncoderOutput alone = {.rows = Variable(own.reshape({1, real, width}))};
    expect_close(
        values_of(
            (*layer)(Variable(x.slice(b, b + 1)), alone, alone.key_context(), ForwardContext())
                .value()),
        values_of(y.slice(b, b + 1)),
        1e-13);
  }
}

}  // namespace
}  // namespace longspan::padding_mesh_test
