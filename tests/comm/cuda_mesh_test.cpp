// Collectives of tensors on a GPU, which travel through memory of the host: on the emulated device.
#include <gtest/gtest.h>

#include "tests/support/mesh_runner.h"

namespace longspan {
namespace {

constexpr std::int64_t count = 5000;  // more than a slot of the shared memory

std::vector<double> values_of(const Tensor& tensor) {
  const Tensor here = tensor.to_host();
  return {here.span<double>().begin(), here.span<double>().end()};
}

// `parts` times `count` elements: part p of rank r is full of 10 r + p.
double part_value(int rank, int part) { return 10 * rank + part; }
Tensor parts_of(int rank, int parts, const Device& device) {
  std::vector<double> values;
  for (int part = 0; part < parts; ++part)
    values.insert(values.end(), count, part_value(rank, part));
  return Tensor::from<double>(values, {std::ssize(values)}, device);
}

// f(part) for each of `count` elements of each part.
template <typename F>
std::vector<double> wanted(int parts, const F& f) {
  std::vector<double> values;
  for (int part = 0; part < parts; ++part) values.insert(values.end(), count, f(part));
  return values;
}

Tensor own_part(const Communicator& group, const Tensor& all) {
  return all.slice(count * group.rank(), count * (group.rank() + 1));
}

TEST(CudaTensors, AreReducedAndGatheredInPlace) {
  testing::on_ranks(3, [](const Communicator& group) {
    const Device gpu = Device::cuda();
    const auto sum = [](int part) {
      return part_value(0, part) + part_value(1, part) + part_value(2, part);
    };
    const Tensor tensor = parts_of(group.rank(), 3, gpu);
    group.all_reduce(tensor, Reduction::sum);
    EXPECT_EQ(values_of(tensor), wanted(3, sum));
    const Tensor all = parts_of(group.rank(), 3, gpu);
    group.reduce_scatter(all, own_part(group, all));
    EXPECT_EQ(values_of(own_part(group, all)), wanted(1, [&](int) { return sum(group.rank()); }));
    group.all_gather(own_part(group, all), all);
    EXPECT_EQ(values_of(all), wanted(3, sum));
  });
}

TEST(CudaTensors, AreSentAndReceived) {
  testing::on_ranks(3, [](const Communicator& group) {
    const Device gpu = Device::cuda();
    const int next = (group.rank() + 1) % 3, previous = (group.rank() + 2) % 3;
    const Tensor send = parts_of(group.rank(), 3, gpu), receive = send.like();
    group.exchange(send, next, receive, previous);
    EXPECT_EQ(values_of(receive), wanted(3, [&](int part) { return part_value(previous, part); }));
    group.all_to_all(send, receive);
    EXPECT_EQ(values_of(receive),
              wanted(3, [&](int part) { return part_value(part, group.rank()); }));
    group.broadcast(send, 1);
    EXPECT_EQ(values_of(send), wanted(3, [](int part) { return part_value(1, part); }));
  });
}

TEST(CudaTensors, HaveTheResultOnceTheRequestIsDone) {
  testing::on_ranks(2, [](const Communicator& group) {
    const Device gpu = Device::cuda();
    const auto sum = [](int part) { return part_value(0, part) + part_value(1, part); };
    const Tensor waited = parts_of(group.rank(), 2, gpu), tested = waited.clone(),
                 dropped = waited.clone();
    Request wait = group.start_all_reduce(waited, Reduction::sum);
    Request test = group.start_all_reduce(tested, Reduction::sum);
    { const Request drop = group.start_all_reduce(dropped, Reduction::sum); }
    wait.wait();
    while (!test.test()) continue;
    for (const Tensor& tensor : {waited, tested, dropped})
      EXPECT_EQ(values_of(tensor), wanted(2, sum));
  });
}

}  // namespace
}  // namespace longspan
