#include "framework/distributed/gpu_collectives.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <set>

#include "framework/core/system.h"
#include "framework/distributed/runtime.h"

namespace longspan {
namespace {

// The host name, which may be ambiguous, together with the boot id.
std::string machine_name() {
  std::string start;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, start);
  return host_name() + ' ' + start;
}

// Returns every rank's machine and, on a second line, its GPU's bus ID; empty on the CPU.
std::vector<std::string> locations_of(const Communicator& world, const Device& device) {
  return world.all_gather(
      device.on_gpu() ? machine_name() + '\n' + gpu::pci_bus_id(device.state().gpu()) : "");
}

// Returns, as a clause, why the ranks lack one GPU each, or "". Equal on all ranks.
std::string shortage(const Communicator& world, const Device& device) {
  struct Machine {
    int ranks = 0;
    std::set<std::string> gpus;
  };
  std::map<std::string, Machine> machines;
  const std::vector<std::string> places = locations_of(world, device);
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].empty()) return fmt::format("rank {} runs on the CPU", rank);
    const std::size_t end = places[rank].rfind('\n');
    Machine& machine = machines[places[rank].substr(0, end)];
    ++machine.ranks;
    machine.gpus.insert(places[rank].substr(end + 1));
  }
  for (const auto& [name, machine] : machines)
    if (std::ssize(machine.gpus) < machine.ranks)
      return fmt::format("NCCL requires a GPU per rank, found {} ranks on {} with {} GPU{}",
                         machine.ranks,
                         name.substr(0, name.find(' ')),
                         machine.gpus.size(),
                         machine.gpus.size() == 1 ? "" : "s");
  return "";
}

// Returns, as a clause, why NCCL is unavailable, or "". Equal on all ranks.
std::string absence_of_nccl(const Communicator& world, const Device& device) {
  if (const std::string reason = shortage(world, device); !reason.empty()) return reason;
  const std::vector<std::string> answers = world.all_gather(nccl::unavailable_reason());
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    if (!answers[rank].empty()) return fmt::format("rank {}: {}", rank, answers[rank]);
  return "";
}

}  // namespace

int ranks_of_gpu(const Communicator& world, const Device& device) {
  const std::vector<std::string> places = locations_of(world, device);
  return static_cast<int>(
      std::ranges::count(places, places[static_cast<std::size_t>(world.rank())]));
}

GpuCollectives::GpuCollectives(GpuTransport wanted, const ProcessMesh& mesh, const Device& device)
    : device_(device),
      exceptions_(std::uncaught_exceptions()),
      turns_(std::make_shared<LaunchOrder>()) {
  if (wanted == GpuTransport::mpi)
    absence_ = "parallel.gpu_backend is mpi";
  else if (wanted == GpuTransport::automatic && mesh.world.size() == 1)
    absence_ = "the job has one rank";
  else
    absence_ = absence_of_nccl(mesh.world, device);
  if (!nccl()) {
    if (wanted != GpuTransport::nccl) return;
    throw ConfigurationError("parallel.gpu_backend: nccl is not available: {}", absence_);
  }
  std::vector<Communicator> groups = {
      mesh.data, mesh.context, mesh.tensor, mesh.replicas, mesh.time};
  // Parameters replicated over tensor ranks get gradients of only some rows or heads on each of
  // them, so these are summed over all ranks.
  if (mesh.tensor.size() > 1) groups.push_back(mesh.world);
  if (mesh.world.size() == 1) return;
  Runtime& runtime = *mesh.world.group_->runtime;
  device_.state().set_wait_hook([&runtime](CUstream_st* stream) { runtime.wait(stream); });
  const auto patience = runtime.patience();
  watch_ = std::make_unique<PeriodicThread>(patience / 8,
                                            [this, patience] { abort_if_stuck(patience); });
  try {
    // One after another: before 2.27 NCCL cannot create several communicators at once on one
    // thread. Nor can it create one while another's kernel runs
    // (github.com/NVIDIA/nccl/issues/1082).
    for (const Communicator& group : groups)
      if (group.size() > 1 && !group.group_->nccl) {
        connect(group);
        self_test(group, group.group_ == mesh.context.group_ || group.group_ == mesh.time.group_);
      }
  } catch (...) {
    watch_.reset();
    device_.state().set_wait_hook({});
    throw;
  }
}

