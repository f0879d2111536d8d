#include "framework/planning/machine.h"

#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "framework/core/dispatch.h"
#include "framework/core/gpu.h"
#include "framework/core/input_file.h"
#include "framework/core/quote.h"
#include "framework/core/random.h"
#include "framework/core/span.h"
#include "framework/core/system.h"
#include "framework/distributed/gpu_collectives.h"
#include "framework/kernels/element.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"
#include "framework/planning/plan.h"
#include "framework/trainer/trainer.h"

namespace longspan {
namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;

constexpr double no_time_yet = std::numeric_limits<double>::infinity();

// Returns the value of `name` in a file of "name: number kB" lines, in bytes.
std::optional<double> kilobytes_of(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return 1024 * std::stod(line.substr(name.size()));
  return std::nullopt;
}

std::optional<double> number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;  // "max", or no such file
}

// Returns the bytes of page cache that a cgroup can reclaim.
double cached_files(const std::filesystem::path& group) {
  std::ifstream file(group / "memory.stat");
  double bytes = 0;
  for (std::string line; std::getline(file, line);)
    for (const std::string name : {"active_file ", "inactive_file "})
      if (line.starts_with(name)) bytes += std::stod(line.substr(name.size()));
  return bytes;
}

// Calls `left` with the directory of each cgroup of this process that may limit `controller`, from
// the innermost up. Returns the minimum of its results; nullopt if it returns none.
std::optional<double> least_of_groups(
    const std::filesystem::path& groups,
    const std::filesystem::path& root,
    const std::string& controller,
    const std::function<std::optional<double>(const std::filesystem::path&)>& left) {
  std::ifstream file(groups);
  std::optional<double> least;
  for (std::string line; std::getline(file, line);) {
    // "0::/group" in version 2, "7:pids:/group" in version 1
    const bool is_second = line.starts_with("0::/");
    const std::string first = ":" + controller + ":/";
    const std::size_t at = is_second ? 1 : line.find(first);
    if (at == std::string::npos) continue;
    const std::filesystem::path top = is_second ? root : root / controller;
    std::filesystem::path group = top / line.substr(is_second ? 4 : at + first.size());
    for (; group.string().size() >= top.string().size(); group = group.parent_path())
      if (const auto found = left(group)) least = std::min(least.value_or(*found), *found);
  }
  return least;
}

std::optional<double> difference(const std::filesystem::path& most,
                                 const std::filesystem::path& now) {
  const auto limit = number_in(most), used = number_in(now);
  if (!limit || !used) return std::nullopt;
  return *limit - *used;
}

std::optional<double> memory_left_by_groups() {
  return least_of_groups("/proc/self/cgroup", "/sys/fs/cgroup", "memory", [](const auto& group) {
    auto left = difference(group / "memory.max", group / "memory.current");
    if (left) *left += cached_files(group);
    return left;
  });
}

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t vocabulary = 256;

double memory_bandwidth(const Device& device) {
  const Tensor x = Tensor::zeros({32 << 20}, DType::f32, device, MemoryTag::workspace);
  const Tensor y = x.clone(MemoryTag::workspace);
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    const Stopwatch stopwatch;
    on(device, [&](auto backend) { add(backend, x, y, y); });
    best = std::max(best, 3.0 * static_cast<double>(x.byte_size()) / stopwatch.seconds());
  }
  return best;
}

RunConfig settings_of(const CalibrationModel& model, DType dtype, std::int64_t ranks) {
  RunConfig settings;
  settings.data.batch = model.streams * ranks;
  settings.data.segment = model.segment;
  settings.precision.compute = dtype;
  settings.body = model.body;
  return settings;
}

