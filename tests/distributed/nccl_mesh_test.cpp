// Collectives by NCCL: asynchronous to the host, and used by all ranks or by none.
// Device and NCCL are emulated.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>

#include "framework/distributed/gpu_collectives.h"
#include "tests/support/emulated_cuda/emulated_nccl.h"
#include "tests/support/mesh_runner.h"

namespace longspan::nccl_mesh_test {
namespace {

// Sets an environment variable for its lifetime.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

void with_nccl(int ranks, const std::function<void(const Communicator&, const Device&)>& body) {
  testing::on_ranks(ranks, [&](const Communicator& group) {
    const ProcessMesh mesh(group, {.data = ranks});
    const Device gpu = Device::cuda();
    const GpuCollectives collectives(GpuTransport::nccl, mesh, gpu);
    body(mesh.data, gpu);
  });
}

Tensor ones(const Device& device) {
  return Tensor::from<double>(std::vector<double>(100, 1.0), {100}, device);
}

double first_of(const Tensor& tensor) { return tensor.slice(0, 1).item(); }

TEST(Nccl, DoesNotBlockHostOrGpuBeforeWait) {
  with_nccl(2, [](const Communicator& group, const Device& gpu) {
    const Tensor bucket = ones(gpu), meanwhile = ones(gpu), before = bucket.empty_like();
    Request request = group.start_all_reduce(bucket, Reduction::sum);
    EXPECT_FALSE(request.test());
    // Work that does not read the result does not wait for it, on the GPU and on the host.
    before.copy_from(bucket);
    meanwhile.zero();
    EXPECT_EQ(first_of(meanwhile), 0);
    EXPECT_EQ(first_of(before), 1);
    request.wait();
    // The GPU waits for the other rank, which waits for this rank's host.
    const Tensor after = bucket.clone();
    group.barrier();
    EXPECT_EQ(first_of(after), 2);
  });
}

TEST(Nccl, SupportsConcurrentRequestsOnSeveralGroups) {
  testing::on_ranks(4, [](const Communicator& group) {
    const ProcessMesh mesh(group, {.data = 2, .tensor = 2});
    const Device gpu = Device::cuda();
    const GpuCollectives collectives(GpuTransport::nccl, mesh, gpu);
    std::vector<Tensor> buckets;
    std::vector<Request> requests;
    for (int i = 0; i < 12; ++i) {
      buckets.push_back(ones(gpu));
      requests.push_back(mesh.data.start_all_reduce(buckets.back(), Reduction::sum));
      mesh.tensor.all_reduce(buckets.front().clone(), Reduction::sum);
      EXPECT_EQ(mesh.data.all_reduce(1.0, Reduction::sum), 2.0);
    }
    for (std::size_t i = requests.size(); i-- > 0;) {  // in another order
      requests[i].wait();
      EXPECT_EQ(first_of(buckets[i]), 2);
    }
  });
}

// Kernels of two groups can deadlock if two GPUs queue them in different orders.
TEST(Nccl, QueuesGroupsInStartOrder) {
  testing::on_ranks(4, [](const Communicator& group) {
    const ProcessMesh mesh(group, {.data = 2, .tensor = 2});
    const Device gpu = Device::cuda();
    const GpuCollectives collectives(GpuTransport::nccl, mesh, gpu);
    const std::size_t before = emulated_nccl::called().size();
    emulated_nccl::delay_next_call(20);
    std::vector<Request> requests;
    for (const std::int64_t elements : {11, 12, 13, 14, 15}) {
      const Communicator& axis = elements < 14 ? mesh.data : mesh.tensor;
      requests.push_back(
          axis.start_all_reduce(Tensor::zeros({elements}, DType::f32, gpu), Reduction::sum));
    }
    for (Request& request : requests) request.wait();
    const auto& called = emulated_nccl::called();
    EXPECT_EQ(std::vector(called.begin() + static_cast<std::ptrdiff_t>(before), called.end()),
              (std::vector<std::size_t>{11, 12, 13, 14, 15}));
  });
}

TEST(Nccl, ReducesOverWorldWithTensorRanks) {
  testing::on_ranks(2, [](const Communicator& group) {
    // Tensor ranks have shards of the sequence, or of the heads only.
    for (const bool sequence : {true, false}) {
      const ProcessMesh mesh(group, {.tensor = 2, .sequence = sequence});
      const Device gpu = Device::cuda();
      const GpuCollectives collectives(GpuTransport::nccl, mesh, gpu);
      const std::size_t before = emulated_nccl::called().size();
      const Tensor bucket = ones(gpu);
      mesh.world.all_reduce(bucket, Reduction::sum);
      EXPECT_EQ(emulated_nccl::called().size(), before + 1);
      EXPECT_EQ(first_of(bucket), 2);
    }
  });
}

std::string refusal(const Communicator& group, const Device& device, GpuTransport transport) {
  try {
    const GpuCollectives collectives(transport, ProcessMesh(group, {.data = group.size()}), device);
    return collectives.unavailable_reason();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
}

TEST(Nccl, IsUnavailableIfRanksShareGpu) {
  testing::on_ranks(3, [](const Communicator& group) {
    const Setting two("LONGSPAN_EMULATED_GPUS", "2");
    const std::string refused = refusal(group, Device::cuda(), GpuTransport::nccl);
    EXPECT_TRUE(refused.starts_with("parallel.gpu_backend: nccl is not available: NCCL requires"))
        << refused;
    EXPECT_TRUE(refused.ends_with(" with 2 GPUs")) << refused;
    EXPECT_EQ(refused.substr(refused.find("NCCL requires")),
              refusal(group, Device::cuda(), GpuTransport::automatic));
  });
}

TEST(Nccl, IsUnavailableOnCpuOrWithoutLibrary) {
  testing::on_ranks(2, [](const Communicator& group) {
    const Device gpu = Device::cuda(), cpu = Device::cpu();
    // All ranks report the reason of one rank.
    EXPECT_EQ(refusal(group, group.rank() == 1 ? cpu : gpu, GpuTransport::nccl),
              "parallel.gpu_backend: nccl is not available: rank 1 runs on the CPU");
    EXPECT_EQ(refusal(group, cpu, GpuTransport::automatic), "rank 0 runs on the CPU");
    std::optional<Setting> none;
    if (group.rank() == 1) none.emplace("LONGSPAN_NO_NCCL", "1");
    EXPECT_EQ(refusal(group, gpu, GpuTransport::nccl),
              "parallel.gpu_backend: nccl is not available: rank 1: there is no NCCL");
    EXPECT_EQ(refusal(group, gpu, GpuTransport::automatic), "rank 1: there is no NCCL");
    EXPECT_EQ(refusal(group, gpu, GpuTransport::mpi), "parallel.gpu_backend is mpi");
  });
}

}  // namespace
}  // namespace longspan::nccl_mesh_test
