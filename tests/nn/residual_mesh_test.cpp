// The reconstruction error does not depend on the sharding of the streams.
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/residual/reversible.h"
#include "framework/nn/sequence_shard.h"
#include "tests/nn/layer_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::residual_mesh_test {
namespace {

constexpr std::int64_t streams = 4;
constexpr std::int64_t time = 10;
constexpr std::int64_t width = 6;
constexpr std::int64_t layers = 3;

// A rank's streams and positions of a tensor [streams, time, width].
struct Held {
  Range streams;
  Ranges positions;
};

Tensor values_at(const Held& held,
                 DType dtype,
                 double (*value)(std::int64_t stream, std::int64_t position, std::int64_t i)) {
  const Tensor result = Tensor::empty(
      {held.streams.count(), total_count(held.positions), width}, dtype, testing::backend_device());
  with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
    T* to = result.data<T>();
    for (std::int64_t stream = held.streams.begin; stream < held.streams.end; ++stream)
      for (const Range& range : held.positions)
        for (std::int64_t position = range.begin; position < range.end; ++position)
          for (std::int64_t i = 0; i < width; ++i)
            *to++ = static_cast<T>(static_cast<Accumulator<T>>(value(stream, position, i)));
  });
  return result;
}

// Magnitudes differ widely between streams and positions.
double input(std::int64_t stream, std::int64_t position, std::int64_t i) {
  const auto number = static_cast<double>(width * (time * stream + position) + i);
  return static_cast<double>(1 + stream * position) * std::sin(1 + number);
}

double offset(std::int64_t stream, std::int64_t position, std::int64_t) {
  return 0.01 * static_cast<double>(1 + position + 3 * stream);
}

// Returns x in the forward pass and x + offset in the recomputation.
Sublayer forgetful(const Scope& scope, const Tensor& offsets) {
  const auto calls = std::make_shared<int>(0);
  return {.norm = Norm(scope, width),
          .run = [=](const Variable& x, const SublayerInputs&, const ForwardContext&) {
            const Tensor y = x.value().clone();
            if (++*calls % 2 == 0)
              on(y.device(), [&](auto backend) { accumulate(backend, 1, offsets, y); });
            return record(
                y, {x}, [](BackwardContext& gradients) { gradients.set(0, gradients.output()); });
          }};
}

// Reconstruction error over all ranks, with `parts` backward passes per rank.
double measured(const ProcessMesh& mesh, DType dtype, std::int64_t parts) {
  const auto error = std::make_shared<ReconstructionError>();
  const ForwardContext pass = {.training = true, .random = Random(9), .reconstruction = error};
  const std::int64_t count = streams / mesh.data.size();
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = count * mesh.data.rank() + count / parts * part;
    const Held held = {{begin, begin + count / parts}, shard_sequence(mesh, time).outside()};
    Parameters parameters(testing::backend_device(), dtype, mesh);
    std::vector<Layer> stack;
    for (std::int64_t i = 0; i < layers; ++i)
      stack.push_back({{forgetful(Scope(parameters).child(i), values_at(held, dtype, offset))}});
    parameters.allocate(Random(1));
    const Variable x = Variable::leaf(values_at(held, dtype, input));
    backward(sum(ReversibleResidual(StreamMerge::mean, 0).run(stack, x, {}, pass)));
  }
  return error->largest(mesh.world, testing::backend_device());
}

TEST(ReconstructionError, MatchesSingleProcessOnEveryLayout) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double expected = measured(ProcessMesh(), dtype, 1);
    EXPECT_GT(expected, 0.01);
    EXPECT_LT(expected, 1);
    EXPECT_NEAR(measured(ProcessMesh(), dtype, 2), expected, 1e-6 * expected) << "in two parts";
    testing::for_each_layout(
        {{.data = 2},
         {.tensor = 2},
         {.context = 2},
         {.tensor = 2, .sequence = true},
         {.data = 2, .tensor = 2},
         {.context = 2, .tensor = 2, .sequence = true}},
        [&](const ProcessMesh& mesh) {
          EXPECT_NEAR(measured(mesh, dtype, 2 / mesh.data.size()), expected, 1e-6 * expected)
              << testing::to_string(mesh.shape);
        });
  }
}

}  // namespace
}  // namespace longspan::residual_mesh_test
