// Key heads that several query heads share.
#include "framework/kernels/rows.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::repeat_kv_test {
namespace {

using namespace longspan::testing;

template <typename T>
class RepeatKVTest : public ::testing::Test {};
TYPED_TEST_SUITE(RepeatKVTest, FloatingTypes);

TYPED_TEST(RepeatKVTest, RepeatsHeadsAndSumsTheirGradients) {
  constexpr std::int64_t dim = 5;
  for (const std::int64_t rows : {0, 1, 130})
    for (const std::int64_t heads : {1, 3})
      for (const std::int64_t times : {1, 2, 4}) {
        const Values x = normal_values<TypeParam>(rows * heads * dim, 1),
                     dy = normal_values<TypeParam>(rows * heads * times * dim, 2);
        Values y, dx(x.size());
        for (std::int64_t i = 0; i < rows * heads * times * dim; ++i) {
          const std::int64_t head = i / dim / times, from = head * dim + i % dim;
          y.push_back(x[static_cast<std::size_t>(from)]);
          dx[static_cast<std::size_t>(from)] += dy[static_cast<std::size_t>(i)];
        }
        const Tensor many = poisoned<TypeParam>({rows, heads * times, dim}),
                     few = poisoned<TypeParam>({rows, heads, dim});
        repeat_kv(backend(), tensor_of<TypeParam>(x, {rows, heads, dim}), many);
        EXPECT_EQ(values_of(many), y);
        sum_grouped_heads(backend(), tensor_of<TypeParam>(dy, {rows, heads * times, dim}), few);
        expect_close(values_of(few), dx, tolerance<TypeParam>());
      }
}

TEST(RepeatKV, RejectsIndivisibleHeadsAndOtherWidths) {
  EXPECT_THROW(repeat_kv(backend(), poisoned<float>({2, 2, 4}), poisoned<float>({2, 5, 4})),
               Failure);
  EXPECT_THROW(repeat_kv(backend(), poisoned<float>({2, 2, 4}), poisoned<float>({2, 4, 3})),
               Failure);
}

}  // namespace
}  // namespace longspan::repeat_kv_test
