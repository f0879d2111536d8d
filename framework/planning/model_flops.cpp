#include "framework/planning/model_flops.h"

#include <algorithm>

#include "framework/core/allocator.h"
#include "framework/core/device.h"
#include "framework/distributed/process_mesh.h"
#include "framework/planning/plan.h"

namespace longspan {
namespace {

constexpr std::size_t max_known = 512;

RunConfig keeping_everything(RunConfig settings) {
  settings.memory = {.stores_streams = true};
  settings.parallel = {};
  return settings;
}

ProcessMesh mesh_of(const MeshShape& shape) {
  return fake_mesh(shape, 0, std::make_shared<Traffic>());
}

double needed(const Device& device) {
  DeviceState& state = device.state();
  return state.flops() - state.get_or_create<RedundantFlops>().flops;
}

}  // namespace

ModelFlops::ModelFlops(const RunConfig& settings, const DataSizes& ids)
    : settings_(keeping_everything(settings)), ids_(ids) {}

// Created on first use, because a process may lack address space.
const Model& ModelFlops::model() {
  if (model_) return *model_;
  const Device device = Device::meta();
  device.state().get_or_create<FlopsOnlyMode>().wanted = true;
  model_ = settings_.make_model(model_setting(settings_, ids_, mesh_of({}), device));
  return *model_;
}

std::int64_t ModelFlops::read_in(std::int64_t step) try {
  if (lacks_addresses_) return 0;
  return std::ranges::count_if(model().parameters().all(), [step](const auto& parameter) {
    return !parameter->active_steps || step < *parameter->active_steps;
  });
} catch (const OutOfAddressSpace&) {
  lacks_addresses_ = true;
  return 0;
}

std::optional<ModelFlops::Count> ModelFlops::of(const Fields& fields,
                                                std::int64_t ranks,
                                                std::int64_t remembered,
                                                std::int64_t step) {
  std::vector<std::int64_t> shapes = {read_in(step), remembered};
  if (lacks_addresses_) return std::nullopt;
  for (const auto& [name, field] : fields) {
    const auto row = field.shape().extents().subspan(1);
    shapes.insert(shapes.end(), row.begin(), row.end());
  }
  auto known = known_.find(shapes);
  if (known == known_.end()) {
    if (known_.size() >= max_known) known_.clear();
    known = known_.emplace(std::move(shapes), walk_rows(fields, remembered, step)).first;
  }
  if (!known->second) return std::nullopt;
  const auto& [one, two] = *known->second;
  const auto more = static_cast<double>(fields.begin()->second.shape()[0] * ranks - 1);
  return Count{.forward = one.forward + more * (two.forward - one.forward),
               .backward = one.backward + more * (two.backward - one.backward)};
}

std::optional<ModelFlops::Count> ModelFlops::of_full_step(const MeshShape& mesh) try {
  const Batch batch =
      settings_.task_kind().meta_batch(usual_batch(settings_, mesh_of(mesh), Device::meta(), ids_));
  return of(batch.fields, mesh.data, model().body().max_mem_len());
} catch (const OutOfAddressSpace&) {
  return std::nullopt;
}

std::optional<ModelFlops::ByRows> ModelFlops::walk_rows(const Fields& fields,
                                                        std::int64_t remembered,
                                                        std::int64_t step) try {
  return ByRows{.one = walk(fields, 1, remembered, step), .two = walk(fields, 2, remembered, step)};
} catch (const OutOfAddressSpace&) {
  return std::nullopt;
}

// Recurrent state has the shapes that a pass returns, except for its length.
ModelInput ModelFlops::reading(const Fields& fields, std::int64_t rows, std::int64_t remembered) {
  const Device& device = model().parameters().device();
  ModelInput reading = {.max_mem_len = model().body().max_mem_len()};
  for (const auto& [name, field] : fields)
    reading.fields[name] = Tensor::empty(field.shape().with(0, rows), field.dtype(), device);
  if (remembered == 0) return reading;
  const NoGradGuard unrecorded;
  reading.carried = model().losses(reading, {.training = true}).carried;
  for (RecurrentStateTensor& carried : reading.carried.tensors)
    carried.tensor =
        Tensor::empty(carried.tensor.shape().with(1, remembered), carried.tensor.dtype(), device);
  reading.carried.all.reset();
  return reading;
}

ModelFlops::Count ModelFlops::walk(const Fields& fields,
                                   std::int64_t rows,
                                   std::int64_t remembered,
                                   std::int64_t step) {
  const ModelInput read = reading(fields, rows, remembered);
  const Device& device = model().parameters().device();
  const double before = needed(device);
  std::vector<Variable> values;
  std::vector<Tensor> seeds;
  for (const LossTerm& term : model().losses(read, {.training = true, .step = step}).terms) {
    values.push_back(term.values);
    seeds.push_back(term.values.value().empty_like());
  }
  const double forward = needed(device) - before;
  backward(values, seeds);
  return {.forward = forward, .backward = needed(device) - before - forward};
}

}  // namespace longspan
