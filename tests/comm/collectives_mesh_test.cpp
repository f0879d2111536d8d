// Every collective in every dtype against the obvious result.
#include <gtest/gtest.h>

#include "tests/support/mesh_runner.h"

namespace longspan {
namespace {

const std::vector<DType> dtypes = {
    DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::u8};
// One element, a few, more than one slot of the shared memory, and nothing.
const std::vector<std::int64_t> counts = {0, 1, 7, 1000, 5000, 300001};

// A whole number that every dtype holds, and so do the sums over four ranks.
double value_at(int rank, std::int64_t index) {
  return static_cast<double>((index * 7 + rank * 3) % 41);
}

template <typename F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(TypeTag<double>());
    case DType::f32:
      return f(TypeTag<float>());
    case DType::bf16:
      return f(TypeTag<BFloat16>());
    case DType::f16:
      return f(TypeTag<Float16>());
    case DType::i64:
      return f(TypeTag<std::int64_t>());
    default:
      return f(TypeTag<std::uint8_t>());
  }
}

template <typename T>
using Number = std::conditional_t<std::is_class_v<T>, float, T>;

double get(const Tensor& tensor, std::int64_t index) {
  return with_type(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return static_cast<double>(static_cast<Number<T>>(tensor.data<T>()[index]));
  });
}

void set(const Tensor& tensor, std::int64_t index, double value) {
  with_type(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    tensor.data<T>()[index] = static_cast<T>(static_cast<Number<T>>(value));
  });
}

Tensor make(const Device& device,
            std::int64_t elements,
            DType dtype,
            const std::function<double(std::int64_t)>& value) {
  const Tensor tensor = Tensor::empty({elements}, dtype, device);
  for (std::int64_t i = 0; i < elements; ++i) set(tensor, i, value(i));
  return tensor;
}

// Compares every element and reports the first that differs.
void expect_elements(const Tensor& tensor,
                     const std::function<double(std::int64_t)>& wanted,
                     const std::string& what) {
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    if (get(tensor, i) != wanted(i)) {
      ADD_FAILURE() << what << ": element " << i << " is " << get(tensor, i) << ", expected "
                    << wanted(i);
      return;
    }
}

// Calls body(group, dtype, count) on 1, 2, 3 and 4 ranks.
void for_all(const std::function<void(const Communicator&, DType, std::int64_t)>& body) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    testing::on_ranks(ranks, [&](const Communicator& group) {
      for (const DType dtype : dtypes)
        for (const std::int64_t count : counts) {
          SCOPED_TRACE(fmt::format("{} x {} on {} ranks", count, name_of(dtype), group.size()));
          body(group, dtype, count);
        }
    });
}

TEST(AllReduce, SumsEveryDtype) {
  const Device device = Device::cpu();
  for_all([&](const Communicator& group, DType dtype, std::int64_t count) {
    const Tensor tensor =
        make(device, count, dtype, [&](auto i) { return value_at(group.rank(), i); });
    group.all_reduce(tensor, Reduction::sum);
    expect_elements(
        tensor,
        [&](std::int64_t i) {
          double sum = 0;
          for (int rank = 0; rank < group.size(); ++rank) sum += value_at(rank, i);
          return sum;
        },
        "sum");
  });
}

}  // namespace
}  // namespace longspan
