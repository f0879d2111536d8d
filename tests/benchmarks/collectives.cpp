// Bandwidth of all_reduce between the ranks of a job: over the default transport, over MPI
// messages, and of MPI_Iallreduce.
//   tests/support/mpirun 2 build/tests/benchmark_collectives
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>

#include "framework/distributed/mpi_c.h"
#include "framework/distributed/session.h"

namespace longspan {
namespace {

using Clock = std::chrono::steady_clock;

// Returns the best time of `repeats` in seconds, on the slowest rank.
double best_time(const Communicator& world, int repeats, const std::function<void()>& call) {
  double best = 1e9;
  for (int i = 0; i < repeats; ++i) {
    world.barrier();
    const auto begin = Clock::now();
    call();
    const double mine = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, world.all_reduce(mine, Reduction::maximum));
  }
  return best;
}

void library_all_reduce(const Tensor& tensor) {
  MPI_Request request;
  MPI_Iallreduce(MPI_IN_PLACE,
                 tensor.bytes(),
                 static_cast<int>(tensor.elements()),
                 MPI_FLOAT,
                 MPI_SUM,
                 MPI_COMM_WORLD,
                 &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void measure(const Communicator& world, std::int64_t elements) {
  const Tensor tensor = Tensor::zeros({elements}, DType::f32, Device::cpu());
  const int repeats = elements > 1000000 ? 20 : 200;
  const double ours = best_time(world, repeats, [&] { world.all_reduce(tensor, Reduction::sum); });
  const double library = best_time(world, repeats, [&] { library_all_reduce(tensor); });
  const double megabytes = static_cast<double>(tensor.byte_size()) / 1e6;
  if (world.rank() == 0)
    fmt::print(
        "{:9.3f} MB  ours {:8.3f} ms {:6.2f} GB/s   MPI_Iallreduce {:8.3f} ms {:6.2f} GB/s\n",
        megabytes,
        ours * 1e3,
        megabytes / 1e3 / ours,
        library * 1e3,
        megabytes / 1e3 / library);
}

int run(int argc, char** argv) {
  SessionOptions options;
  if (argc > 1 && std::string_view(argv[1]) == "--messages")
    options.transport = TransportChoice::messages;
  const Session session(options);
  if (session.world().size() == 1) {
    fmt::print("needs several ranks: tests/support/mpirun 2 {}\n", argv[0]);
    return 2;
  }
  for (const std::int64_t elements : {1, 1024, 16384, 262144, 1048576, 4194304, 19000000})
    measure(session.world(), elements);
  return 0;
}

}  // namespace
}  // namespace longspan

int main(int argc, char** argv) { return longspan::run(argc, argv); }
