// Strided attention against a naive loop with the mask of its definition.
#include "framework/autograd/attention.h"
#include "tests/support/gradient_check.h"

namespace longspan::strided_attention_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::expect_gradients;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t batch = 2;
constexpr std::int64_t heads = 2;
constexpr std::int64_t dim = 3;
constexpr std::int64_t value_dim = 2;

bool allows(const StridedKeys& keys, std::int64_t head, std::int64_t p, std::int64_t k) {
  const bool column =
      (p - k) % keys.stride == 0 && keys.columns.of(head).allows(p / keys.stride, k / keys.stride);
  const bool near = keys.near && keys.near->of(head).allows(p, k);
  EXPECT_FALSE(column && near) << "a key is in both sets";
  return column || near;
}

std::optional<AttentionDropout> dropout_of(double rate) {
  if (rate == 0) return {};
  return AttentionDropout{
      .rate = rate, .random = Random(7), .batch_begin = 3, .head_begin = 1, .heads_total = 5};
}

// Dropout factor of a pair, with the index that it has in dense attention.
double kept(double rate, std::int64_t b, std::int64_t h, std::int64_t pair, std::int64_t pairs) {
  const auto dropout = dropout_of(rate);
  if (!dropout) return 1;
  const std::int64_t row = (dropout->batch_begin + b) * dropout->heads_total + 1 + h;
  const float number = dropout->random.uniform_at(static_cast<std::uint64_t>(row * pairs + pair));
  return number >= static_cast<float>(rate) ? 1 / (1 - rate) : 0;
}

Values naive(const std::vector<Tensor>& inputs, const StridedKeys& keys, double dropout) {
  const std::int64_t time = inputs[0].shape()[1];
  const auto at = [&](const Tensor& x, std::int64_t b, std::int64_t t, std::int64_t h) {
    return x.data<double>() + ((b * time + t) * heads + h) * x.shape()[3];
  };
  Values result;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t p = 0; p < time; ++p)
      for (std::int64_t h = 0; h < heads; ++h) {
        Values mixed(value_dim, 0);
        double total = 0;
        for (std::int64_t k = 0; k < time; ++k) {
          if (!allows(keys, h, p, k)) continue;
          double score = 0;
          for (std::int64_t e = 0; e < dim; ++e)
            score += at(inputs[0], b, p, h)[e] * at(inputs[1], b, k, h)[e];
          const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
          total += weight;
          for (std::int64_t e = 0; e < value_dim; ++e)
            mixed[static_cast<std::size_t>(e)] +=
                weight * kept(dropout, b, h, p * time + k, time * time) * at(inputs[2], b, k, h)[e];
        }
        for (const double x : mixed) result.push_back(total > 0 ? x / total : 0);
      }
  return result;
}

void expect_naive(const StridedKeys& keys, std::int64_t time, double dropout = 0) {
  SCOPED_TRACE("stride " + std::to_string(keys.stride) + ", time " + std::to_string(time));
  const std::vector<Tensor> inputs = {random_tensor({batch, time, heads, dim}, 1),
                                      random_tensor({batch, time, heads, dim}, 2),
                                      random_tensor({batch, time, heads, value_dim}, 3)};
  const auto run = [&](const std::vector<Variable>& in) {
    return strided_attention(in[0], in[1], in[2], keys, dropout_of(dropout));
  };
  const Variable y = run({Variable(inputs[0]), Variable(inputs[1]), Variable(inputs[2])});
  EXPECT_EQ(y.shape(), (Shape{batch, time, heads, value_dim}));
  expect_close(values_of(y.value()), naive(inputs, keys, dropout), 1e-12);
  expect_gradients(run, inputs, {.directions = 1, .elements = 2});
}

constexpr std::int64_t times[] = {1, 3, 4, 5, 8, 13, 40};

TEST(StridedAttention, ColumnsMatchDefinition) {
  for (const std::int64_t time : times) expect_naive({.stride = 4}, time);
  expect_naive({.stride = 1}, 9);
  expect_naive({.stride = 3}, 200);  // several tiles
}

TEST(StridedAttention, NearKeysAndColumnsShareOneSoftmax) {
  // The window of 5 keys covers one column, so the strided part starts at the second.
  const StridedKeys keys = {.stride = 4,
                            .columns = masks::window(masks::unlimited, -2),
                            .near = HeadMasks(masks::causal() & masks::window(5, 0))};
  for (const std::int64_t time : times) expect_naive(keys, time);
}

TEST(StridedAttention, DropoutDependsOnPairPosition) {
  const StridedKeys near = {.stride = 4,
                            .columns = masks::window(masks::unlimited, -2),
                            .near = HeadMasks(masks::causal() & masks::window(5, 0))};
  for (const std::int64_t time : {5, 40, 301}) expect_naive(near, time, 0.4);
  // Strides that are not multiples of 4, the number of random values per block.
  for (const std::int64_t stride : {2, 3, 5}) expect_naive({.stride = stride}, 200, 0.4);
}

TEST(StridedAttention, SupportsKeysPerHead) {
  // The first head attends to a window, the second to columns.
  const StridedKeys divided = {
      .stride = 4,
      .columns = HeadMasks({masks::nothing(), masks::causal()}),
      .near = HeadMasks({masks::causal() & masks::window(2, 0), masks::nothing()})};
  const StridedKeys mixed = {
      .stride = 4,
      .columns = HeadMasks({masks::window(masks::unlimited, -1), masks::causal()}),
      .near = HeadMasks({masks::causal() & masks::window(2, 0), masks::nothing()})};
  for (const std::int64_t time : times) {
    expect_naive(divided, time);
    expect_naive(mixed, time);
  }
}

TEST(StridedAttention, RejectsMismatchedShapesAndStride) {
  const Variable x(random_tensor({1, 4, 2, 3}, 1));
  const Variable longer(random_tensor({1, 5, 2, 3}, 1));
  EXPECT_THROW(strided_attention(x, longer, longer, {.stride = 2}), Failure);
  EXPECT_THROW(strided_attention(x, x, x, {.stride = 0}), Failure);
  const HeadMasks three({masks::causal(), masks::causal(), masks::causal()});
  EXPECT_THROW(strided_attention(x, x, x, {.stride = 2, .columns = three}), Failure);
}

}  // namespace
}  // namespace longspan::strided_attention_test
