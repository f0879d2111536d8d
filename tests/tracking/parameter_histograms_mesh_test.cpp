// Histograms are independent of the layout.
#include <gtest/gtest.h>

#include <map>

#include "framework/tracking/metrics_record.h"
#include "tests/support/mesh_runner.h"

namespace longspan::parameter_histograms_mesh_test {
namespace {

// Weights split by columns, by rows and not at all, of odd sizes, and a frozen one.
struct Weights {
  explicit Weights(const ProcessMesh& mesh, int zero)
      : parameters(Device::cpu(), DType::f64, mesh, {.zero = zero, .bucket_megabytes = 1e-4}) {
    const Scope scope(parameters);
    scope.child("a").weight("weight", {13, 7}, Initializer::normal(0.4), 0);
    scope.child("b").weight("weight", {5, 11}, Initializer::uniform(2), 1);
    scope.child("c").weight("weight", {9, 3}, Initializer::normal(1e-3));
    scope.child("c").bias(9);
    scope.child("d").bias(10, 0);
    parameters.allocate(Random(7));
    // Reduced gradients: three times the weight plus 0.125.
    for (const auto& each : parameters.trained()) {
      const auto weights = each->shard_master.span<double>();
      const auto gradients = each->shard_gradient.span<double>();
      for (std::size_t i = 0; i < weights.size(); ++i) gradients[i] = 3 * weights[i] + 0.125;
    }
  }
  Parameters parameters;
};

std::map<std::string, Histogram> by_name(const std::vector<NamedHistogram>& all) {
  std::map<std::string, Histogram> result;
  for (const NamedHistogram& each : all) result[each.name] = each.histogram;
  return result;
}

void expect_same(const std::map<std::string, Histogram>& found,
                 const std::map<std::string, Histogram>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, histogram] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    const Histogram& other = found.at(name);
    EXPECT_EQ(other.counts, histogram.counts) << name;
    EXPECT_EQ(other.smallest, histogram.smallest) << name;
    EXPECT_EQ(other.largest, histogram.largest) << name;
    EXPECT_NEAR(other.sum, histogram.sum, 1e-12) << name;
    EXPECT_NEAR(other.sum_of_squares, histogram.sum_of_squares, 1e-12) << name;
  }
}

TEST(ParameterHistograms, MatchesOneProcessOnEveryLayout) {
  const Weights full(ProcessMesh(), 0);
  const auto weights =
      by_name(all_reduce_histograms(own_weight_histograms(full.parameters), Communicator()));
  const auto gradients =
      by_name(all_reduce_histograms(own_gradient_histograms(full.parameters, 8), Communicator()));
  ASSERT_EQ(weights.at("weights/a/weight").count(), 13 * 7);
  ASSERT_EQ(gradients.at("gradients/c/bias").count(), 9);
  EXPECT_EQ(gradients.at("gradients/c/bias").largest, 0.125 / 8);
  std::vector<MeshShape> layouts = testing::data_and_tensor_layouts();
  for (const MeshShape& shape : testing::time_layouts()) layouts.push_back(shape);
  for (const int zero : {0, 1, 2})
    testing::for_each_layout(layouts, [&](const ProcessMesh& mesh) {
      const Weights parts(mesh, zero);
      expect_same(
          by_name(all_reduce_histograms(own_weight_histograms(parts.parameters), mesh.world)),
          weights);
      expect_same(
          by_name(all_reduce_histograms(own_gradient_histograms(parts.parameters, 8), mesh.world)),
          gradients);
    });
}

}  // namespace
}  // namespace longspan::parameter_histograms_mesh_test
