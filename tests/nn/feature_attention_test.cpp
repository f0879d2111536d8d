// Attention types with feature maps, against their definitions.
#include <algorithm>
#include <numeric>

#include "framework/autograd/attention.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/attention/linear_attention.h"
#include "framework/nn/attention/random_projection.h"
#include "tests/nn/layer_testing.h"

namespace longspan::feature_attention_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t batch = 2, heads = 2, dim = 4, width = 6;

std::unique_ptr<MultiHeadAttention> layer_of(const std::string& kind,
                                             Parameters& parameters,
                                             AttentionOptions options = {},
                                             bool causal = true) {
  options.kinds = {kind};
  options.features.count = 7;
  if (!causal) options.features.gate = false;
  const AttentionBuildOptions setting = {
      .layers = 1, .heads = heads, .dim = dim, .width = width, .causal = causal};
  const Scope scope = Scope(parameters).child("attention");
  auto layer = std::make_unique<MultiHeadAttention>(
      scope,
      MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim},
      attention_kind(options, 0)->make(scope, options, setting));
  allocate_randomly(parameters, 3);
  return layer;
}

AttentionContext context_of(bool causal) {
  AttentionContext context;
  context.mask.rules = causal ? masks::causal() : masks::everything();
  return context;
}

const std::vector<std::string> causal_kinds = {"linear", "performer", "rfa"};
const std::vector<std::string> whole_kinds = {"linear", "performer", "rfa", "efficient"};

TEST(LinearAttention, GradientsMatchNumericalGradients) {
  for (const bool causal : {true, false})
    for (const std::string& kind : causal ? causal_kinds : whole_kinds) {
      SCOPED_TRACE(kind);
      Parameters parameters = one_process_parameters();
      const auto layer = layer_of(kind, parameters, {}, causal);
      const AttentionContext context = context_of(causal);
      expect_layer_gradients(
          parameters,
          [&](const auto& in) {
            return (*layer)(in[0], Variable(), context, {.training = true, .random = Random(5)});
          },
          {random_tensor({batch, 9, width}, 1)},
          {.directions = 1, .elements = 2});
    }
}

TEST(LinearAttention, CausalOutputDependsOnlyOnEarlierInputs) {
  constexpr std::int64_t time = 80;
  for (const std::string& kind : causal_kinds) {
    SCOPED_TRACE(kind);
    Parameters parameters = one_process_parameters();
    const auto layer = layer_of(kind, parameters);
    const auto run = [&](const Tensor& x) {
      return values_of(
          (*layer)(Variable(x), Variable(), context_of(true), ForwardContext()).value());
    };
    const Tensor x = random_tensor({1, time, width}, 1);
    const Values before = run(x);
    for (const std::int64_t changed : {0, 1, 63, 64, 70, 79}) {
      const Tensor other = x.clone();
      for (std::int64_t c = 0; c < width; ++c) other.data<double>()[changed * width + c] *= -3;
      const Values after = run(other);
      const auto row = static_cast<std::ptrdiff_t>(changed * width);
      EXPECT_TRUE(std::equal(before.begin(), before.begin() + row, after.begin())) << changed;
      EXPECT_FALSE(std::equal(before.begin() + row, before.end(), after.begin() + row)) << changed;
    }
  }
}

TEST(LinearAttention, MasksPadding) {
  for (const std::string& kind : whole_kinds) {
    SCOPED_TRACE(kind);
    Parameters parameters = one_process_parameters();
    const auto layer = layer_of(kind, parameters, {}, false);
    AttentionContext context = context_of(false);
    context.mask.key_length =
        Tensor::from<std::int64_t>(std::vector<std::int64_t>{8}, {1}, backend_device());
    const auto run = [&](double padding, std::int64_t time) {
      const Tensor x = Tensor::empty({1, time, width}, DType::f64, backend_device());
      const Tensor numbers = random_tensor({1, 8, width}, 1);
      std::fill_n(x.data<double>(), x.elements(), padding);
      std::copy_n(numbers.data<double>(), numbers.elements(), x.data<double>());
      Values y = values_of((*layer)(Variable(x), Variable(), context, ForwardContext()).value());
      y.resize(8 * width);
      return y;
    };
    EXPECT_EQ(run(1, 11), run(50, 11));
    expect_close(run(1, 11), run(0, 8), 1e-12);
  }
}