// Returns the seconds of each step after the warmup steps.
std::vector<double> step_seconds(const RunConfig& settings,
                                 const ProcessMesh& mesh,
                                 int warming,
                                 int count) {
  const Device device = Device::cpu();
  Trainer trainer(settings.make_model(model_setting(settings, vocabulary, mesh, device)),
                  settings.training,
                  Random(0),
                  settings.precision);
  const Shape shape = {settings.data.batch / mesh.data.size(), settings.data.segment};
  Batch batch;
  const Tensor ids = Tensor::zeros(shape, DType::i64, device, MemoryTag::workspace);
  batch.fields = {{"tokens", ids}, {"targets", ids}};
  batch.counts = {{"tokens", shape.elements()}};
  std::vector<double> seconds;
  for (int i = 0; i < warming + count; ++i) {
    const Stopwatch stopwatch;
    trainer.step(batch);
    if (i >= warming) seconds.push_back(stopwatch.seconds());
  }
  return seconds;
}

// Returns the FLOP/s of the model's training step, without the time for memory traffic.
double attained_flops(const CalibrationModel& model, DType dtype, double bandwidth) {
  const RunConfig settings = settings_of(model, dtype, 1);
  const StepPlan plan = plan_step(settings, {}, vocabulary, Processor::cpu);
  const double best = std::ranges::min(step_seconds(settings, {}, 1, 3));
  return plan.flops / std::max(best - plan.touched / bandwidth, best / 4);
}

double link_bandwidth(const Communicator& world, const Device& device) {
  const Tensor x = Tensor::zeros({4 << 20}, DType::f32, device, MemoryTag::workspace);
  const double sent = 2.0 * static_cast<double>(x.byte_size()) * (world.size() - 1) / world.size();
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    world.barrier();
    const Stopwatch stopwatch;
    world.all_reduce(x, Reduction::sum);
    best = std::max(best, sent / stopwatch.seconds());
  }
  return best;
}

// All ranks train each model together.
void add_trials(MachineProfile& machine,
                std::span<const CalibrationModel> trials,
                const Communicator& world) {
  const MeshShape shape = {.data = world.size()};
  machine.min_trial = infinity;
  for (const CalibrationModel& model : trials) {
    const RunConfig settings = settings_of(model, DType::f32, world.size());
    const StepPlan plan = plan_step(settings, shape, vocabulary, Processor::cpu);
    std::vector<double> seconds = step_seconds(settings, ProcessMesh(world, shape), 2, 5);
    std::ranges::nth_element(seconds, seconds.begin() + 2);
    const double median = world.all_reduce(seconds[2], Reduction::maximum);
    const double trial = step_time(plan, machine).total() / median;
    machine.min_trial = std::min(machine.min_trial, trial);
    machine.max_trial = std::max(machine.max_trial, trial);
  }
}

}  // namespace

const std::vector<MachineProfile>& known_gpus() {
  // The memory that the driver leaves. From the datasheets: dense products, memory bandwidth, and
  // NVLink bandwidth in one direction. A step attains about half of the product rate.
  static const std::vector<MachineProfile> known = [] {
    std::vector<MachineProfile> machines = {
        {"a100-40gb", 39 * gibibyte, 19.5e12, 156e12, 312e12, 312e12, 1.555e12, 300e9},
        {"a100-80gb", 79 * gibibyte, 19.5e12, 156e12, 312e12, 312e12, 2.039e12, 300e9},
        {"h100", 78 * gibibyte, 67e12, 494e12, 989e12, 989e12, 3.35e12, 450e9},
        {"h200", 139 * gibibyte, 67e12, 494e12, 989e12, 989e12, 4.8e12, 450e9},
    };
    for (MachineProfile& machine : machines) {
      machine.processor = Processor::gpu;
      for (double* const rate :
           {&machine.flops, &machine.tf32_flops, &machine.bf16_flops, &machine.f16_flops})
        *rate /= 2;
    }
    return machines;
  }();
  return known;
}

