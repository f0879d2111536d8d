#include "framework/kernels/short_convolution.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::short_convolution_test {
namespace {

using namespace longspan::testing;

template <typename T>
class ShortConvolutionTest : public ::testing::Test {};
TYPED_TEST_SUITE(ShortConvolutionTest, FloatingTypes);

struct Case {
  std::int64_t batch, time, channels, taps, later;
  bool has_documents, has_bias, silu;
};

// Positions in documents of lengths 1, 2, 3, ... in turn.
std::vector<std::int64_t> positions_of(const Case& c) {
  std::vector<std::int64_t> positions;
  for (std::int64_t row = 0; row < c.batch; ++row)
    for (std::int64_t begin = 0, length = row + 1; begin < c.time; begin += length++)
      for (std::int64_t i = 0; i < std::min(length, c.time - begin); ++i) positions.push_back(i);
  return positions;
}

struct Expected {
  Values y, dx, dweight, dbias;
};
Expected expected_of(
    const Case& c, const Values& x, const Values& w, const Values& b, const Values& dy) {
  const std::int64_t rows = c.time + c.taps - 1, before = c.taps - 1 - c.later;
  const std::vector<std::int64_t> positions = positions_of(c);
  Expected result = {{}, Values(x.size()), Values(w.size()), Values(b.size())};
  for (std::int64_t row = 0; row < c.batch * c.time; ++row)
    for (std::int64_t channel = 0; channel < c.channels; ++channel) {
      const auto is_read = [&](std::int64_t tap) {
        return !c.has_documents || before - tap <= positions[static_cast<std::size_t>(row)];
      };
      const auto input = [&](std::int64_t tap) {
        return static_cast<std::size_t>((row / c.time * rows + row % c.time + tap) * c.channels +
                                        channel);
      };
      const auto weight = [&](std::int64_t tap) {
        return static_cast<std::size_t>(channel * c.taps + tap);
      };
      const auto at = static_cast<std::size_t>(channel);
      double z = c.has_bias ? b[at] : 0;
      for (std::int64_t tap = 0; tap < c.taps; ++tap)
        if (is_read(tap)) z += w[weight(tap)] * x[input(tap)];
      const double open = 1 / (1 + std::exp(-z));
      const double d = dy[result.y.size()] * (c.silu ? open * (1 + z * (1 - open)) : 1);
      result.y.push_back(c.silu ? z * open : z);
      for (std::int64_t tap = 0; tap < c.taps; ++tap) {
        if (!is_read(tap)) continue;
        result.dx[input(tap)] += d * w[weight(tap)];
        result.dweight[weight(tap)] += d * x[input(tap)];
      }
      if (c.has_bias) result.dbias[at] += d;
    }
  return result;
}

TYPED_TEST(ShortConvolutionTest, MatchesDefinitionAndGradient) {
  using T = TypeParam;
  using A = Accumulator<T>;
  for (const Case& c : {Case{2, 7, 3, 4, 0, false, true, true},
                        Case{2, 7, 3, 4, 0, true, false, true},
                        Case{1, 9, 2, 5, 2, true, true, false},
                        Case{2, 150, 2, 3, 1, false, false, false},
                        Case{1, 5, 2, 5, 4, true, false, false},
                        // Several blocks of channels, groups of rows, and threads.
                        Case{2, 140, 150, 4, 0, true, true, true},
                        Case{1, 270, 64, 3, 1, false, true, false},
                        Case{3, 1, 1, 1, 0, false, false, false}}) {
    const std::int64_t rows = c.time + c.taps - 1;
    const Shape in = {c.batch, rows, c.channels}, out = {c.batch, c.time, c.channels};
    const Values x = normal_values<T>(in.elements(), 1), dy = normal_values<T>(out.elements(), 2);
    const Values w = normal_values<A>(c.channels * c.taps, 3);
    const Values b = normal_values<A>(c.has_bias ? c.channels : 0, 4);
    const Expected expected = expected_of(c, x, w, b, dy);
    ShortConvolution call = {.x = tensor_of<T>(x, in),
                             .weight = tensor_of<A>(w, {c.channels, c.taps}),
                             .later = c.later,
                             .silu = c.silu,
                             .y = poisoned<T>(out)};
    if (c.has_bias) call.bias = tensor_of<A>(b, {c.channels});
    if (c.has_documents)
      call.document_position = ids_of(positions_of(c)).reshape({c.batch, c.time});
    short_convolution(backend(), call);
    expect_close(values_of(call.y), expected.y, tolerance<T>());
    ShortConvolutionGradient gradient = {.forward = call,
                                         .dy = tensor_of<T>(dy, out),
                                         .dx = poisoned<T>(in),
                                         .dweight = poisoned<A>({c.channels, c.taps})};
    if (c.has_bias) gradient.dbias = poisoned<A>({c.channels});
    short_convolution_backward(backend(), gradient);
    expect_close(values_of(gradient.dx), expected.dx, tolerance<T>());
    expect_close(values_of(gradient.dweight), expected.dweight, 10 * tolerance<A>());
    if (c.has_bias) expect_close(values_of(gradient.dbias), expected.dbias, 10 * tolerance<A>());
  }
}

TEST(ShortConvolution, RejectsInvalidCalls) {
  const ShortConvolution call = {.x = Tensor::zeros({1, 4, 2}, DType::f64, backend_device()),
                                 .weight = Tensor::zeros({2, 3}, DType::f64, backend_device()),
                                 .later = 3};
  EXPECT_THROW(check(call), Failure);
}

}  // namespace
}  // namespace longspan::short_convolution_test
