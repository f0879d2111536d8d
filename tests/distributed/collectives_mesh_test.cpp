// Every collective in every dtype against a plain loop.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/support/mesh_runner.h"

namespace longspan::collectives_mesh_test {
namespace {

const std::vector<DType> dtypes = {
    DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8};
// Includes 0, and counts above one slot of the shared memory.
const std::vector<std::int64_t> counts = {0, 1, 7, 1000, 5000, 140001};

// An integer that is exact in every dtype, as are sums over four ranks.
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
    case DType::i32:
      return f(TypeTag<std::int32_t>());
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

// Reports the first element that differs.
void expect_elements(const Tensor& tensor,
                     const std::function<double(std::int64_t)>& expected,
                     const std::string& what) {
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    if (get(tensor, i) != expected(i)) {
      ADD_FAILURE() << what << ": element " << i << " is " << get(tensor, i) << ", expected "
                    << expected(i);
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

TEST(AllReduce, ReducesEveryDtype) {
  const Device device = Device::cpu();
  for_all([&](const Communicator& group, DType dtype, std::int64_t count) {
    const auto over_ranks = [&](std::int64_t i, auto combine) {
      double result = value_at(0, i);
      for (int rank = 1; rank < group.size(); ++rank) result = combine(result, value_at(rank, i));
      return result;
    };
    const auto own = [&](std::int64_t i) { return value_at(group.rank(), i); };
    const Tensor sum = make(device, count, dtype, own);
    const Tensor maximum = sum.clone();
    const Tensor minimum = sum.clone();
    group.all_reduce(sum, Reduction::sum);
    group.all_reduce(maximum, Reduction::maximum);
    group.all_reduce(minimum, Reduction::minimum);
    expect_elements(
        sum, [&](auto i) { return over_ranks(i, std::plus<>()); }, "sum");
    expect_elements(
        maximum,
        [&](auto i) { return over_ranks(i, [](double a, double b) { return std::max(a, b); }); },
        "maximum");
    expect_elements(
        minimum,
        [&](auto i) { return over_ranks(i, [](double a, double b) { return std::min(a, b); }); },
        "minimum");
  });
}

TEST(AllGather, ConcatenatesInRankOrder) {
  const Device device = Device::cpu();
  for_all([&](const Communicator& group, DType dtype, std::int64_t count) {
    const auto own = [&](std::int64_t i) { return value_at(group.rank(), i); };
    const Tensor mine = make(device, count, dtype, own);
    const auto nothing = [](std::int64_t) { return 99.0; };
    const Tensor all = make(device, count * group.size(), dtype, nothing);
    group.all_gather(mine, all);
    const auto expected = [&](std::int64_t i) {
      return value_at(static_cast<int>(i / count), i % count);
    };
    expect_elements(all, expected, "all");
    expect_elements(mine, own, "mine");
    if (count == 0) return;
    const Tensor in_place = make(device, count * group.size(), dtype, nothing);
    const Tensor part = in_place.slice(count * group.rank(), count * (group.rank() + 1));
    part.copy_from(mine);
    group.all_gather(part, in_place);
    expect_elements(in_place, expected, "in place");
  });
}

TEST(ReduceScatter, ReturnsSumShardPerRank) {
  const Device device = Device::cpu();
  for_all([&](const Communicator& group, DType dtype, std::int64_t count) {
    const auto own = [&](std::int64_t i) { return value_at(group.rank(), i); };
    const Tensor all = make(device, count * group.size(), dtype, own);
    const Tensor mine = Tensor::empty({count}, dtype, device);
    group.reduce_scatter(all, mine);
    const auto expected = [&](std::int64_t i) {
      double sum = 0;
      for (int rank = 0; rank < group.size(); ++rank)
        sum += value_at(rank, group.rank() * count + i);
      return sum;
    };
    expect_elements(mine, expected, "mine");
    expect_elements(all, own, "all");
    if (count == 0) return;
    const Tensor part = all.slice(count * group.rank(), count * (group.rank() + 1));
    group.reduce_scatter(all, part);
    expect_elements(part, expected, "in place");
  });
}

TEST(AllToAll, ExchangesParts) {
  const Device device = Device::cpu();
  for_all([&](const Communicator& group, DType dtype, std::int64_t count) {
    const auto own = [&](std::int64_t i) { return value_at(group.rank(), i); };
    const Tensor send = make(device, count * group.size(), dtype, own);
    const Tensor receive = send.empty_like();
    group.all_to_all(send, receive);
    expect_elements(
        receive,
        [&](auto i) {
          return value_at(static_cast<int>(i / count), group.rank() * count + i % count);
        },
        "received");
  });
}

TEST(Broadcast, CopiesRootToAllRanks) {
  const Device device = Device::cpu();
  for_all([&](const Communicator& group, DType dtype, std::int64_t count) {
    for (int root = 0; root < group.size(); ++root) {
      const Tensor tensor =
          make(device, count, dtype, [&](auto i) { return value_at(group.rank(), i); });
      group.broadcast(tensor, root);
      expect_elements(
          tensor, [&](auto i) { return value_at(root, i); }, "tensor");
    }
  });
}

TEST(Exchange, MovesElementsAroundRing) {
  const Device device = Device::cpu();
  for_all([&](const Communicator& group, DType dtype, std::int64_t count) {
    const int next = (group.rank() + 1) % group.size();
    const int previous = (group.rank() + group.size() - 1) % group.size();
    const Tensor send =
        make(device, count, dtype, [&](auto i) { return value_at(group.rank(), i); });
    const Tensor receive = send.empty_like();
    group.exchange(send, next, receive, previous);
    expect_elements(
        receive, [&](auto i) { return value_at(previous, i); }, "received");
  });
}

TEST(HostValues, SupportReduceBroadcastAndGather) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    testing::on_ranks(ranks, [&](const Communicator& group) {
      const std::int64_t size = group.size();
      EXPECT_EQ(group.all_reduce(std::int64_t{group.rank() + 1}, Reduction::sum),
                size * (size + 1) / 2);
      EXPECT_EQ(group.all_reduce(0.5 * group.rank(), Reduction::maximum),
                0.5 * static_cast<double>(size - 1));
      const int root = group.size() - 1;
      const std::string text = "model:\n  layers: 6\n";
      EXPECT_EQ(group.broadcast(group.rank() == root ? text : "", root), text);
      EXPECT_EQ(group.broadcast("", root), "");
      const auto word = [](int rank) {
        return std::string(static_cast<std::size_t>(rank) * 3, 'x');
      };
      const std::vector<std::string> words = group.all_gather(word(group.rank()));
      ASSERT_EQ(words.size(), static_cast<std::size_t>(size));
      for (int rank = 0; rank < group.size(); ++rank)
        EXPECT_EQ(words[static_cast<std::size_t>(rank)], word(rank));
    });
}

}  // namespace
}  // namespace longspan::collectives_mesh_test
