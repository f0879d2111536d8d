#include "framework/kernels/embedding.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan {
namespace {

using namespace longspan::testing;

// Ids of which some lie before, some in and some after the rows [begin, begin + rows), and of
// which few values come very often.
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
class EmbeddingOf : public ::testing::Test {};
TYPED_TEST_SUITE(EmbeddingOf, FloatingTypes);

TYPED_TEST(EmbeddingOf, GatherTakesOwnedRowsAndWritesZerosForOthers) {
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
    embedding_gather(cpu(), gather);
    expect_close(values_of(gather.out), expected, tolerance<TypeParam>(), 0);
  }
}

TYPED_TEST(EmbeddingOf, ScatterAddsToBothDTypesOfTable) {
  const auto run = [&]<typename D>(TypeTag<D>) {
    for (const std::int64_t width : {1, 3, 17, 700}) {
      const std::int64_t rows = 13, begin = 5, count = 101;
      const auto ids = mixed_ids(count, begin, rows);
      const Values dout = normal_values<TypeParam>(count * width, 1);
      // In the order of the ids, each sum rounded to the table's dtype.
      Values expected(static_cast<std::size_t>(rows * width), 1);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < begin || ids[i] >= begin + rows) continue;
        for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) {
          double& sum = expected[static_cast<std::size_t>((ids[i] - begin) * width) + c];
          sum = rounded<D>(sum + 0.5 * dout[i * static_cast<std::size_t>(width) + c]);
        }
      }
      const EmbeddingScatter scatter{
          .dout = tensor_of<TypeParam>(dout, {count, width}),
          .ids = ids_of(ids),
          .begin = begin,
          .scale = 0.5,
          .dtable = tensor_of<D>(Values(expected.size(), 1), {rows, width})};
      embedding_scatter(cpu(), scatter);
      expect_close(values_of(scatter.dtable), expected, std::min(tolerance<D>(), 1e-5));
    }
  };
  run(TypeTag<TypeParam>{});
  run(TypeTag<Accumulator<TypeParam>>{});
}

TYPED_TEST(EmbeddingOf, ScatterDoesNotDependOnTheNumberOfThreads) {
  for (const std::int64_t width : {40, 600}) {
    const auto run = [width](int threads) {
      return with_threads(threads, [width] {
        const EmbeddingScatter scatter{
            .dout = tensor_of<TypeParam>(normal_values<TypeParam>(3000 * width, 1), {3000, width}),
            .ids = ids_of(mixed_ids(3000, 0, 50)),
            .dtable = Tensor::zeros({50, width}, DTypeOf<TypeParam>::value, cpu_device())};
        embedding_scatter(cpu(), scatter);
        return scatter.dtable;
      });
    };
    const Tensor one = run(1);
    EXPECT_TRUE(same_bits(one, run(2)));
    EXPECT_TRUE(same_bits(one, run(5)));
  }
}

TEST(Embedding, NoIdsAndWrongShapes) {
  EmbeddingGather gather{
      .table = poisoned<float>({4, 3}), .ids = ids_of({}), .out = poisoned<float>({0, 3})};
  embedding_gather(cpu(), gather);
  gather.ids = ids_of({1});
  EXPECT_THROW(embedding_gather(cpu(), gather), Failure);
  gather.out = poisoned<double>({1, 3});
  EXPECT_THROW(embedding_gather(cpu(), gather), Failure);
}

}  // namespace
}  // namespace longspan
