// Gated recurrences over positions that ranks share, against one process that has all of them.
#include <omp.h>

#include "framework/autograd/gated_recurrence.h"
#include "framework/autograd/ops.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::state_passing_mesh_test {
namespace {

using testing::backend_device;
using testing::on_ranks;
using testing::tensor_of;

constexpr std::int64_t batch = 2, key_dim = 3, value_dim = 2;

enum class Kind : std::uint8_t { none, delta, given };

struct Shapes {
  std::string name;
  std::vector<Ranges> positions;  // of each rank
  std::int64_t heads = 4;
  std::int64_t key_heads = 2;
  int threads = 1;  // of rank 0, which sets how many heads pass at a time; later ranks have more
};

// Tensors [batch, time, ...] of a recurrence, and [batch, heads, key_dim, value_dim] of its states.
struct Inputs {
  std::vector<Tensor> rows;  // query, key, value, gates, beta or a and b; may be undefined
  Tensor documents;
  Tensor dout;
  Tensor initial;
  Tensor dfinal;
};

Tensor random(const Shape& shape, std::uint64_t seed) {
  return tensor_of<double>(testing::normal_values<double>(shape.elements(), seed), shape);
}

Inputs random_inputs(const Shapes& shapes, std::int64_t time, Kind kind, bool by_channel) {
  const std::int64_t heads = shapes.heads;
  const Shape keys = {batch, time, shapes.key_heads, key_dim}, by_head = {batch, time, heads};
  const Shape all_keys = {batch, time, heads, key_dim};
  Inputs inputs;
  inputs.rows = {random(keys, 1), random(keys, 2), random({batch, time, heads, value_dim}, 3)};
  Tensor gates = random(by_channel ? all_keys : by_head, 4);
  for (double& gate : gates.span<double>()) gate = -std::abs(gate);
  inputs.rows.push_back(gates);
  Tensor beta, a, b;
  if (kind == Kind::delta) {
    beta = random(by_head, 5);
    for (double& step : beta.span<double>()) step = 1 / (1 + std::exp(step));
  }
  if (kind == Kind::given) {
    a = random(all_keys, 6);
    b = random(all_keys, 7);
  }
  for (const Tensor& x : {beta, a, b}) inputs.rows.push_back(x);
  inputs.dout = random({batch, time, heads, value_dim}, 8);
  inputs.initial = random({batch, heads, key_dim, value_dim}, 9);
  inputs.dfinal = random({batch, heads, key_dim, value_dim}, 10);
  return inputs;
}

Tensor document_positions(std::int64_t time) {
  std::vector<std::int64_t> positions;
  for (std::int64_t row = 0; row < batch; ++row)
    for (std::int64_t t = 0; t < time; ++t) positions.push_back(t % (5 + row));
  return Tensor::from<std::int64_t>(positions, {batch, time}, backend_device());
}

// Returns the rows at these positions.
template <typename T>
Tensor rows_at(const Tensor& x, const Ranges& positions) {
  if (!x.defined()) return {};
  const std::int64_t time = x.shape()[1], n = x.elements() / (batch * time);
  const Tensor result =
      Tensor::empty(x.shape().with(1, total_count(positions)), x.dtype(), x.device());
  T* to = result.data<T>();
  for (std::int64_t row = 0; row < batch; ++row)
    for (const Range& range : positions)
      to = std::copy_n(x.data<T>() + (row * time + range.begin) * n, range.count() * n, to);
  return result;
}

struct Results {
  std::vector<Tensor> rows;  // the output, and the gradients of Inputs::rows
  Tensor final_state;
  Tensor initial_gradient;
};

Results run(const Inputs& inputs, const std::optional<SequenceShards>& shares) {
  std::vector<Variable> leaves;
  for (const Tensor& x : inputs.rows)
    leaves.push_back(x.defined() ? Variable::leaf(x.clone()) : Variable());
  GatedRecurrenceOptions options = {
      .scale = 0.7, .document_position = inputs.documents, .state = {}, .shares = shares};
  options.state.before = std::make_shared<BoundaryTensor>();
  options.state.before->value = inputs.initial.clone();
  options.state.after = std::make_shared<BoundaryTensor>();
  const Variable y =
      gated_recurrence(leaves[0],
                       leaves[1],
                       leaves[2],
                       {.log_decay = leaves[3], .beta = leaves[4], .a = leaves[5], .b = leaves[6]},
                       options);
  Results results = {.rows = {y.value().clone()},
                     .final_state = options.state.after->value.clone(),
                     .initial_gradient = {}};
  options.state.after->gradient = inputs.dfinal.clone();
  backward({y}, {inputs.dout.clone()});
  for (const Variable& leaf : leaves)
    results.rows.push_back(leaf.defined() ? leaf.gradient() : Tensor());
  results.initial_gradient = options.state.before->gradient;
  return results;
}

void expect_equal(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.defined(), expected.defined()) << what;
  if (!found.defined()) return;
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  double largest = 1, difference = 0;  // chunks begin at other positions, so rounding differs
  for (std::int64_t i = 0; i < found.elements(); ++i) {
    const double value = expected.data<double>()[i];
    largest = std::max(largest, std::abs(value));
    difference = std::max(difference, std::abs(found.data<double>()[i] - value));
  }
  EXPECT_LE(difference, 1e-11 * largest) << what;
}