TEST(LinearAttention, CachedStateMatchesFullSequence) {
  constexpr std::int64_t total = 70;
  for (const std::string& kind : causal_kinds)
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{1}, {2, 1, 3}, {65, 1}}) {
      SCOPED_TRACE(kind);
      Parameters parameters = one_process_parameters();
      const auto layer = layer_of(kind, parameters);
      EXPECT_TRUE(layer->supports_kv_cache());
      const NoGradGuard unrecorded;
      const Tensor x = random_tensor({1, total, width}, 5);
      const Values whole =
          values_of((*layer)(Variable(x), Variable(), context_of(true), ForwardContext()).value());
      ForwardContext pass;
      pass.kv_cache = std::make_shared<KVCache>();
      std::size_t turn = 0;
      for (std::int64_t begin = 0; begin < total;) {
        const std::int64_t end = std::min(total, begin + sizes[turn++ % sizes.size()]);
        const Tensor piece =
            x.reshape({total, width}).slice(begin, end).reshape({1, end - begin, width});
        const Variable y = (*layer)(Variable(piece), Variable(), context_of(true), pass);
        pass.kv_cache->advance(end - begin);
        expect_close(values_of(y.value()),
                     {whole.begin() + begin * width, whole.begin() + end * width},
                     1e-11);
        begin = end;
      }
    }
}

TEST(LinearAttention, ReordersCachedStates) {
  for (const std::string& kind : causal_kinds) {
    SCOPED_TRACE(kind);
    Parameters parameters = one_process_parameters();
    const auto layer = layer_of(kind, parameters);
    const NoGradGuard unrecorded;
    const auto read = [&](const ForwardContext& pass, const Tensor& x) {
      const Values y = values_of((*layer)(Variable(x), Variable(), context_of(true), pass).value());
      pass.kv_cache->advance(x.shape()[1]);
      return y;
    };
    ForwardContext pass;
    pass.kv_cache = std::make_shared<KVCache>();
    const Tensor first = random_tensor({2, 3, width}, 1), next = random_tensor({3, 1, width}, 2);
    read(pass, first);
    EXPECT_THROW(read(pass, next), Failure);  // other rows
    pass.kv_cache->choose(std::vector<std::int64_t>{1, 0, 1});
    const Values found = read(pass, next);
    const std::int64_t sources[] = {1, 0, 1};
    for (std::int64_t i = 0; i < 3; ++i) {
      ForwardContext alone;
      alone.kv_cache = std::make_shared<KVCache>();
      read(alone, first.slice(sources[i], sources[i] + 1));
      const Values expected = read(alone, next.slice(i, i + 1));
      expect_close({found.begin() + i * width, found.begin() + (i + 1) * width}, expected, 1e-12);
    }
    EXPECT_THROW(pass.kv_cache->choose(std::vector<std::int64_t>{3}), Failure);
  }
}

TEST(LinearAttention, SupportsNarrowDTypes) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::string& kind : causal_kinds) {
      Parameters parameters(backend_device(), dtype, ProcessMesh());
      AttentionOptions options = {.kinds = {kind}};
      const AttentionBuildOptions setting = {
          .layers = 1, .heads = heads, .dim = 8, .width = 16, .compute = dtype};
      const Scope scope = Scope(parameters).child("attention");
      const MultiHeadAttention layer(scope,
                                     {.width = 16, .heads = heads, .dim = 8},
                                     attention_kind(options, 0)->make(scope, options, setting));
      parameters.allocate(Random(1));
      const Variable x =
          Variable::leaf(cast(Variable(random_tensor({1, 150, 16}, 1, 8)), dtype).value().clone());
      const Variable y = layer(x, Variable(), context_of(true), {.training = true});
      backward({y}, {y.value().clone()});
      for (const Tensor& tensor : {y.value(), x.gradient()})
        EXPECT_TRUE(
            std::ranges::all_of(values_of(tensor), [](double v) { return std::isfinite(v); }))
            << kind << " " << name_of(dtype);
    }
}

TEST(OrthogonalProjection, RowsAreOrthogonalWithGaussianLengths) {
  constexpr std::int64_t size = 16, count = 200;
  const Tensor w = orthogonal_projection(Random(3), count, size, DType::f64, backend_device());
  const auto product = [&](std::int64_t a, std::int64_t b) {
    return std::inner_product(w.data<double>() + a * size,
                              w.data<double>() + (a + 1) * size,
                              w.data<double>() + b * size,
                              0.0);
  };
  double squares = 0;
  for (std::int64_t a = 0; a < count; ++a) {
    squares += product(a, a);
    for (std::int64_t b = a / size * size; b < a; ++b) EXPECT_NEAR(product(a, b), 0, 1e-12);
  }
  EXPECT_NEAR(squares / count, size, 1.5);  // the deviation of the mean is 0.4
  EXPECT_GT(std::abs(product(0, size)), 1e-6);
}

