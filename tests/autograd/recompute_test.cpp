// Functions that the backward pass recomputes.
#include "framework/autograd/recompute.h"

#include "tests/support/gradient_check.h"

namespace longspan::recompute_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::expect_gradients;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr double rate = 0.3;

// gelu(dropout(x) weight^T). Only the dropout mask depends on the position of a row.
Variable layer(const Variable& x,
               const Variable& weight,
               const Random& random,
               const ShardPlacement& placement) {
  return activate(Activation::gelu,
                  linear(dropout(x, rate, random, placement), weight, Variable()));
}
Variable layer(const Variable& x, const Variable& weight) {
  return layer(
      x, weight, Random(5), {.middle_total = x.shape()[1], .inner_total = x.shape().width()});
}

// Counts the calls of the gradient hook of a leaf.
struct Counted {
  Variable leaf;
  std::shared_ptr<int> announced = std::make_shared<int>(0);

  explicit Counted(Tensor value) : leaf(Variable::leaf(std::move(value))) {
    leaf.register_gradient_hook([count = announced] { ++*count; });
  }
};

TEST(Recompute, InputAndLeafGradientsMatchDifferences) {
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return recompute(
            [weight = v[2]](const std::vector<Variable>& in) {
              return add(layer(in[0], weight), in[1]);
            },
            {v[0], v[1]});
      },
      {random_tensor({2, 3, 4}, 1), random_tensor({2, 3, 4}, 2), random_tensor({4, 4}, 3)});
}

TEST(Recompute, NestedMatchesPlain) {
  const auto run = [](bool again) {
    const Counted weight(random_tensor({4, 4}, 1));
    const Counted x(random_tensor({2, 3, 4}, 2));
    const auto once = [&](const Variable& in) {
      const RecomputedFunction f = [w = weight.leaf](const std::vector<Variable>& v) {
        return layer(v[0], w);
      };
      return again ? recompute(f, {in}) : f({in});
    };
    const RecomputedFunction twice = [once](const std::vector<Variable>& v) {
      return once(once(v[0]));
    };
    const Variable first = layer(x.leaf, weight.leaf);
    const Variable y = again ? recompute(twice, {first}) : twice({first});
    backward(sum(layer(y, weight.leaf)));
    EXPECT_EQ(*weight.announced, 1);
    EXPECT_EQ(*x.announced, 1);
    return std::pair(values_of(x.leaf.gradient()), values_of(weight.leaf.gradient()));
  };
  const auto [x, weight] = run(true);
  const auto [plain_x, plain_weight] = run(false);
  expect_close(x, plain_x, 1e-13);
  expect_close(weight, plain_weight, 1e-13);
}

TEST(Recompute, StoresOnlyInputs) {
  const Device device = Device::cpu();
  const auto live = [&] {
    return device.allocator()
        .report()
        .by_tag[static_cast<std::size_t>(MemoryTag::activations)]
        .live;
  };
  const Variable x = Variable::leaf(Tensor::zeros({64, 64}, DType::f64, device));
  const std::int64_t before = live();
  const std::int64_t one = 64 * 64 * 8;
  const RecomputedFunction deep = [](const std::vector<Variable>& v) {
    Variable y = v[0];
    for (int i = 0; i < 8; ++i) y = activate(Activation::gelu, y);
    return y;
  };
  const Variable plain = deep({x});
  EXPECT_EQ(live() - before, 8 * one);
  const std::int64_t with_plain = live();
  const Variable again = recompute(deep, {x});
  EXPECT_EQ(live() - with_plain, one) << "its value";
}

TEST(Recompute, RejectsCapturedNonLeaf) {
  const Variable leaf = Variable::leaf(random_tensor({2, 2}, 1));
  const Variable computed = add(leaf, leaf);
  EXPECT_THROW(
      recompute([&](const std::vector<Variable>& v) { return add(v[0], computed); }, {leaf}),
      Failure);
}

TEST(RecomputeChunked, ChunksCoverAllRowsInOrder) {
  for (const std::int64_t outer : {1, 3, 4})
    for (const std::int64_t middle : {1, 5, 6})
      for (const std::int64_t pieces : {1, 2, 3, 4, 7, 100}) {
        SCOPED_TRACE(fmt::format("{} x {} in {}", outer, middle, pieces));
        std::int64_t next = 0;
        const std::vector<RowChunk> all = split_rows(outer, middle, pieces);
        for (const RowChunk& piece : all) {
          EXPECT_EQ(piece.begin, next);
          EXPECT_EQ(piece.outer_begin * middle + piece.middle_begin, next);
          EXPECT_TRUE(piece.outer == 1 || piece.middle == middle);
          EXPECT_GT(piece.rows(), 0);
          next += piece.rows();
        }
        EXPECT_EQ(next, outer * middle);
        EXPECT_GE(std::ssize(all), std::min(pieces, outer * middle));
      }
}

