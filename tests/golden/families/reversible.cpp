// A reversible stack (lucidrains' reformer-pytorch): y1 = x1 + f(x2), y2 = x2 + g(y1), with f = W2
// tanh(W1 x + b1) + b2, and relu in g.
#include "framework/autograd/ops.h"
#include "framework/autograd/recompute.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

// One half of the last axis of [batch, time, 2 width].
Tensor half(const Tensor& both, int which) {
  const Shape shape = both.shape();
  const std::int64_t width = shape[2] / 2;
  const Tensor result = Tensor::empty(shape.with(2, width), DType::f64, both.device());
  for (std::int64_t row = 0; row < shape.rows(); ++row)
    std::copy_n(both.data<double>() + (2 * row + which) * width,
                width,
                result.data<double>() + row * width);
  return result;
}

Tensor joined(const Tensor& first, const Tensor& second) {
  const std::int64_t width = first.shape()[2];
  const Tensor result = Tensor::empty(first.shape().with(2, 2 * width), DType::f64, first.device());
  for (std::int64_t row = 0; row < first.shape().rows(); ++row) {
    double* const to = result.data<double>() + 2 * row * width;
    std::copy_n(first.data<double>() + row * width, width, to);
    std::copy_n(second.data<double>() + row * width, width, to + width);
  }
  return result;
}

}  // namespace

void check_reversible(const GoldenFile& file) {
  const Tensor& x = file.numbers("inputs/x");
  const Tensor& upstream = file.numbers("inputs/upstream");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  expect_extent(file, "d", x.shape()[2] / 2);
  const Variable first = Variable::leaf(half(x, 0));
  const Variable second = Variable::leaf(half(x, 1));
  std::vector<std::pair<std::string, Variable>> weights;
  const auto weight = [&](const std::string& name) {
    weights.emplace_back(name, leaf_of(file, "weights/" + name));
    return weights.back().second;
  };
  const auto streams = std::make_shared<ReversibleStreams>();
  Variable a = first;
  Variable b = second;
  for (std::int64_t block = 0; block < file.integer("blocks"); ++block)
    for (const std::string name : {"f", "g"}) {
      const std::string place = "block" + std::to_string(block) + "_" + name + "_";
      const Variable w1 = weight(place + "w1"), b1 = weight(place + "b1");
      const Variable w2 = weight(place + "w2"), b2 = weight(place + "b2");
      expect_extent(file, "d_hidden", w1.shape()[0]);
      Variable c = reversible_add(
          std::move(a),
          b,
          [=](const Variable& in, const auto&) {
            return name == "f" ? linear(tanh_of(linear(in, w1, b1)), w2, b2)
                               : feed_forward(in, {w1, b1, w2, b2}, {});
          },
          streams);
      a = std::exchange(b, std::move(c));
    }
  expect_output(file, "y", joined(a.value(), b.value()));
  backward({a, b}, {half(upstream, 0), half(upstream, 1)});
  expect_output(file, "inverse", joined(streams->read, streams->written));
  expect_gradient(file, "x", joined(gradient_of(first), gradient_of(second)));
  for (const auto& [name, leaf] : weights) expect_gradient(file, name, gradient_of(leaf));
}

}  // namespace longspan::golden
