// Collective ops: gradients, and a sharded vocabulary against the full one.
#include <numeric>

#include "framework/autograd/collectives.h"
#include "framework/autograd/ops.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::collectives_mesh_test {
namespace {

using testing::backend_device;
using testing::on_ranks;
using testing::tensor_of;
using testing::Values;
using testing::values_of;

Tensor random_tensor(const Shape& shape, std::uint64_t seed, double deviation = 1) {
  return tensor_of<double>(testing::normal_values<double>(shape.elements(), seed, deviation),
                           shape);
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

std::uint64_t own_seed(const Communicator& ranks, std::uint64_t seed) {
  return seed + 10 * static_cast<std::uint64_t>(ranks.rank());
}

// A tensor-parallel feed-forward layer: replicated input, sharded hidden layer, summed output.
Variable block(const Variable& x,
               const Variable& in,
               const Variable& out,
               const Communicator& ranks) {
  const Variable hidden =
      activate(Activation::gelu, linear(copy_to_tensor_parallel_region(x, ranks), in, Variable()));
  return reduce_from_tensor_parallel_region(linear(hidden, out, Variable()), ranks);
}

TEST(TensorParallelRegion, GradientsMatchDifferences) {
  for (const int size : {1, 2, 4})
    on_ranks(size, [](const Communicator& ranks) {
      const Tensor x = random_tensor({3, 4}, 1);
      const Tensor in = random_tensor({2, 4}, own_seed(ranks, 2));
      const Tensor out = random_tensor({4, 2}, own_seed(ranks, 3));
      const Tensor upstream = random_tensor({3, 4}, 4);
      const Variable leaf_x = Variable::leaf(x.clone());
      const Variable leaf_in = Variable::leaf(in.clone());
      const Variable leaf_out = Variable::leaf(out.clone());
      backward({block(leaf_x, leaf_in, leaf_out, ranks)}, {upstream.clone()});

      // All ranks move the replicated input together; one rank at a time moves its shard.
      const auto loss = [&](double dx, double din, double dout) {
        const NoGradGuard no_gradient;
        const auto moved = [](const Tensor& from, double distance, std::uint64_t seed) {
          const Tensor to = from.clone();
          const Tensor direction = random_tensor(from.shape(), seed);
          for (std::int64_t i = 0; i < to.elements(); ++i)
            to.data<double>()[i] += distance * direction.data<double>()[i];
          return Variable(to);
        };
        return dot(block(moved(x, dx, 7), moved(in, din, 8), moved(out, dout, 9), ranks).value(),
                   upstream);
      };
      const auto difference = [](const auto& f) {
        const double h = 1e-4;
        return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
      };
      const auto expect = [](double found, double expected) {
        EXPECT_NEAR(found, expected, 1e-9 * std::max(1.0, std::abs(expected)));
      };
      expect(dot(leaf_x.gradient(), random_tensor({3, 4}, 7)),
             difference([&](double h) { return loss(h, 0, 0); }));
      for (int mover = 0; mover < ranks.size(); ++mover) {
        const double mine = mover == ranks.rank() ? 1 : 0;
        const double in_difference = difference([&](double h) { return loss(0, mine * h, 0); });
        const double out_difference = difference([&](double h) { return loss(0, 0, mine * h); });
        if (mover != ranks.rank()) continue;
        expect(dot(leaf_in.gradient(), random_tensor({2, 4}, 8)), in_difference);
        expect(dot(leaf_out.gradient(), random_tensor({4, 2}, 9)), out_difference);
      }
    });
}

TEST(TensorParallelRegion, ReduceOverwritesOnlyUnsharedInput) {
  on_ranks(2, [](const Communicator& ranks) {
    const Tensor value = tensor_of<double>({1, 2}, {2});
    const Variable x = Variable::leaf(value);
    Variable handed = x;
    const Variable y = reduce_from_tensor_parallel_region(std::move(handed), ranks);
    EXPECT_EQ(values_of(value), (Values{1, 2}));
    EXPECT_EQ(values_of(y.value()), (Values{2, 4}));
    Variable own(tensor_of<double>({1, 2}, {2}));
    const std::byte* const bytes = own.value().bytes();
    const Variable sum_of_own = reduce_from_tensor_parallel_region(std::move(own), ranks);
    EXPECT_EQ(values_of(sum_of_own.value()), (Values{2, 4}));
    EXPECT_EQ(sum_of_own.value().bytes(), bytes) << "no copy where nobody else looks";
  });
}

TEST(TensorParallelRegion, CopyDoesNotOverwriteSharedGradient) {
  on_ranks(2, [](const Communicator& ranks) {
    const Variable x = Variable::leaf(tensor_of<double>({1, 2}, {2}));
    // add passes one gradient tensor to both of its inputs.
    const Variable outside = add(copy_to_tensor_parallel_region(x, ranks), x);
    backward({outside}, {tensor_of<double>({3, 5}, {2})});
    EXPECT_EQ(values_of(x.gradient()), (Values{2 * 3 + 3, 2 * 5 + 5}));
  });
}

// Positions [begin, begin + count) of x [batch, time, width].
Tensor times_of(const Tensor& x, std::int64_t begin, std::int64_t count) {
  const Tensor result = Tensor::empty(x.shape().with(1, count), DType::f64, backend_device());
  const std::int64_t width = x.shape()[2];
  for (std::int64_t b = 0; b < x.shape()[0]; ++b)
    std::copy_n(x.data<double>() + (b * x.shape()[1] + begin) * width,
                count * width,
                result.data<double>() + b * count * width);
  return result;
}

// Output and input gradient of each rank equal its rows of the replicated ones.
TEST(SequenceParallelRegion, MatchesTensorParallelRegion) {
  const std::vector<std::vector<std::int64_t>> divisions = {
      {3}, {2, 2}, {2, 3}, {0, 1}, {2, 2, 2, 2}, {1, 0, 3, 2}};
  for (const auto& rows : divisions)
    for (const std::int64_t batch : {1, 3})
      on_ranks(static_cast<int>(rows.size()), [&](const Communicator& ranks) {
        const auto own = static_cast<std::size_t>(ranks.rank());
        const std::int64_t begin = std::accumulate(rows.begin(), rows.begin() + ranks.rank(), 0l);
        const std::int64_t time = std::accumulate(rows.begin(), rows.end(), 0l);
        const Tensor x = random_tensor({batch, time, 4}, 1);
        const Tensor upstream = random_tensor({batch, time, 4}, 4);
        const Tensor in = random_tensor({2, 4}, own_seed(ranks, 2));
        const Tensor out = random_tensor({4, 2}, own_seed(ranks, 3));
        const Variable whole = Variable::leaf(x.clone());
        const Variable whole_in = Variable::leaf(in.clone());
        const Variable expected = block(whole, whole_in, Variable(out), ranks);
        const Tensor expected_value = expected.value().clone();
        backward({expected}, {upstream.clone()});

        const Variable part = Variable::leaf(times_of(x, begin, rows[own]));
        const Variable part_in = Variable::leaf(in.clone());
        const Variable hidden = activate(
            Activation::gelu,
            linear(gather_from_sequence_parallel_region(part, rows, ranks), part_in, Variable()));
        const Variable found = reduce_scatter_to_sequence_parallel_region(
            linear(hidden, Variable(out), Variable()), rows, ranks);
        const Tensor found_value = found.value().clone();
        backward({found}, {times_of(upstream, begin, rows[own])});
        const auto expect = [](const Tensor& a, const Tensor& b) {
          testing::expect_close(values_of(a), values_of(b), 1e-13);
        };
        expect(found_value, times_of(expected_value, begin, rows[own]));
        expect(part.gradient(), times_of(whole.gradient(), begin, rows[own]));
        expect(part_in.gradient(), whole_in.gradient());
      });
}

TEST(SequenceToHeads, GathersRowsInOrderAndInverts) {
  // Each rank has chunks of both ends. Some are uneven, some empty.
  const std::vector<std::vector<Ranges>> divisions = {
      {{{0, 5}}},
      {{{0, 2}, {6, 8}}, {{2, 6}}},
      {{{0, 1}, {4, 5}}, {{1, 4}}},
      {{{0, 0}, {0, 1}}, {{0, 0}}},
      {{{0, 2}, {14, 16}}, {{2, 4}, {12, 14}}, {{4, 6}, {10, 12}}, {{6, 10}}}};
  for (const auto& positions : divisions)
    on_ranks(static_cast<int>(positions.size()), [&](const Communicator& ranks) {
      const std::int64_t batch = 3, heads = 4, dim = 2;
      const std::int64_t own_heads = heads / ranks.size();
      std::int64_t total = 0;
      for (const Ranges& ranges : positions) total += total_count(ranges);
      const Tensor whole = random_tensor({batch, total, heads * dim}, 1);
      const Ranges& own = positions[static_cast<std::size_t>(ranks.rank())];
      const std::int64_t rows = total_count(own);
      const Tensor mine = Tensor::empty({batch, rows, heads, dim}, DType::f64, backend_device());
      const Tensor expected =
          Tensor::empty({batch, total, own_heads, dim}, DType::f64, backend_device());
      double* to = mine.data<double>();
      for (std::int64_t b = 0; b < batch; ++b)
        for (const Range& range : own)
          to = std::copy_n(whole.data<double>() + (b * total + range.begin) * heads * dim,
                           range.count() * heads * dim,
                           to);
      for (std::int64_t row = 0; row < batch * total; ++row)
        std::copy_n(whole.data<double>() + row * heads * dim + ranks.rank() * own_heads * dim,
                    own_heads * dim,
                    expected.data<double>() + row * own_heads * dim);
      const Variable x = Variable::leaf(mine.clone());
      const Variable swapped = sequence_to_heads(x, positions, ranks);
      EXPECT_EQ(values_of(swapped.value()), values_of(expected));
      const Variable back = heads_to_sequence(swapped, positions, ranks);
      EXPECT_EQ(values_of(back.value()), values_of(mine));
      // Each exchange is a permutation over the ranks; its gradient is the inverse.
      backward({back}, {mine.clone()});
      EXPECT_EQ(values_of(x.gradient()), values_of(mine));
    });
}

TEST(SequenceToHeads, RejectsIndivisibleHeads) {
  on_ranks(2, [](const Communicator& ranks) {
    const Variable x(random_tensor({1, 2, 3, 2}, 1));
    EXPECT_THROW(sequence_to_heads(x, {{{0, 2}}, {{2, 4}}}, ranks), ConfigurationError);
  });
}

struct Case {
  const char* name;
  std::int64_t vocabulary;
  double deviation;  // of the logits
  double smoothing;
  LabelSmoothingStyle kind;
};

// This rank's columns of the full logits. With 3 ids over 4 ranks one rank has none.
struct Columns {
  std::int64_t begin;
  std::int64_t end;

  Columns(std::int64_t vocabulary, const Communicator& ranks)
      : begin(vocabulary * ranks.rank() / ranks.size()),
        end(vocabulary * (ranks.rank() + 1) / ranks.size()) {}
  Tensor of(const Tensor& whole) const {
    const Tensor result =
        Tensor::empty({whole.shape()[0], end - begin}, DType::f64, backend_device());
    for (std::int64_t row = 0; row < whole.shape()[0]; ++row)
      std::copy_n(whole.data<double>() + row * whole.shape()[1] + begin,
                  end - begin,
                  result.data<double>() + row * (end - begin));
    return result;
  }
};

TEST(CrossEntropy, ShardedVocabularyMatchesFull) {
  const std::int64_t rows = 6;
  std::vector<Case> cases;
  for (const std::int64_t vocabulary : {3, 5, 16})
    for (const double deviation : {1.0, 1e4}) {
      cases.push_back({"plain", vocabulary, deviation, 0, LabelSmoothingStyle::all_classes});
      cases.push_back(
          {"all classes", vocabulary, deviation, 0.1, LabelSmoothingStyle::all_classes});
      cases.push_back(
          {"wrong classes", vocabulary, deviation, 0.1, LabelSmoothingStyle::wrong_classes});
    }
  for (const int size : {1, 2, 4})
    on_ranks(size, [&](const Communicator& ranks) {
      for (const Case& c : cases) {
        SCOPED_TRACE(fmt::format("{} ids, {}, logits of {}", c.vocabulary, c.name, c.deviation));
        const Tensor whole = random_tensor({rows, c.vocabulary}, 1, c.deviation);
        const Tensor targets = Tensor::empty({rows}, DType::i64, backend_device());
        for (std::int64_t i = 0; i < rows; ++i)
          targets.data<std::int64_t>()[i] = i == 2 ? -1 : i % c.vocabulary;
        const Tensor upstream = random_tensor({rows}, 2);
        const auto run = [&](const Tensor& logits, std::int64_t begin, const Communicator& over) {
          const Variable leaf = Variable::leaf(logits.clone());
          Variable handed = leaf;
          const Variable losses = cross_entropy(std::move(handed),
                                                targets,
                                                {.vocabulary = c.vocabulary,
                                                 .vocabulary_begin = begin,
                                                 .smoothing = c.smoothing,
                                                 .kind = c.kind},
                                                over);
          const Tensor values = losses.value().clone();
          backward({losses}, {upstream.clone()});
          return std::pair(values, leaf.gradient());
        };
        const auto [expected, expected_gradient] = run(whole, 0, Communicator());
        const Columns columns(c.vocabulary, ranks);
        const auto [losses, gradient] = run(columns.of(whole), columns.begin, ranks);
        testing::expect_close(values_of(losses), values_of(expected), 1e-13);
        testing::expect_close(values_of(gradient), values_of(columns.of(expected_gradient)), 1e-13);
        for (const double loss : values_of(losses)) EXPECT_TRUE(std::isfinite(loss));
        EXPECT_EQ(losses.data<double>()[2], 0);
      }
    });
}

}  // namespace
}  // namespace longspan::collectives_mesh_test
