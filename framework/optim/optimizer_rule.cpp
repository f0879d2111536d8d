#include "framework/optim/optimizer_rule.h"

#include "framework/kernels/element.h"
#include "framework/optim/parameter_state.h"

namespace longspan {

StateBuffer::StateBuffer(std::string name, const Parameters& parameters, const Which& which)
    : name_(std::move(name)), parameters_(parameters) {
  std::int64_t elements = which ? 0 : parameters.shard_elements();
  for (const auto& parameter : parameters.trained()) {
    if (which && !which(*parameter)) continue;
    places_[parameter.get()] = which ? elements : parameter->shard_offset;
    if (which) elements += parameter->shard_end - parameter->shard_begin;
  }
  values_ = Tensor::zeros({elements},
                          accumulator_of(parameters.compute_dtype()),
                          parameters.device(),
                          MemoryTag::optimizer);
}

Tensor StateBuffer::of(const Parameter& parameter) const {
  const std::int64_t place = places_.at(&parameter);
  return values_.slice(place, place + parameter.shard_end - parameter.shard_begin);
}

Tensor StateBuffer::of(const FlatParameterRun& run) const {
  return values_.slice(run.shard_offset, run.shard_offset + run.shard_master.elements());
}

void StateBuffer::add_to(TrainingState& state) const {
  for (const auto& parameter : parameters_.trained())
    if (places_.contains(parameter.get()))
      add_own(state,
              "optimizer/" + name_ + "/" + parameter->name,
              parameters_,
              *parameter,
              of(*parameter));
}

}  // namespace longspan
