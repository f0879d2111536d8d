// Flat parameter buckets and initial weights.
#include "framework/nn/parameters.h"

#include "tests/nn/layer_testing.h"

namespace longspan::parameters_test {
namespace {

using testing::backend_device;
using testing::one_process_parameters;
using testing::Values;
using testing::values_of;

TEST(ShardRange, CoversAxisEvenlyWithoutGaps) {
  for (const std::int64_t total : {0, 1, 4, 5, 7, 257})
    for (const int ranks : {1, 2, 3, 4, 8}) {
      std::int64_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ShardRange part = shard_range(total, rank, ranks);
        EXPECT_EQ(part.begin, end);
        EXPECT_EQ(part.total, total);
        EXPECT_LE(part.count, (total + ranks - 1) / ranks);
        EXPECT_GE(part.count, total / ranks);
        end = part.begin + part.count;
      }
      EXPECT_EQ(end, total);
    }
}

TEST(Parameters, LieInFlatBucketsWithZeroPadding) {
  Parameters parameters = one_process_parameters();
  const Weight a = parameters.add("a", {3, 5}, -1, Initializer::constant(2), true);
  const Weight b = parameters.add("b", {7, 1}, -1, Initializer::constant(3), false);
  parameters.allocate(Random(1));
  ASSERT_EQ(parameters.buckets().size(), 1u);
  const ParameterBucket& bucket = parameters.buckets().front();
  EXPECT_EQ(parameters.global_elements(), 22);
  double total = 0;
  for (const double value : values_of(bucket.compute)) total += value;
  EXPECT_EQ(total, 2 * 15 + 3 * 7);
  EXPECT_EQ(bucket.places, (std::vector<std::int64_t>{0, 16})) << "whole cache lines";
  for (std::size_t i = 0; i < 2; ++i) {
    const Weight weight = i == 0 ? a : b;
    EXPECT_EQ(bucket.parameters[i], weight);
    EXPECT_EQ(weight->master.bytes(), bucket.compute.bytes() + bucket.places[i] * 8);
    EXPECT_EQ(weight->gradient.bytes(), bucket.gradient.bytes() + bucket.places[i] * 8);
    EXPECT_EQ(weight->compute.bytes(), weight->master.bytes()) << "no copy in f64";
    EXPECT_EQ(weight->variable.value().bytes(), weight->master.bytes());
  }
}

TEST(Parameters, GroupsEquallyTreatedWeightsIntoRuns) {
  Parameters parameters = one_process_parameters();
  const Weight a = parameters.add("a", {3, 5}, -1, {}, true);
  const Weight undecayed = parameters.add("undecayed", {2, 2}, -1, {}, false);
  const Weight gain = parameters.add("gain", {7}, -1, {}, false);
  const Weight b = parameters.add("b", {4, 8}, -1, {}, true);
  const Weight bias = parameters.add("bias", {3}, -1, {}, false);
  parameters.allocate(Random(1));
  const auto& runs = parameters.runs();
  ASSERT_EQ(runs.size(), 3u);
  const Weight last[] = {b, undecayed, bias};
  const Weight first[] = {a, undecayed, gain};
  for (std::size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(runs[i].decays, i == 0);
    EXPECT_TRUE(runs[i].answered_for);
    EXPECT_EQ(runs[i].shard_offset, first[i]->shard_offset);
    EXPECT_EQ(runs[i].shard_master.bytes(), first[i]->shard_master.bytes());
    EXPECT_EQ(runs[i].shard_gradient.bytes(), first[i]->shard_gradient.bytes());
    EXPECT_EQ(runs[i].shard_offset + runs[i].shard_master.elements(),
              last[i]->shard_offset + last[i]->shard_end);
  }
}

TEST(Parameters, StoresGradientsInBucketsUntilCleared) {
  Parameters parameters = one_process_parameters();
  const Weight a = parameters.add("a", {2, 2}, -1, {}, true);
  const Weight b = parameters.add("b", {3}, -1, {}, false);
  parameters.allocate(Random(1));
  backward(add(sum(a->variable, 2), sum(b->variable, 5)));
  double total = 0;
  for (const ParameterBucket& bucket : parameters.buckets())
    for (const double value : values_of(bucket.gradient)) total += value;
  EXPECT_EQ(total, 2 * 4 + 5 * 3);
  parameters.clear_gradients();
  EXPECT_FALSE(a->variable.gradient().defined());
  backward(sum(b->variable, 7));
  EXPECT_EQ(values_of(b->gradient), (Values{7, 7, 7}));
}

TEST(Parameters, KeepsFloat32MastersForBFloat16Matrices) {
  Parameters parameters(backend_device(), DType::bf16, ProcessMesh());
  const Weight matrix = parameters.add("matrix", {2, 3}, -1, Initializer::normal(1), true);
  const Weight vector = parameters.add("vector", {5}, -1, Initializer::normal(1), false);
  parameters.allocate(Random(1));
  EXPECT_EQ(matrix->master.dtype(), DType::f32);
  EXPECT_EQ(matrix->compute.dtype(), DType::bf16);
  EXPECT_EQ(vector->compute.dtype(), DType::f32);
  EXPECT_EQ(vector->compute.bytes(), vector->master.bytes());
  EXPECT_FALSE(vector->shard_compute.defined()) << "no room for a copy";
  const auto expect_rounded = [&] {
    for (std::int64_t i = 0; i < 6; ++i)
      EXPECT_EQ(static_cast<float>(matrix->compute.data<BFloat16>()[i]),
                static_cast<float>(BFloat16(matrix->master.data<float>()[i])));
  };
  expect_rounded();
  matrix->master.data<float>()[4] = 0.123456789f;
  parameters.refresh_compute();
  expect_rounded();
  backward(sum(cast(matrix->variable, DType::f32), 1));
  EXPECT_EQ(matrix->variable.gradient().dtype(), DType::f32);
}

TEST(Parameters, RequiresUniqueNames) {
  Parameters parameters = one_process_parameters();
  const Scope layer = Scope(parameters).child("layers").child(3);
  const Weight weight = layer.weight("weight", {2, 2}, {});
  EXPECT_EQ(weight->name, "layers/3/weight");
  EXPECT_THROW(layer.weight("weight", {2, 2}, {}), Failure);
  EXPECT_EQ(&parameters.named("layers/3/weight"), weight.get());
  EXPECT_THROW(parameters.named("layers/4/weight"), Failure);
}

TEST(Parameters, VectorsAndPositionBiasesHaveNoWeightDecay) {
  Parameters parameters = one_process_parameters();
  const Scope scope(parameters);
  EXPECT_TRUE(scope.weight("matrix", {2, 2}, {})->decays);
  EXPECT_FALSE(scope.weight("vector", {2}, {})->decays);
  EXPECT_FALSE(scope.no_decay_weight("biases", {2, 2}, {})->decays);
}

// GPU libraries add a bias in the dtype of the product. It is rounded once per update.
TEST(Parameters, GpuRoundsBiasesToComputeDtype) {
  for (const Processor processor : {Processor::cpu, Processor::gpu}) {
    Parameters parameters(Device::meta(processor), DType::bf16, {});
    const Scope scope(parameters);
    const Weight matrix = scope.weight("weight", {4, 2}, {});
    const Weight bias = scope.bias(4);
    const Weight gain = scope.weight("gain", {2}, {});
    parameters.allocate(Random(1));
    EXPECT_EQ(bias->name, "bias");
    EXPECT_FALSE(bias->decays);
    EXPECT_EQ(matrix->compute.dtype(), DType::bf16);
    EXPECT_EQ(bias->compute.dtype(), processor == Processor::gpu ? DType::bf16 : DType::f32);
    EXPECT_EQ(gain->compute.dtype(), DType::f32);
    EXPECT_EQ(bias->master.dtype(), DType::f32);
    EXPECT_EQ(bias->gradient.dtype(), DType::f32);
  }
}

// Padding makes rows of logits a multiple of 16 bytes.
TEST(Parameters, GpuPadsOutputClasses) {
  for (const Processor processor : {Processor::cpu, Processor::gpu}) {
    Parameters parameters(Device::meta(processor), DType::bf16, {});
    const Weight table = Scope(parameters).classes(13, 3, {});
    const Weight bias = Scope(parameters).class_bias(13);
    const Weight whole = Scope(parameters).child("other").classes(16, 3, {});
    const Weight matrix = Scope(parameters).child("other").weight("matrix", {13, 3}, {});
    parameters.allocate(Random(1));
    const std::int64_t rows = processor == Processor::gpu ? 16 : 13;
    EXPECT_EQ(table->variable.shape(), (Shape{rows, 3}));
    EXPECT_EQ(table->variable.value().bytes(), table->compute.bytes());
    EXPECT_EQ(bias->variable.shape(), (Shape{rows}));
    EXPECT_EQ(whole->variable.shape(), (Shape{16, 3}));
    EXPECT_EQ(matrix->variable.shape(), (Shape{13, 3}));
    EXPECT_EQ(table->compute.shape(), (Shape{13, 3}));
    EXPECT_EQ(table->shard_master.elements(), 39);
    EXPECT_TRUE(table->decays);
    EXPECT_EQ(parameters.global_elements(), 13 * 3 + 13 + 16 * 3 + 13 * 3);
  }
}

Values initial_of(const std::vector<std::string>& before, std::uint64_t seed) {
  Parameters parameters = one_process_parameters();
  for (const std::string& name : before)
    parameters.add(name, {2, 2}, -1, Initializer::normal(1), true);
  const Weight weight = parameters.add("weight", {4, 4}, -1, Initializer::normal(1), true);
  parameters.allocate(Random(seed));
  return values_of(weight->master);
}

TEST(Initializer, DependsOnlyOnSeedAndName) {
  EXPECT_EQ(initial_of({}, 1), initial_of({"others", "before"}, 1));
  EXPECT_NE(initial_of({}, 1), initial_of({}, 2));
  Parameters parameters = one_process_parameters();
  const Weight a = parameters.add("a", {4, 4}, -1, Initializer::normal(1), true);
  const Weight b = parameters.add("b", {4, 4}, -1, Initializer::normal(1), true);
  parameters.allocate(Random(1));
  EXPECT_NE(values_of(a->master), values_of(b->master));
}

TEST(Initializer, DrawsSameValuesAsNamedWeight) {
  Parameters parameters = one_process_parameters();
  Initializer as_the_other = Initializer::normal(1);
  as_the_other.as = "b";
  const Weight a = parameters.add("a", {4, 4}, -1, as_the_other, true);
  const Weight b = parameters.add("b", {4, 4}, -1, Initializer::normal(1), true);
  parameters.allocate(Random(1));
  EXPECT_EQ(values_of(a->master), values_of(b->master));
}

TEST(Initializer, MatchesConfiguredDistributions) {
  Parameters parameters = one_process_parameters();
  const Shape shape = {200, 300};
  const Weight normal = parameters.add("normal", shape, -1, Initializer::normal(0.02, 1), true);
  const Weight xavier = parameters.add("xavier", shape, -1, Initializer::xavier(300, 200), true);
  parameters.allocate(Random(1));
  const auto moments = [](const Weight& weight) {
    double sum = 0;
    double squares = 0;
    const Values values = values_of(weight->master);
    const auto count = static_cast<double>(values.size());
    for (const double value : values) sum += value;
    for (const double value : values) squares += std::pow(value - sum / count, 2);
    return std::pair(sum / count, std::sqrt(squares / count));
  };
  const auto [mean, deviation] = moments(normal);
  EXPECT_NEAR(mean, 1, 5 * 0.02 / std::sqrt(60000.0));
  EXPECT_NEAR(deviation, 0.02, 0.02 * 0.02);
  const double bound = std::sqrt(6.0 / 500);
  const auto [center, spread] = moments(xavier);
  EXPECT_NEAR(center, 0, 5 * bound / std::sqrt(60000.0));
  EXPECT_NEAR(spread, bound / std::sqrt(3.0), 0.02 * bound);
  for (const double value : values_of(xavier->master)) ASSERT_LE(std::abs(value), bound);
}

}  // namespace
}  // namespace longspan::parameters_test