void expect_equal_on_ranks(const Shapes& shapes) {
  std::int64_t time = 0;
  for (const Ranges& ranges : shapes.positions) time += total_count(ranges);
  on_ranks(static_cast<int>(shapes.positions.size()), [&](const Communicator& ranks) {
    SequenceShards shares;
    shares.ranks = ranks;
    shares.queries = shares.keys = shapes.positions;
    shares.queries_total = shares.keys_total = time;
    const Ranges& own = shapes.positions[static_cast<std::size_t>(ranks.rank())];
    for (const Kind kind : {Kind::none, Kind::delta, Kind::given})
      for (const bool by_channel : {false, true})
        for (const bool has_documents : {false, true}) {
          Inputs inputs = random_inputs(shapes, time, kind, by_channel);
          if (has_documents) inputs.documents = document_positions(time);
          const Results expected = run(inputs, {});
          Inputs mine = inputs;
          for (Tensor& x : mine.rows) x = rows_at<double>(x, own);
          mine.dout = rows_at<double>(inputs.dout, own);
          mine.documents = rows_at<std::int64_t>(inputs.documents, own);
          const int before = omp_get_max_threads();
          omp_set_num_threads(shapes.threads + ranks.rank());
          const Results found = run(mine, shares);
          omp_set_num_threads(before);
          const std::string what = fmt::format("{}, kind {}, by channel {}, documents {}, rank {}",
                                               shapes.name,
                                               static_cast<int>(kind),
                                               by_channel,
                                               has_documents,
                                               ranks.rank());
          for (std::size_t i = 0; i < found.rows.size(); ++i)
            expect_equal(found.rows[i],
                         rows_at<double>(expected.rows[i], own),
                         fmt::format("{}, tensor {}", what, i));
          expect_equal(found.final_state, expected.final_state, what + ", final state");
          expect_equal(
              found.initial_gradient, expected.initial_gradient, what + ", initial gradient");
        }
  });
}

TEST(StatePassing, MatchesOneProcess) {
  expect_equal_on_ranks({"two ranks", {{{0, 3}, {9, 12}}, {{3, 9}}}});
  expect_equal_on_ranks({"two heads at a time", {{{0, 3}, {9, 12}}, {{3, 9}}}, 4, 2, 4});
  expect_equal_on_ranks({"all heads at a time", {{{0, 3}, {9, 12}}, {{3, 9}}}, 3, 3, 6});
  expect_equal_on_ranks({"halves", {{{0, 7}}, {{7, 11}}}, 3, 1});
  expect_equal_on_ranks({"a rank without positions", {{{0, 2}, {5, 7}}, {{0, 0}}, {{2, 5}}}});
  expect_equal_on_ranks(
      {"segments", {{{0, 300}, {900, 1000}}, {{300, 320}, {800, 900}}, {{320, 800}}}, 2, 2});
  expect_equal_on_ranks(
      {"four ranks", {{{0, 1}, {7, 8}}, {{1, 2}, {6, 7}}, {{2, 3}, {5, 6}}, {{3, 5}}}, 5, 5});
}

}  // namespace
}  // namespace longspan::state_passing_mesh_test