// Source of zero rows: a short segment on several ranks.
TEST(RecomputeChunked, SupportsZeroRows) {
  for (const std::int64_t pieces : {2, 5}) {
    ASSERT_EQ(split_rows(2, 0, pieces).size(), 1U);
    EXPECT_EQ(split_rows(2, 0, pieces).front().rows(), 0);
    const Variable x = Variable::leaf(random_tensor({2, 0, 4}, 1));
    const Variable weight = Variable::leaf(random_tensor({5, 4}, 2));
    const Variable y = recompute_chunked(
        [&](const Variable& rows, const RowChunk&) { return linear(rows, weight, {}); }, x, pieces);
    EXPECT_EQ(y.shape(), Shape({0, 5}));
    backward({y}, {Tensor::zeros({0, 5}, DType::f64, x.value().device())});
    EXPECT_EQ(values_of(weight.gradient()), Values(20, 0.0));
    const Variable row(random_tensor({1, 4}, 3));
    const Variable losses = recompute_chunked(
        [&](const Variable& rows, const RowChunk& piece) {
          return reshape(linear(rows, row, {}), {piece.rows()});
        },
        x,
        pieces);
    EXPECT_EQ(losses.shape(), Shape({0, 1}));
  }
}

TEST(RecomputeChunked, MatchesUnchunkedGradients) {
  for (const std::int64_t pieces : {2, 5}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return recompute_chunked(
              [weight = v[1]](const Variable& rows, const RowChunk& piece) {
                return layer(rows,
                             weight,
                             Random(5),
                             {.outer_begin = piece.outer_begin,
                              .middle_begin = piece.middle_begin,
                              .middle_total = 3,
                              .inner_total = 4});
              },
              v[0],
              pieces);
        },
        {random_tensor({2, 3, 4}, 1), random_tensor({5, 4}, 2)});
    const Variable x(random_tensor({2, 3, 4}, 1)), weight(random_tensor({5, 4}, 2));
    const Variable whole = layer(x, weight);
    const Variable cut = recompute_chunked(
        [&](const Variable& rows, const RowChunk& piece) {
          return layer(rows,
                       weight,
                       Random(5),
                       {.outer_begin = piece.outer_begin,
                        .middle_begin = piece.middle_begin,
                        .middle_total = 3,
                        .inner_total = 4});
        },
        x,
        pieces);
    expect_close(values_of(cut.value()), values_of(whole.value()), 1e-13);
  }
}

// Four sublayers over two streams, by reversible_add or by plain ops. Each also reads `side`.
struct Streams {
  Variable a;
  Variable b;
};
Streams two_streams(bool reversible,
                    Streams streams,
                    const Variable& weight,
                    const Variable& side) {
  const auto kept = std::make_shared<ReversibleStreams>();
  for (std::uint64_t i = 0; i < 4; ++i) {
    const ReversibleFunction f = [weight, i](const Variable& b, const auto& extra) {
      return layer(add(b, activate(Activation::gelu, extra.front())),
                   weight,
                   Random(5).child(i),
                   {.middle_total = b.shape()[1], .inner_total = 4});
    };
    Variable c = reversible ? reversible_add(std::move(streams.a), streams.b, f, kept, {side})
                            : add(streams.a, f(streams.b, {side}));
    streams = {std::move(streams.b), std::move(c)};
  }
  return streams;
}

TEST(Reversible, MatchesPlainGradients) {
  const auto run = [](bool reversible) {
    const Counted weight(random_tensor({4, 4}, 1));
    const Variable x = Variable::leaf(random_tensor({2, 3, 4}, 2));
    const Variable z = Variable::leaf(random_tensor({2, 3, 4}, 3));
    const Variable side = Variable::leaf(random_tensor({2, 3, 4}, 6));
    const Streams y = two_streams(reversible, {x, z}, weight.leaf, side);
    backward({y.a, y.b}, {random_tensor({2, 3, 4}, 4), random_tensor({2, 3, 4}, 5)});
    EXPECT_EQ(*weight.announced, 1);
    Values all = values_of(y.b.value());
    for (const Variable& leaf : {x, z, side, weight.leaf})
      for (const double value : values_of(leaf.gradient())) all.push_back(value);
    return all;
  };
  expect_close(run(true), run(false), 1e-12);
}

TEST(Reversible, GradientsMatchDifferences) {
  expect_gradients(
      [](const std::vector<Variable>& v) {
        const Streams y = two_streams(true, {v[0], v[1]}, v[2], v[3]);
        return add(y.a, y.b);
      },
      {random_tensor({2, 3, 4}, 1),
       random_tensor({2, 3, 4}, 2),
       random_tensor({4, 4}, 3),
       random_tensor({2, 3, 4}, 4)});
}

TEST(Reversible, SupportsSharedInputStreams) {
  expect_gradients(
      [](const std::vector<Variable>& v) {
        const Streams y = two_streams(true, {v[0], v[0]}, v[1], v[0]);
        return add(y.a, y.b);
      },
      {random_tensor({2, 3, 4}, 1), random_tensor({4, 4}, 3)});
}

TEST(Reversible, RejectsBackwardFromInsideChain) {
  const Variable x = Variable::leaf(random_tensor({1, 2, 4}, 1));
  const auto kept = std::make_shared<ReversibleStreams>();
  const ReversibleFunction f = [](const Variable& b, const auto&) {
    return activate(Activation::gelu, b);
  };
  const Variable first = reversible_add(Variable(x), x, f, kept);
  const Variable second = reversible_add(Variable(x), first, f, kept);
  EXPECT_THROW(backward(sum(first)), Failure);
}

}  // namespace
}  // namespace longspan::recompute_test
