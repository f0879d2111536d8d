#include "framework/kernels/embedding.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::embedding_test {
namespace {

using namespace longspan::testing;

// Ids before, in and after the rows [begin, begin + rows), with one very frequent id.
std::vector<std::int64_t> mixed_ids(std::int64_t count, std::int64_t begin, std::int64_t rows) {
  std::vector<std::int64_t> ids;
  const Random random(9);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto word = static_cast<std::int64_t>(random.word(static_cast<std::uint64_t>(i)));
    ids.push_back(i % 3 == 0 ? begin + rows / 2 : word % (begin + 2 * rows));
  }
  return ids;
}

template <typename T>
class EmbeddingTest : public ::testing::Test {};
TYPED_TEST_SUITE(EmbeddingTest, FloatingTypes);

TYPED_TEST(EmbeddingTest, GatherReadsOwnedRowsAndZerosOthers) {
  for (const std::int64_t width : {1, 3, 17, 700}) {
    const std::int64_t rows = 13, begin = 5, count = 101;
    const auto ids = mixed_ids(count, begin, rows);
    const Values table = normal_values<TypeParam>(rows * width, 1);
    Values expected;
    for (const auto id : ids)
      for (std::int64_t c = 0; c < width; ++c)
        expected.push_back(id < begin || id >= begin + rows
                               ? 0
                               : 3 * table[static_cast<std::size_t>((id - begin) * width + c)]);
    const EmbeddingGather gather{.table = tensor_of<TypeParam>(table, {rows, width}),
                                 .ids = ids_of(ids),
                                 .begin = begin,
                                 .scale = 3,
                                 .out = poisoned<TypeParam>({count, width})};
    embedding_gather(backend(), gather);
    expect_close(values_of(gather.out), expected, tolerance<TypeParam>(), 0);
  }
}

// An intermediate sum of a backend: CUDA rounds to the table's dtype once, the CPU after each
// addition.
template <typename D>
double kept(double sum) {
#ifdef LONGSPAN_CUDA_KERNELS
  return sum;
#else
  return rounded<D>(sum);
#endif
}

TYPED_TEST(EmbeddingTest, ScatterAddsToTablesOfBothDTypes) {
  const auto run = [&]<typename D>(TypeTag<D>) {
    for (const std::int64_t width : {1, 3, 17, 700}) {
      const std::int64_t rows = 13, begin = 5, count = 101;
      const auto ids = mixed_ids(count, begin, rows);
      const Values dout = normal_values<TypeParam>(count * width, 1);
      Values expected(static_cast<std::size_t>(rows * width), 1);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < begin || ids[i] >= begin + rows) continue;
        for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) {
          double& sum = expected[static_cast<std::size_t>((ids[i] - begin) * width) + c];
          sum = kept<D>(sum + 0.5 * dout[i * static_cast<std::size_t>(width) + c]);
        }
      }
      for (double& sum : expected) sum = rounded<D>(sum);
      const EmbeddingScatter scatter{
          .dout = tensor_of<TypeParam>(dout, {count, width}),
          .ids = ids_of(ids),
          .begin = begin,
          .scale = 0.5,
          .dtable = tensor_of<D>(Values(expected.size(), 1), {rows, width})};
      embedding_scatter(backend(), scatter);
      expect_close(values_of(scatter.dtable), expected, std::min(tolerance<D>(), 1e-5));
    }
  };
  run(TypeTag<TypeParam>{});
  run(TypeTag<Accumulator<TypeParam>>{});
}

TYPED_TEST(EmbeddingTest, ScatterDoesNotDependOnThreadCount) {
  for (const std::int64_t width : {40, 600}) {
    const auto run = [width](int threads) {
      return with_threads(threads, [width] {
        const EmbeddingScatter scatter{
            .dout = tensor_of<TypeParam>(normal_values<TypeParam>(3000 * width, 1), {3000, width}),
            .ids = ids_of(mixed_ids(3000, 0, 50)),
            .dtable = Tensor::zeros({50, width}, DTypeOf<TypeParam>::value, backend_device())};
        embedding_scatter(backend(), scatter);
        return scatter.dtable;
      });
    };
    const Tensor one = run(1);
    EXPECT_TRUE(same_bits(one, run(2)));
    EXPECT_TRUE(same_bits(one, run(5)));
  }
}

TEST(Embedding, ScatterSumsFrequentAndRareIds) {
  constexpr std::int64_t width = 3, rows = 9;
  for (const std::int64_t often : {0, 4, 8})
    for (const std::int64_t count : {1, 63, 64, 65, 128, 129, 700}) {
      std::vector<std::int64_t> ids;
      for (std::int64_t i = 0; i < count; ++i)
        ids.push_back(i % 3 == 0 ? i % 11 - 1 : often);  // -1 and 9 are out of range
      Values dout, expected(rows * width, 2);
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t c = 0; c < width; ++c) {
          const auto value = static_cast<double>(1 + (i * width + c) % 7);  // sums are exact
          dout.push_back(value);
          const std::int64_t id = ids[static_cast<std::size_t>(i)];
          if (id >= 0 && id < rows) expected[static_cast<std::size_t>(id * width + c)] += value;
        }
      const EmbeddingScatter scatter{
          .dout = tensor_of<float>(dout, {count, width}),
          .ids = ids_of(ids),
          .dtable = tensor_of<float>(Values(rows * width, 2), {rows, width})};
      embedding_scatter(backend(), scatter);
      EXPECT_EQ(values_of(scatter.dtable), expected) << often << " " << count;
    }
}

TEST(Embedding, SupportsNoIdsAndThrowsOnWrongShapes) {
  EmbeddingGather gather{
      .table = poisoned<float>({4, 3}), .ids = ids_of({}), .out = poisoned<float>({0, 3})};
  embedding_gather(backend(), gather);
  gather.ids = ids_of({1});
  EXPECT_THROW(embedding_gather(backend(), gather), Failure);
  gather.out = poisoned<double>({1, 3});
  EXPECT_THROW(embedding_gather(backend(), gather), Failure);
}

}  // namespace
}  // namespace longspan::embedding_test
