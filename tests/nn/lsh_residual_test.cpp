// LSH attention in stacks with recomputation and in reversible stacks.
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/lsh_attention.h"
#include "framework/nn/residual/reversible.h"
#include "tests/nn/layer_testing.h"

namespace longspan::lsh_residual_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t width = 8, time = 60, batch = 2;
constexpr double rate = 0.2;

struct LshStack {
  Parameters parameters;
  std::vector<Layer> layers;

  LshStack(std::int64_t count, DType dtype) : parameters(backend_device(), dtype, ProcessMesh()) {
    for (std::int64_t i = 0; i < count; ++i) {
      const Scope scope = Scope(parameters).child(i);
      const auto attention = std::make_shared<MultiHeadAttention>(
          scope,
          MultiHeadAttention::Options{
              .width = width, .heads = 2, .dim = 4, .initial = Initializer::normal(0.5)},
          std::make_unique<LshAttention>(
              scope,
              LshAttention::Options{
                  .lsh = {.chunk = 4, .rounds = 3}, .heads = 2, .dropout = rate}));
      layers.push_back({{{.norm = Norm(scope.child("norm"), width),
                          .reads = Reads::memory,
                          .run = [attention](const Variable& x,
                                             const SublayerInputs& reads,
                                             const ForwardContext& pass) {
                            return (*attention)(x, reads.memory, reads.context, pass);
                          }}}});
    }
    parameters.allocate(Random(1));
  }

  // Returns the output and every gradient.
  std::vector<Values> run(const Residual& residual) {
    const DType dtype = parameters.compute_dtype();
    const Variable x =
        Variable::leaf(cast(Variable(random_tensor({batch, time, width}, 2)), dtype).value());
    const ForwardContext pass = {.training = true, .random = Random(9)};
    const Variable y = residual.run(layers, x, {}, pass);
    parameters.clear_gradients();
    backward({y}, {cast(Variable(random_tensor(y.shape(), 3)), dtype).value()});
    std::vector<Values> found = {values_of(y.value()), values_of(x.gradient())};
    for (const auto& parameter : parameters.all())
      found.push_back(values_of(parameter->variable.gradient()));
    return found;
  }
};

void expect_same(const std::vector<Values>& found,
                 const std::vector<Values>& expected,
                 double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) expect_close(found[i], expected[i], tolerance, 10);
}

TEST(LshAttention, RecomputedStackMatchesStored) {
  LshStack stack(3, DType::f64);
  const auto plain = stack.run(StandardResidual(NormPosition::pre, rate));
  for (const Recomputation& again :
       {Recomputation::selective(), Recomputation::every(1), Recomputation::every(2)})
    expect_same(stack.run(StandardResidual(NormPosition::pre, rate, again)), plain, 1e-12);
}

TEST(LshAttention, ReversibleStackMatchesStored) {
  using Streams = ReversibleResidual::Streams;
  const auto compare = [](DType dtype, double tolerance) {
    LshStack stack(8, dtype);
    expect_same(stack.run(ReversibleResidual(StreamMerge::mean, rate, Streams::rebuilt)),
                stack.run(ReversibleResidual(StreamMerge::mean, rate, Streams::kept)),
                tolerance);
  };
  compare(DType::f64, 1e-11);
  compare(DType::f32, 1e-4);
}

}  // namespace
}  // namespace longspan::lsh_residual_test
