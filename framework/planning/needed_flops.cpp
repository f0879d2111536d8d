#include "framework/planning/needed_flops.h"

#include "framework/comm/dry.h"
#include "framework/core/out_of_memory.h"
#include "framework/core/unneeded_flops.h"

namespace longspan {
namespace {

constexpr std::size_t most_known = 256;

Settings keeping_everything(Settings settings) {
  settings.memory = {.keep_streams = true};
  settings.parallel = {};
  return settings;
}

ProcessMesh one_process() { return dry_mesh({}, 0, std::make_shared<Traffic>()); }

double needed(const Device& device) {
  DeviceState& state = device.state();
  return state.flops() - state.kept<UnneededFlops>().flops;
}

Tensor rows_like(const Tensor& tensor, std::int64_t rows, const Device& device) {
  return Tensor::empty(tensor.shape().with(0, rows), tensor.dtype(), device);
}

}  // namespace

NeededFlops::NeededFlops(const Settings& settings, std::int64_t vocabulary)
    : settings_(keeping_everything(settings)), vocabulary_(vocabulary) {}

const Model& NeededFlops::model() {
  if (!model_)
    model_ =
        settings_.make_model(model_setting(settings_, vocabulary_, one_process(), Device::dry()));
  return *model_;
}

std::optional<NeededFlops::Count> NeededFlops::of(const Fields& fields,
                                                  std::int64_t ranks,
                                                  std::int64_t remembered) {
  const std::int64_t rows = fields.begin()->second.shape()[0] * ranks;
  Shapes shapes = {rows, remembered};
  for (const auto& [name, field] : fields) {
    const auto inner = field.shape().extents().subspan(1);
    shapes.insert(shapes.end(), inner.begin(), inner.end());
  }
  if (const auto known = known_.find(shapes); known != known_.end()) return known->second;
  if (known_.size() >= most_known) known_.clear();
  std::optional<Count>& count = known_[shapes];
  try {
    try {
      count = walk(fields, rows, remembered);
    } catch (const OutOfAddresses&) {
      const Count one = walk(fields, 1, remembered), two = walk(fields, 2, remembered);
      const auto more = static_cast<double>(rows - 1);
      count = Count{.forward = one.forward + more * (two.forward - one.forward),
                    .backward = one.backward + more * (two.backward - one.backward)};
    }
  } catch (const OutOfAddresses&) {
  }
  return count;
}

std::optional<NeededFlops::Count> NeededFlops::of_full_step() {
  const Batch batch = settings_.task_kind().dry_batch(
      {.data = settings_.data, .mesh = one_process(), .host = Device::dry()});
  try {
    return of(batch.fields, 1, model().body().longest_memory());
  } catch (const OutOfAddresses&) {
    return std::nullopt;
  }
}

// What rows carry is of the shapes that a pass leaves, but for its length.
Reading NeededFlops::reading(const Fields& fields, std::int64_t rows, std::int64_t remembered) {
  const Device& device = model().parameters().device();
  Reading reading = {.longest_memory = model().body().longest_memory()};
  for (const auto& [name, field] : fields) reading.fields[name] = rows_like(field, rows, device);
  if (remembered == 0) return reading;
  if (carried_.empty()) {
    const NoGradient unrecorded;
    carried_ = model().losses(reading, {.training = true}).carried.tensors;
  }
  for (const auto& [name, tensor] : carried_)
    reading.carried.tensors.push_back(
        {name,
         Tensor::empty(tensor.shape().with(0, rows).with(1, remembered), tensor.dtype(), device)});
  return reading;
}

NeededFlops::Count NeededFlops::walk(const Fields& fields,
                                     std::int64_t rows,
                                     std::int64_t remembered) {
  const Reading read = reading(fields, rows, remembered);
  const Device& device = model().parameters().device();
  const double before = needed(device);
  std::vector<Variable> values;
  std::vector<Tensor> seeds;
  for (const Term& term : model().losses(read, {.training = true}).terms) {
    values.push_back(term.values);
    seeds.push_back(term.values.value().like());
  }
  const double forward = needed(device) - before;
  backward(values, seeds);
  return {.forward = forward, .backward = needed(device) - before - forward};
}

}  // namespace longspan
