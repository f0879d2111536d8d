// A small job for failures_test.py. One rank fails as requested:
//   distributed_failing_job FAILURE RANK [--messages | --nccl]
// With --nccl, GPU and NCCL are emulated.
// Its main reports one message on one rank and returns the exit code.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "framework/core/gpu.h"
#include "framework/distributed/gpu_collectives.h"
#include "framework/distributed/session.h"
#include "tests/support/emulated_cuda/emulated_nccl.h"

namespace longspan {
namespace {

void inject_failure(const std::string& failure, const Communicator& world, const Tensor& tensor) {
  if (failure == "stop" || failure == "blocks") raise(SIGSTOP);
  if (failure == "kill") raise(SIGKILL);
  if (failure == "crash") raise(SIGSEGV);
  if (failure == "throw") throw DataError("train.txt: line 7 is not text");
  if (failure == "hang")
    for (;;) sleep(1);
  if (failure == "mismatch") world.broadcast(tensor.slice(0, 10), 0);
  if (failure == "shorter") world.all_reduce(tensor.slice(0, 99), Reduction::sum);
  if (failure == "exit") std::exit(0);
  if (failure == "error") emulated_nccl::break_links();
  if (failure == "call") emulated_nccl::block_next_call();
}

void work(const std::string& failure, int victim, const Communicator& world) {
  const Tensor tensor = Tensor::zeros({100}, DType::f32, Device::cpu());
  if (failure == "all") throw ConfigurationError("config.yaml:3:1: unknown key `modell`");
  const Communicator other = world.split(0, world.rank(), "other");
  for (int step = 0; step < 5; ++step) {
    world.all_reduce(tensor, Reduction::sum);
    if (step < 3) continue;
    if (world.rank() == victim) {
      if (failure == "return") return;
      if (failure == "elsewhere") other.all_reduce(1.0, Reduction::sum);
      inject_failure(failure, world, tensor);
    }
  }
}

void work_on_gpus(const std::string& failure, int victim, const Communicator& world) {
  const ProcessMesh mesh(world, {.data = world.size()});
  const Device device = Device::cuda();
  if (failure == "absent" && world.rank() == victim) emulated_nccl::stop_when_made();
  if (failure == "refuses" && world.rank() == victim) emulated_nccl::break_links();
  const GpuCollectives collectives(GpuTransport::nccl, mesh, device);
  const Tensor tensor = Tensor::zeros({100}, DType::f32, device);
  for (int step = 0; step < 5; ++step) {
    mesh.data.all_reduce(tensor, Reduction::sum);
    if (step == 3 && world.rank() == victim) inject_failure(failure, mesh.data, tensor);
    // The host waits for the GPU only here.
    if (step < 3) continue;
    if (failure == "blocks") gpu::wait(device.state().stream());
    static_cast<void>(tensor.to_host());
  }
}

int run(const std::string& failure, int victim, const SessionOptions& options, bool on_gpus) {
  const Session session(options);
  try {
    (on_gpus ? work_on_gpus : work)(failure, victim, session.world());
  } catch (const Error& error) {
    if (session.claim_error_report())
      fmt::print(stderr, "rank {}: {}\n", session.world().rank(), error.what());
    session.abort(static_cast<int>(error.code()));
  }
  return 0;
}

}  // namespace
}  // namespace longspan

int main(int argc, char** argv) {
  longspan::SessionOptions options{.time_limit = std::chrono::seconds(2),
                                   .reply_timeout = std::chrono::seconds(1)};
  if (argc < 3) return 2;
  const std::string transport = argc > 3 ? argv[3] : "";
  if (transport == "--messages") options.transport = longspan::TransportChoice::messages;
  return longspan::run(argv[1], std::atoi(argv[2]), options, transport == "--nccl");
}