void GpuCollectives::self_test(const Communicator& communicator, bool moves_rows) const {
  const Communicator::Group& group = *communicator.group_;
  try {
    const Tensor ones = Tensor::scalar(1, DType::f32, device_);
    communicator.all_reduce(ones, Reduction::sum);
    if (ones.item() != group.size())
      throw RankError("NCCL returned a wrong sum on \"{}\": expected {}, found {}",
                      group.name,
                      group.size(),
                      ones.item());
    warm_up(communicator, moves_rows);
  } catch (const RankError& error) {
    if (group.nccl->error().empty()) throw;
    throw RankError("{}; set parallel.gpu_backend to mpi to run without NCCL", error.what());
  }
}

void GpuCollectives::warm_up(const Communicator& communicator, bool moves_rows) const {
  const int ranks = communicator.size(), rank = communicator.rank();
  const std::int64_t elements = std::max(1, (1 << 20) / ranks);  // 4 MB in total
  {
    const Tensor all = Tensor::zeros({ranks, elements}, DType::f32, device_, MemoryTag::workspace);
    const Tensor mine = all.slice(rank, rank + 1), other = mine.empty_like();
    communicator.all_reduce(all, Reduction::sum);
    communicator.reduce_scatter(all, mine);
    communicator.all_gather(mine, all);
    if (moves_rows) {
      communicator.exchange(mine, (rank + 1) % ranks, other, (rank + ranks - 1) % ranks);
      communicator.all_to_all(all, all.empty_like());
    }
    device_.synchronize();
  }
  device_.allocator().trim();
  device_.allocator().reset_peak();
}

void GpuCollectives::connect(const Communicator& communicator) {
  Communicator::Group& group = *communicator.group_;
  nccl::Id id = {};
  if (group.rank == 0)
    if (const nccl::NcclStatus answer = nccl::make_id(id); !answer.error.empty())
      throw RankError(
          "NCCL initialization failed on \"{}\": {}; set parallel.gpu_backend to mpi "
          "to run without NCCL",
          group.name,
          answer.error);
  const std::string bytes = communicator.broadcast(std::string(id.begin(), id.end()), 0);
  std::memcpy(id.data(), bytes.data(), id.size());
  group.nccl = std::make_unique<NcclTransport>(device_, id, group.rank, group.size(), turns_);
  const std::lock_guard lock(groups_mutex_);
  groups_.push_back(communicator);
}

void GpuCollectives::abort_if_stuck(std::chrono::duration<double> patience) const {
  std::vector<Communicator> groups;
  {
    const std::lock_guard lock(groups_mutex_);
    groups = groups_;
  }
  try {
    for (const Communicator& group : groups) group.group_->nccl->abort_if_left(patience);
  } catch (const Failure&) {
    // The GPU is lost: its next user gets the error too.
  }
}

GpuCollectives::~GpuCollectives() {
  if (groups_.empty()) return;
  const bool in_order = std::uncaught_exceptions() == exceptions_;
  try {
    for (const Communicator& group : groups_)
      if (in_order && !group.group_->failure) group.group_->runtime->finish(*group.group_->nccl);
  } catch (const Error&) {
    // The GPU is lost: its remaining work is abandoned.
  }
  watch_.reset();
  device_.state().set_wait_hook({});
  // All are aborted before any stream is synchronized, which may be queued after another's.
  for (const Communicator& group : groups_) group.group_->nccl->abort();
  for (const Communicator& group : groups_) group.group_->nccl.reset();
}

}  // namespace longspan