double memory_of_rank(int local_ranks) {
  double least = no_time_yet;
  for (const auto free : {kilobytes_of("/proc/meminfo", "MemAvailable:"), memory_left_by_groups()})
    if (free) least = std::min(least, *free / local_ranks);
  rlimit limit{};
  const auto taken = kilobytes_of("/proc/self/status", "VmSize:");
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && taken)
    least = std::min(least, std::max(1.0, static_cast<double>(limit.rlim_cur) - *taken));
  return least == no_time_yet ? 0 : least;
}

std::optional<double> threads_left(const std::filesystem::path& groups,
                                   const std::filesystem::path& root) {
  std::optional<double> left = least_of_groups(groups, root, "pids", [](const auto& group) {
    return difference(group / "pids.max", group / "pids.current");
  });
  rlimit limit{};
  if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const auto most = static_cast<double>(limit.rlim_cur);
    left = std::min(left.value_or(most), most);
  }
  return left;
}

double memory_of_gpu(int gpu, int sharing) {
  const gpu::MemoryBytes bytes = gpu::memory_bytes(gpu);
  return std::max(static_cast<double>(bytes.free) - 0.01 * static_cast<double>(bytes.all), 1.0) /
         sharing;
}

MemoryShare memory_share(const Communicator& world, const Device& device, int local_ranks) {
  const bool on_gpu = device.on_gpu();
  const int ranks = on_gpu ? ranks_of_gpu(world, device) : local_ranks;
  const double bytes = on_gpu ? memory_of_gpu(device.state().gpu(), ranks) : memory_of_rank(ranks);
  return {world.all_reduce(bytes, Reduction::minimum),
          static_cast<int>(world.all_reduce(std::int64_t{ranks}, Reduction::maximum))};
}

MachineProfile shared_among(const MachineProfile& measured, int ranks, int threads) {
  const double even = static_cast<double>(measured.ranks) / ranks;
  const double share = std::min(even, static_cast<double>(threads) / measured.threads);
  MachineProfile machine = measured;
  for (double* const rate :
       {&machine.flops, &machine.bf16_flops, &machine.f16_flops, &machine.memory_bandwidth})
    *rate *= share;
  machine.bandwidth *= even;
  machine.ranks = ranks;
  machine.threads = threads;
  return machine;
}

void write_machine(const MachineProfile& machine, const std::string& path) {
  const nlohmann::ordered_json json = {{"name", machine.name},
                                       {"memory", machine.memory},
                                       {"flops", machine.flops},
                                       {"bf16_flops", machine.bf16_flops},
                                       {"f16_flops", machine.f16_flops},
                                       {"memory_bandwidth", machine.memory_bandwidth},
                                       {"bandwidth", machine.bandwidth},
                                       {"ranks", machine.ranks},
                                       {"threads", machine.threads},
                                       {"least_trial", machine.min_trial},
                                       {"most_trial", machine.max_trial}};
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  errno = 0;
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) throw Failure("{}: cannot be written: {}", path, errno_message());
}

MachineProfile read_machine(const std::string& path) {
  const InputFile file(path);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.copy(0, text);
  try {
    const auto json = nlohmann::json::parse(text);
    MachineProfile machine = {.name = json.at("name")};
    const auto read = [&](const char* key, auto& value, int least = 0) {
      json.at(key).get_to(value);
      if (!(value >= least))
        throw DataError("{}: {}: expected at least {}, found {}", path, key, least, value);
    };
    read("memory", machine.memory);
    read("flops", machine.flops);
    read("bf16_flops", machine.bf16_flops);
    read("f16_flops", machine.f16_flops);
    read("memory_bandwidth", machine.memory_bandwidth);
    read("bandwidth", machine.bandwidth);
    read("ranks", machine.ranks, 1);
    read("threads", machine.threads, 1);
    // Older files lack these values.
    if (json.contains("least_trial")) read("least_trial", machine.min_trial);
    if (json.contains("most_trial")) read("most_trial", machine.max_trial);
    return machine;
  } catch (const nlohmann::json::exception& error) {
    // Skips "[json.exception.parse_error.101] ".
    const std::string_view reason = error.what();
    throw DataError("{}: invalid machine file: {}; run longspan plan --calibrate to write one",
                    path,
                    truncated(reason.substr(reason.find("] ") + 2), 200));
  }
}

