// Layers that compute only active rows.
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/forward_context.h"
#include "framework/nn/layers.h"
#include "tests/nn/layer_testing.h"

namespace longspan::active_rows_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

// Every third position.
std::vector<bool> thirds(std::int64_t rows) {
  std::vector<bool> takes;
  for (std::int64_t i = 0; i < rows; ++i) takes.push_back(i % 3 == 1);
  return takes;
}

std::vector<std::int64_t> numbers_of(const Tensor& tensor) {
  const Tensor here = tensor.to_host();
  return {here.span<std::int64_t>().begin(), here.span<std::int64_t>().end()};
}

TEST(ActiveRows, MapsRowsToPositions) {
  SequenceShard time;
  time.total = 8;
  time.shares = {{{0, 2}, {6, 8}}};
  const auto taken = make_active_rows(thirds(8), 4, time, 5, backend_device());
  ASSERT_TRUE(taken);
  EXPECT_EQ(numbers_of(taken->rows.which), (std::vector<std::int64_t>{1, 4, 7}));
  EXPECT_EQ(numbers_of(taken->rows.where),
            (std::vector<std::int64_t>{-1, 0, -1, -1, 1, -1, -1, 2}));
  // Position 1 of stream 5, and positions 0 and 7 of stream 6.
  EXPECT_EQ(numbers_of(taken->row_of_position), (std::vector<std::int64_t>{41, 48, 55}));
}

TEST(ActiveRows, PadsRowCountAndSkipsNearlyFullBatches) {
  std::vector<bool> takes(1000);
  takes[3] = true;
  const auto one = make_active_rows(takes, 1000, {}, 0, backend_device());
  ASSERT_TRUE(one);
  std::vector<std::int64_t> expected(16, -1);
  expected[0] = 3;
  EXPECT_EQ(numbers_of(one->rows.which), expected);
  EXPECT_TRUE(make_active_rows(std::vector<bool>(1000), 1000, {}, 0, backend_device()));
  EXPECT_FALSE(make_active_rows(std::vector<bool>(1000, true), 1000, {}, 0, backend_device()));
  EXPECT_FALSE(make_active_rows({}, 0, {}, 0, backend_device()));
  takes.assign(1000, true);
  std::fill_n(takes.begin(), 200, false);
  EXPECT_FALSE(make_active_rows(takes, 1000, {}, 0, backend_device()));
}

TEST(ActiveRows, GatherAndScatterRestoreActiveRows) {
  const auto taken = make_active_rows(thirds(10), 5, {}, 0, backend_device());
  const Tensor x = random_tensor({2, 5, 3}, 1);
  const Variable back = scatter_rows(gather_rows(Variable(x), taken->rows), taken->rows, x.shape());
  Values expected = values_of(x);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (i / 3 % 3 != 1) expected[i] = 0;
  EXPECT_EQ(values_of(back.value()), expected);
  testing::expect_gradients(
      [&](const std::vector<Variable>& in) { return gather_rows(in[0], taken->rows); }, {x});
  testing::expect_gradients(
      [&](const std::vector<Variable>& in) {
        return scatter_rows(in[0], taken->rows, Shape{2, 5, 3});
      },
      {random_tensor({1, 3, 3}, 2)});
}

// Keys and values use all rows. Queries and outputs use only active rows.
TEST(ActiveRows, AttentionComputesOnlyActiveRows) {
  Parameters parameters = testing::one_process_parameters();
  const MultiHeadAttention layer(Scope(parameters),
                                 {.width = 4, .heads = 2, .dim = 3},
                                 std::make_unique<SoftmaxAttention>(0.0));
  testing::allocate_randomly(parameters, 7);
  const Tensor x = random_tensor({2, 6, 4}, 1);
  ForwardContext pass;
  AttentionContext context;
  context.mask.rules = masks::causal();
  Values expected = values_of(layer(Variable(x), Variable(), context, pass).value());
  pass.active_rows = make_active_rows(thirds(12), 6, {}, 0, backend_device());
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (i / 4 % 3 != 1) expected[i] = 0;
  expect_close(values_of(layer(Variable(x), Variable(), context, pass).value()), expected, 1e-13);
  testing::expect_layer_gradients(
      parameters,
      [&](const std::vector<Variable>& in) { return layer(in[0], Variable(), context, pass); },
      {x});
}

// One chunk and three, with hidden dropout: active rows equal those of the full computation.
TEST(ActiveRows, FeedForwardComputesOnlyActiveRows) {
  for (const std::int64_t chunks : {1, 3}) {
    Parameters parameters = testing::one_process_parameters();
    const FeedForward layer(Scope(parameters),
                            {.width = 4,
                             .hidden = 6,
                             .activation = Activation::gelu,
                             .dropout = 0.3,
                             .chunks = chunks});
    testing::allocate_randomly(parameters, 7);
    const Tensor x = random_tensor({3, 7, 4}, 1);
    ForwardContext pass = {.training = true, .random = Random(3), .first_stream = 2};
    Values expected = values_of(layer(Variable(x), pass).value());
    pass.active_rows = make_active_rows(thirds(21), 7, {}, pass.first_stream, backend_device());
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (i / 4 % 3 != 1) expected[i] = 0;
    expect_close(values_of(layer(Variable(x), pass).value()), expected, 1e-13);
    testing::expect_layer_gradients(
        parameters, [&](const std::vector<Variable>& in) { return layer(in[0], pass); }, {x});
  }
}

}  // namespace
}  // namespace longspan::active_rows_test