// The mean over projections is exp(q.k / sqrt(dim)). Orthogonal projections have a lower variance.
TEST(PerformerAttention, ProductsEstimateSoftmaxWithoutBias) {
  constexpr std::int64_t size = 4, draws = 2000;
  const Tensor q = random_tensor({1, 1, 1, size}, 1, 0.8),
               k = random_tensor({1, 1, 1, size}, 2, 0.8);
  const double expected = std::exp(detail::dot(q, k) / 2);
  const RandomFeatures map = {.scale = std::pow(size, -0.25)};
  const auto drawn = [&](const auto& project) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < draws; ++i) {
      const Tensor w = project(Random(7).child(static_cast<std::uint64_t>(i)));
      const StabilizedFeatures a = random_features(Variable(q), w, map);
      const StabilizedFeatures b = random_features(Variable(k), w, map);
      const double product = detail::dot(a.features.value(), b.features.value()) *
                             std::exp(a.shift.item() + b.shift.item());
      sum += product;
      squares += product * product;
    }
    const double mean = sum / draws;
    return std::pair(mean, squares / draws - mean * mean);
  };
  const auto [mean, variance] = drawn([](const Random& random) {
    return orthogonal_projection(random, size, size, DType::f64, backend_device());
  });
  const auto [gaussian_mean, gaussian_variance] = drawn([](const Random& random) {
    return gaussian_projection(random, size, size, DType::f64, backend_device());
  });
  EXPECT_NEAR(mean, expected, 3 * std::sqrt(variance / draws));
  EXPECT_NEAR(gaussian_mean, expected, 3 * std::sqrt(gaussian_variance / draws));
  EXPECT_LT(variance, gaussian_variance);
}

// The error falls with the number of features.
TEST(PerformerAttention, ApproachesSoftmaxWithMoreFeatures) {
  constexpr std::int64_t time = 12;
  const Variable q(random_tensor({1, time, 1, dim}, 1, 0.7)),
      k(random_tensor({1, time, 1, dim}, 2, 0.7)), v(random_tensor({1, time, 1, dim}, 3));
  const Values expected = values_of(attention(q, k, v, {}).value());
  const auto error = [&](std::int64_t count) {
    double sum = 0;
    for (std::int64_t seed = 0; seed < 8; ++seed) {
      Parameters parameters = one_process_parameters();
      const PerformerAttentionOp performer(
          Scope(parameters), {.features = {.count = count, .seed = seed}, .dim = dim});
      const Values found =
          values_of(performer({.query = q, .key = k, .value = v, .heads = {0, 1, 1}},
                              context_of(true),
                              ForwardContext())
                        .value());
      for (std::size_t i = 0; i < found.size(); ++i)
        sum += (found[i] - expected[i]) * (found[i] - expected[i]);
    }
    return std::sqrt(sum);
  };
  // Asymptotically as 1 / sqrt(features): an eighth.
  EXPECT_LT(error(4096), error(64) / 4);
}

TEST(PerformerAttention, RedrawsProjectionAtInterval) {
  Parameters parameters = one_process_parameters();
  const PerformerAttentionOp performer(Scope(parameters).child("a"),
                                       {.features = {.count = 5, .redraw = 10}, .dim = dim});
  const auto drawn = [&](std::int64_t steps, bool training) {
    parameters.set_steps(steps);
    return performer.projection({.training = training}).clone();
  };
  const Tensor first = drawn(0, true), second = drawn(10, true);
  EXPECT_TRUE(same_bits(first, drawn(9, true)));
  EXPECT_TRUE(same_bits(first, drawn(10, false)));  // the last projection of training
  EXPECT_FALSE(same_bits(first, second));
  EXPECT_TRUE(same_bits(second, drawn(11, false)));
  const PerformerAttentionOp other(Scope(parameters).child("b"),
                                   {.features = {.count = 5, .redraw = 10}, .dim = dim});
  EXPECT_FALSE(same_bits(second, other.projection({.training = true})));
}

TEST(LinearAttention, RejectsMemoryAndOtherMasks) {
  for (const std::string& kind : whole_kinds) {
    Parameters parameters = one_process_parameters();
    const auto layer = layer_of(kind, parameters, {}, false);
    const Variable x(random_tensor({1, 5, width}, 1));
    AttentionContext memory = context_of(false), window;
    memory.mask.query_begin = 3;
    window.mask.rules = masks::window(2, 0);
    EXPECT_THROW((*layer)(x, Variable(), memory, ForwardContext()), ConfigurationError);
    EXPECT_THROW((*layer)(x, Variable(), window, ForwardContext()), ConfigurationError);
  }
  Parameters parameters = one_process_parameters();
  const auto efficient = layer_of("efficient", parameters, {}, false);
  EXPECT_THROW((*efficient)(Variable(random_tensor({1, 5, width}, 1)),
                            Variable(),
                            context_of(true),
                            ForwardContext()),
               ConfigurationError);
}

}  // namespace
}  // namespace longspan::feature_attention_test
