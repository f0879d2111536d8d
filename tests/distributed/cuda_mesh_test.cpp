// Collectives of GPU tensors, through host memory or NCCL. Device and NCCL are emulated.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "framework/core/gpu.h"
#include "framework/distributed/gpu_collectives.h"
#include "tests/support/mesh_runner.h"
#include "tests/support/test_device.h"

namespace longspan::cuda_mesh_test {
namespace {

constexpr std::int64_t count = 5000;  // more than a slot of the shared memory

// Calls body(mesh, gpu) with each transport.
void for_both(const MeshShape& shape,
              const std::function<void(const ProcessMesh&, const Device& gpu)>& body) {
  for (const GpuTransport transport : {GpuTransport::mpi, GpuTransport::automatic})
    testing::on_ranks(shape.size(), [&](const Communicator& group) {
      const bool by_nccl = transport == GpuTransport::automatic;
      SCOPED_TRACE(by_nccl ? "by NCCL" : "through memory of the host");
      const ProcessMesh mesh(group, shape);
      const std::vector<int> gpus = gpu::usable();
      const auto local = static_cast<std::size_t>(group.rank()) % gpus.size();
      const Device gpu = Device::cuda(gpus[local]);
      const GpuCollectives collectives(transport, mesh, gpu);
      // Ranks that share a physical GPU cannot use NCCL.
      const bool may_lack = by_nccl && testing::tests_run_on_gpu();
      EXPECT_TRUE(may_lack || collectives.nccl() == by_nccl) << collectives.unavailable_reason();
      body(mesh, gpu);
    });
}

std::vector<double> values_of(const Tensor& tensor) {
  const Tensor here = tensor.to_host();
  return {here.span<double>().begin(), here.span<double>().end()};
}

// [parts * count]: part p of rank r has the value 10 r + p.
double part_value(int rank, int part) { return 10 * rank + part; }
Tensor parts_of(int rank, int parts, const Device& device) {
  std::vector<double> values;
  for (int part = 0; part < parts; ++part)
    values.insert(values.end(), count, part_value(rank, part));
  return Tensor::from<double>(values, {std::ssize(values)}, device);
}

// f(part) for each of `count` elements of each part.
template <typename F>
std::vector<double> filled(int parts, const F& f) {
  std::vector<double> values;
  for (int part = 0; part < parts; ++part) values.insert(values.end(), count, f(part));
  return values;
}

Tensor local_part(const Communicator& group, const Tensor& all) {
  return all.slice(count * group.rank(), count * (group.rank() + 1));
}

TEST(CudaCollectives, ReduceAndGatherInPlace) {
  for_both({.data = 3}, [](const ProcessMesh& mesh, const Device& gpu) {
    const Communicator& group = mesh.data;
    const auto sum = [](int part) {
      return part_value(0, part) + part_value(1, part) + part_value(2, part);
    };
    const Tensor tensor = parts_of(group.rank(), 3, gpu);
    group.all_reduce(tensor, Reduction::sum);
    EXPECT_EQ(values_of(tensor), filled(3, sum));
    const Tensor all = parts_of(group.rank(), 3, gpu);
    group.reduce_scatter(all, local_part(group, all));
    EXPECT_EQ(values_of(local_part(group, all)), filled(1, [&](int) { return sum(group.rank()); }));
    group.all_gather(local_part(group, all), all);
    EXPECT_EQ(values_of(all), filled(3, sum));
  });
}

TEST(CudaCollectives, ExchangeElements) {
  for_both({.data = 3}, [](const ProcessMesh& mesh, const Device& gpu) {
    const Communicator& group = mesh.data;
    const int next = (group.rank() + 1) % 3, previous = (group.rank() + 2) % 3;
    const Tensor send = parts_of(group.rank(), 3, gpu), receive = send.empty_like();
    group.exchange(send, next, receive, previous);
    EXPECT_EQ(values_of(receive), filled(3, [&](int part) { return part_value(previous, part); }));
    group.all_to_all(send, receive);
    EXPECT_EQ(values_of(receive),
              filled(3, [&](int part) { return part_value(part, group.rank()); }));
    group.broadcast(send, 1);
    EXPECT_EQ(values_of(send), filled(3, [](int part) { return part_value(1, part); }));
  });
}

TEST(CudaCollectives, RequestsCompleteByWaitTestAndDestructor) {
  for_both({.data = 2}, [](const ProcessMesh& mesh, const Device& gpu) {
    const Communicator& group = mesh.data;
    const auto sum = [](int part) { return part_value(0, part) + part_value(1, part); };
    const Tensor waited = parts_of(group.rank(), 2, gpu), tested = waited.clone(),
                 dropped = waited.clone();
    Request wait = group.start_all_reduce(waited, Reduction::sum);
    Request test = group.start_all_reduce(tested, Reduction::sum);
    { const Request drop = group.start_all_reduce(dropped, Reduction::sum); }
    wait.wait();
    while (!test.test()) continue;
    for (const Tensor& tensor : {waited, tested, dropped})
      EXPECT_EQ(values_of(tensor), filled(2, sum));
  });
}

// Copies replace computation: this executable has no kernels.
TEST(CudaCollectives, FollowStreamOrder) {
  for_both({.data = 2, .tensor = 2}, [](const ProcessMesh& mesh, const Device& gpu) {
    const Tensor tensor = parts_of(mesh.world.rank(), 1, gpu), copy = tensor.empty_like();
    mesh.data.all_reduce(tensor, Reduction::sum);
    copy.copy_from(tensor);  // after the sum
    mesh.tensor.all_reduce(copy, Reduction::sum);
    tensor.copy_from(copy);
    tensor.slice(0, 1).zero();
    std::vector<double> all = filled(1, [](int) { return 0 + 10 + 20 + 30; });
    all[0] = 0;
    EXPECT_EQ(values_of(tensor), all);
  });
}

// [elements], all `value`, which is exact in every dtype.
Tensor full(DType dtype, std::int64_t elements, int value, const Device& device) {
  const Tensor here = Tensor::empty({elements}, dtype, Device::cpu());
  for (std::int64_t i = 0; i < elements; ++i) {
    if (is_floating(dtype)) {
      with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
        here.data<T>()[i] = T(static_cast<Accumulator<T>>(value));
      });
    } else if (dtype == DType::i64) {
      here.data<std::int64_t>()[i] = value;
    } else if (dtype == DType::i32) {
      here.data<std::int32_t>()[i] = value;
    } else {
      here.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(value);
    }
  }
  return here.to(device);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  const Tensor here = a.to_host(), there = b.to_host();
  return std::memcmp(here.bytes(), there.bytes(), here.byte_size()) == 0;
}

