#include "framework/train/machine.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/kernels/elementwise.h"
#include "framework/train/peak.h"

namespace longspan {
namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;

// The number that follows `name` in a file of "name: number kB" lines, in bytes.
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

// What the memory controllers of this process's control groups leave, from the innermost up.
std::optional<double> left_by_control_groups() {
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::ifstream groups("/proc/self/cgroup");
  std::optional<double> least;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    std::filesystem::path group = root / line.substr(4);
    for (; group.string().size() >= root.string().size(); group = group.parent_path()) {
      const auto most = number_in(group / "memory.max");
      const auto now = number_in(group / "memory.current");
      if (most && now) least = std::min(least.value_or(*most - *now), *most - *now);
    }
  }
  return least;
}

double memory_bandwidth(const Device& device) {
  using Clock = std::chrono::steady_clock;
  const Tensor x = Tensor::zeros({32 << 20}, DType::f32, device, MemoryTag::workspace);
  const Tensor y = x.clone(MemoryTag::workspace);
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    const auto begin = Clock::now();
    on(device, [&](auto backend) { add(backend, x, y, y); });
    const std::chrono::duration<double> time = Clock::now() - begin;
    best = std::max(best, 3.0 * static_cast<double>(x.byte_size()) / time.count());
  }
  return best;
}

double link_bandwidth(const Communicator& world, const Device& device) {
  using Clock = std::chrono::steady_clock;
  const Tensor x = Tensor::zeros({4 << 20}, DType::f32, device, MemoryTag::workspace);
  const double sent = 2.0 * static_cast<double>(x.byte_size()) * (world.size() - 1) / world.size();
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    world.barrier();
    const auto begin = Clock::now();
    world.all_reduce(x, Reduction::sum);
    const std::chrono::duration<double> time = Clock::now() - begin;
    best = std::max(best, sent / time.count());
  }
  return best;
}

}  // namespace

const std::vector<Machine>& known_machines() {
  // Datasheets: dense products (float32 as TF32), memory, and NVLink or PCIe in one direction.
  static const std::vector<Machine> known = {
      {"a100-40gb", 40 * gibibyte, 156e12, 312e12, 1.555e12, 300e9},
      {"a100-80gb", 80 * gibibyte, 156e12, 312e12, 2.039e12, 300e9},
      {"h100", 80 * gibibyte, 494e12, 989e12, 3.35e12, 450e9},
      {"h200", 141e9, 494e12, 989e12, 4.8e12, 450e9},
      {"l40s", 48 * gibibyte, 183e12, 362e12, 0.864e12, 32e9},
      {"rtx4090", 24 * gibibyte, 82.6e12, 165e12, 1.008e12, 32e9},
  };
  return known;
}

double available_memory() {
  const double free = kilobytes_of("/proc/meminfo", "MemAvailable:").value_or(0);
  return std::min(free, left_by_control_groups().value_or(free));
}

Machine measure_machine(const Communicator& world) {
  const Device device = Device::cpu();
  const auto slowest = [&](double rate) { return world.all_reduce(rate, Reduction::minimum); };
  world.barrier();
  Machine machine = {.name = "this machine",
                     .flops = slowest(matmul_peak(device, DType::f32, 0.2)),
                     .narrow_flops = slowest(matmul_peak(device, DType::bf16, 0.2)),
                     .memory_bandwidth = slowest(memory_bandwidth(device))};
  if (world.size() > 1) machine.bandwidth = slowest(link_bandwidth(world, device));
  return machine;
}

void write_machine(const Machine& machine, const std::string& path) {
  const nlohmann::ordered_json json = {{"name", machine.name},
                                       {"memory", machine.memory},
                                       {"flops", machine.flops},
                                       {"narrow_flops", machine.narrow_flops},
                                       {"memory_bandwidth", machine.memory_bandwidth},
                                       {"bandwidth", machine.bandwidth}};
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) throw Failure("{}: cannot be written", path);
}

Machine read_machine(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw DataError("{}: cannot be read", path);
  try {
    const auto json = nlohmann::json::parse(file);
    Machine machine = {.name = json.at("name")};
    const auto read = [&](const char* key, double& value) {
      value = json.at(key);
      if (!(value >= 0)) throw DataError("{}: {} is {}, wanted 0 or more", path, key, value);
    };
    read("memory", machine.memory);
    read("flops", machine.flops);
    read("narrow_flops", machine.narrow_flops);
    read("memory_bandwidth", machine.memory_bandwidth);
    read("bandwidth", machine.bandwidth);
    return machine;
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: is no table of a machine: {}", path, error.what());
  }
}

}  // namespace longspan
