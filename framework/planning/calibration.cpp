#include "framework/planning/calibration.h"

#include <omp.h>

#include <algorithm>
#include <limits>

#include "framework/core/stopwatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/planning/plan.h"
#include "framework/trainer/trainer.h"

namespace longspan {
namespace {

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