TEST(CudaCollectives, ReduceEveryDtype) {
  for_both({.data = 2}, [](const ProcessMesh& mesh, const Device& gpu) {
    const int rank = mesh.data.rank();
    for (const DType dtype :
         {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8})
      for (const std::int64_t elements : {0, 1, 700}) {
        SCOPED_TRACE(fmt::format("{} {}", elements, name_of(dtype)));
        const Tensor sum = full(dtype, elements, 3 + rank, gpu), most = sum.clone(),
                     least = sum.clone(), parts = full(dtype, 2 * elements, 3 + rank, gpu),
                     part = sum.empty_like();
        mesh.data.all_reduce(sum, Reduction::sum);
        mesh.data.all_reduce(most, Reduction::maximum);
        mesh.data.all_reduce(least, Reduction::minimum);
        mesh.data.reduce_scatter(parts, part);
        EXPECT_TRUE(same_bytes(sum, full(dtype, elements, 7, gpu)));
        EXPECT_TRUE(same_bytes(most, full(dtype, elements, 4, gpu)));
        EXPECT_TRUE(same_bytes(least, full(dtype, elements, 3, gpu)));
        EXPECT_TRUE(same_bytes(part, sum));
      }
  });
}

}  // namespace
}  // namespace longspan::cuda_mesh_test