namespace {

// A product of square matrices.
class SquareProduct {
 public:
  SquareProduct(std::int64_t size, DType dtype, const Device& device) : device_(device) {
    const auto matrix = [&] {
      return Tensor::empty({size, size}, dtype, device, MemoryTag::workspace);
    };
    product_ = {.a = matrix(), .b = matrix(), .c = matrix()};
    fill(product_.a);
    fill(product_.b);
    seconds();  // the first product selects the algorithm
  }

  double seconds() const {
    const Stopwatch stopwatch;
    on(device_, [&](auto backend) { matmul(backend, product_); });
    device_.synchronize();
    return stopwatch.seconds();
  }

 private:
  // Normally distributed values: zeros need less GPU power, which makes products faster.
  static void fill(const Tensor& matrix) {
    const std::int64_t width = matrix.shape().width();
    Tensor numbers;
    with_floating_type(matrix.dtype(), [&]<typename T>(TypeTag<T>) {
      const Random random(1);
      std::vector<T> drawn;
      for (std::int64_t i = 0; i < 2 * width; ++i)
        drawn.push_back(T(static_cast<float>(random.normal_at(static_cast<std::uint64_t>(i)))));
      numbers = Tensor::from<T>(drawn, {2 * width}, matrix.device().host());
    });
    for (std::int64_t i = 0; i < matrix.shape().rows(); ++i)
      matrix.slice(i, i + 1).copy_from(
          numbers.slice(i % width, i % width + width).reshape({1, width}));
  }

  Device device_;
  Matmul product_;
};

}  // namespace

double matmul_peak(const Device& device, DType dtype, double seconds) {
  // CPU kernels for float64 are simple: larger matrices take seconds without a higher rate.
  const std::int64_t largest = device.on_gpu() ? 8192 : dtype == DType::f64 ? 256 : 1024;
  // Long enough to hide the launch overhead. Very slow processors, such as emulated ones, do not
  // reach larger sizes.
  const double long_enough = device.on_gpu() ? 1e-3 : 20e-3;
  double best = 0;
  double fastest = 0;
  // Where other processes share the cores, only small products find all threads running.
  for (std::int64_t size = 64; size <= largest && fastest < long_enough; size *= 2) {
    const SquareProduct product(size, dtype, device);
    fastest = std::numeric_limits<double>::infinity();
    const Stopwatch all;
    do fastest = std::min(fastest, product.seconds());
    while (all.seconds() < seconds / 5);
    best = std::max(best, 2.0 * static_cast<double>(size * size * size) / fastest);
  }
  device.allocator().trim();
  device.allocator().reset_peak();
  return best;
}

MachineProfile measure_machine(const Communicator& world,
                               int local_ranks,
                               const CalibrationModels& models) {
  const Device device = Device::cpu();
  const auto slowest = [&](double rate) { return world.all_reduce(rate, Reduction::minimum); };
  world.barrier();
  const double bandwidth = memory_bandwidth(device);
  MachineProfile machine = {
      .name = "this machine",
      .flops = slowest(attained_flops(models.measured, DType::f32, bandwidth)),
      .bf16_flops = slowest(attained_flops(models.measured, DType::bf16, bandwidth)),
      .f16_flops = slowest(attained_flops(models.measured, DType::f16, bandwidth)),
      .memory_bandwidth = slowest(bandwidth),
      .ranks = local_ranks,
      .threads = omp_get_max_threads()};
  if (world.size() > 1) machine.bandwidth = slowest(link_bandwidth(world, device));
  add_trials(machine, models.trials, world);
  return machine;
}

}  // namespace longspan
