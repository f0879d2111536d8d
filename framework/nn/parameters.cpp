#include "framework/nn/parameters.h"

#include <algorithm>
#include <cmath>

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/power_statistics.h"

namespace longspan {
namespace {

double draw(const Initializer& initial,
            const Random& random,
            std::uint64_t element,
            std::int64_t elements) {
  switch (initial.kind) {
    case Initializer::Kind::constant:
      return initial.mean;
    case Initializer::Kind::normal:
      return initial.mean + initial.scale * random.normal_at(element);
    case Initializer::Kind::uniform:
      return initial.mean +
             initial.scale * (2 * static_cast<double>(random.uniform_at(element)) - 1);
    case Initializer::Kind::power:
      return initial.mean +
             initial.scale * std::pow(static_cast<double>(element) / static_cast<double>(elements),
                                      initial.exponent);
  }
  return 0;
}

// Maps element `local` of a shard to its global index. The shard is a box cut along one axis.
struct PieceIndex {
  std::int64_t inner;       // elements per step of the split axis
  std::int64_t local_run;   // contiguous elements of the shard
  std::int64_t global_run;  // contiguous elements of the global tensor
  std::int64_t begin;       // offset of the shard within the run

  explicit PieceIndex(const Parameter& parameter) {
    const Shape& whole = parameter.global_shape;
    const int axis = std::max(parameter.split_axis, 0);
    inner = 1;
    for (int i = axis + 1; i < whole.dimensions(); ++i) inner *= whole[i];
    local_run = inner * parameter.shape[axis];
    global_run = inner * whole[axis];
    begin = inner * (parameter.split() ? parameter.part.begin : 0);
  }
  std::uint64_t global(std::int64_t local) const {
    return static_cast<std::uint64_t>(local / local_run * global_run + begin + local % local_run);
  }
};

template <typename T>
void fill_initial(const Parameter& parameter, const Tensor& piece, const Random& random) {
  const PieceIndex index(parameter);
  T* const values = piece.data<T>();
  const std::int64_t count = piece.elements(), all = parameter.global_shape.elements();
#pragma omp parallel for if (count > 65536)
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(draw(parameter.initial, random, index.global(i), all));
}

std::int64_t elements_of_all(const std::vector<std::shared_ptr<Parameter>>& parameters) {
  std::int64_t total = 0;
  for (const auto& parameter : parameters) total += parameter->global_shape.elements();
  return total;
}

}  // namespace

Initializer Initializer::xavier(std::int64_t in, std::int64_t out) {
  return uniform(std::sqrt(6.0 / static_cast<double>(in + out)));
}

std::vector<std::int64_t> Parameter::offset() const {
  std::vector<std::int64_t> result(static_cast<std::size_t>(global_shape.dimensions()), 0);
  if (split()) result[static_cast<std::size_t>(split_axis)] = part.begin;
  return result;
}

Weight Parameters::add(const std::string& name,
                       const Shape& global_shape,
                       int split_axis,
                       const Initializer& initial,
                       bool decays,
                       const ParameterUse& in_products,
                       bool inside,
                       const std::optional<ValueBounds>& range) {
  auto parameter = std::make_shared<Parameter>();
  require(by_name_.emplace(name, parameter).second, "duplicate parameter \"{}\"", name);
  parameter->name = name;
  parameter->global_shape = global_shape;
  parameter->shape = global_shape;
  parameter->initial = initial;
  parameter->decays = decays;
  parameter->inside = inside;
  parameter->hidden = in_products.hidden;
  parameter->adapter = in_products.adapter;
  parameter->frozen = !in_products.adapter && tuning_.freezes(name);
  parameter->range = range;
  if (split_axis >= 0) {
    parameter->split_axis = split_axis;
    parameter->part =
        shard_range(global_shape[split_axis], mesh_.tensor.rank(), mesh_.tensor.size());
    parameter->shape = global_shape.with(split_axis, parameter->part.count);
  }
  const bool on_gpu = device_.on_gpu();
  parameter->rounded = global_shape.dimensions() > 1 || (in_products.bias && on_gpu);
  constexpr std::int64_t together = 8;  // 16 bytes of the narrowest dtype
  if (in_products.classes && on_gpu)
    parameter->padding = (together - parameter->shape[0] % together) % together;
  parameters_.push_back(parameter);
  if (!parameter->frozen) trained_.push_back(parameter);
  return parameter;
}

// Every rank draws its full shard, whichever part of it the rank stores.
void Parameters::initialize(const Parameter& parameter, const Random& random) const {
  const DType wide = accumulator_of(compute_);
  const bool keeps_all = parameter.master.defined();
  const Tensor drawn =
      keeps_all && !device_.on_gpu()
          ? parameter.master
          : Tensor::empty(parameter.shape, wide, device_.host(), MemoryTag::workspace);
  const std::string& as = parameter.initial.as;
  const Random place = random.child(as.empty() ? parameter.name : as);
  dispatch_on_host(drawn.device(), [&] {
    if (wide == DType::f64)
      fill_initial<double>(parameter, drawn, place);
    else
      fill_initial<float>(parameter, drawn, place);
  });
  const Tensor piece = drawn.to(device_);
  if (keeps_all)
    parameter.master.copy_from(piece);
  else
    parameter.shard_master.copy_from(
        piece.reshape({piece.elements()}).slice(parameter.shard_begin, parameter.shard_end));
  if (parameter.shard_compute.defined())
    on(device_, [&](auto backend) { scale(backend, 1.0, piece, parameter.compute); });
}

void Parameters::allocate(const Random& random) {
  fill_buckets();
  for (ParameterBucket& bucket : buckets_) allocate(bucket);
  for (const auto& parameter : parameters_) initialize(*parameter, random);
  for (const auto& each : centroids_) each->begin(random);
  for (const auto& each : power_) each->begin();
  set_steps(steps_);
}

void Parameters::read_for(const Scope& scope, std::int64_t steps) const {
  for (const auto& parameter : parameters_)
    if (parameter->name.starts_with(scope.path() + "/")) parameter->active_steps = steps;
}

void Parameters::clamp_to_bounds() const {
  for (const auto& parameter : trained_) {
    if (!parameter->range || parameter->shard_begin == parameter->shard_end) continue;
    on(device_, [&](auto backend) {
      clamp(backend, parameter->shard_master, parameter->range->least, parameter->range->most);
      if (parameter->shard_compute.defined())
        clamp(backend, parameter->shard_compute, parameter->range->least, parameter->range->most);
    });
  }
}

bool Parameters::is_primary_owner(const Parameter& parameter) const {
  const bool first_replica = mesh_.replicas.rank() == 0;
  const bool first_tensor_rank = parameter.split() || mesh_.tensor.rank() == 0;
  if (sharing_.zero == 0) return first_replica && first_tensor_rank;
  // Parameters whose gradients are summands over the tensor ranks are also sharded over these.
  return first_tensor_rank || divided(parameter);
}

void Parameters::clear_gradients() const {
  for (const auto& parameter : trained_) parameter->variable.clear_gradient();
}

const Parameter& Parameters::named(const std::string& name) const {
  const auto found = by_name_.find(name);
  require(found != by_name_.end(), "no such parameter: \"{}\"", name);
  return *found->second;
}

Weight Parameters::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::int64_t Parameters::global_elements() const { return elements_of_all(parameters_); }

std::int64_t Parameters::trained_elements() const { return elements_of_all(trained_); }

void Parameters::add_recurrent_state(const RecurrentStateSpec& spec) {
  require(std::ranges::find(recurrent_states_, spec.name, &RecurrentStateSpec::name) ==
              recurrent_states_.end(),
          "recurrent state {} exists already",
          spec.name);
  recurrent_states_.push_back(spec);
}

Scope Scope::child(const std::string& name) const {
  Scope result = *this;
  result.path_ = path_.empty() ? name : path_ + "/" + name;
  return result;
}

Weight Scope::weight(const std::string& name,
                     const Shape& global_shape,
                     const Initializer& initial,
                     int split_axis) const {
  return parameters_->add(
      child(name).path(), global_shape, split_axis, initial, global_shape.dimensions() > 1);
}

Weight Scope::hidden_matrix(const std::string& name,
                            const Shape& global_shape,
                            const Initializer& initial,
                            int split_axis) const {
  return parameters_->add(
      child(name).path(), global_shape, split_axis, initial, true, {.hidden = true});
}

Weight Scope::adapter(const std::string& name,
                      const Shape& global_shape,
                      const Initializer& initial,
                      int split_axis,
                      bool inside) const {
  return parameters_->add(child(name).path(),
                          global_shape,
                          split_axis,
                          initial,
                          true,
                          {.hidden = true, .adapter = true},
                          inside);
}

Weight Scope::replicated_weight(const std::string& name,
                                const Shape& global_shape,
                                const Initializer& initial) const {
  const bool decays = global_shape.dimensions() > 1;
  return parameters_->add(child(name).path(), global_shape, -1, initial, decays, {}, true);
}

Weight Scope::inside_weight_of_model(const std::string& name,
                                     const Shape& global_shape,
                                     const Initializer& initial) const {
  if (Weight known = parameters_->find(name)) {
    require(known->global_shape == global_shape,
            "parameter \"{}\": expected shape {}, found {}",
            name,
            known->global_shape,
            global_shape);
    return known;
  }
  const bool decays = global_shape.dimensions() > 1;
  return parameters_->add(name, global_shape, -1, initial, decays, {}, true);
}

Weight Scope::bias(std::int64_t elements, int split_axis, const Initializer& initial) const {
  return parameters_->add(
      child("bias").path(), {elements}, split_axis, initial, false, {.bias = true});
}

Weight Scope::classes(std::int64_t count, std::int64_t width, const Initializer& initial) const {
  return parameters_->add(
      child("weight").path(), {count, width}, 0, initial, true, {.classes = true});
}

Weight Scope::class_bias(std::int64_t count) const {
  return parameters_->add(child("bias").path(),
                          {count},
                          0,
                          Initializer::constant(0),
                          false,
                          {.bias = true, .classes = true});
}

Weight Scope::no_decay_weight(const std::string& name,
                              const Shape& global_shape,
                              const Initializer& initial,
                              int split_axis) const {
  return parameters_->add(child(name).path(), global_shape, split_axis, initial, false);
}

Weight Scope::bounded(const std::string& name,
                      const Shape& global_shape,
                      const Initializer& initial,
                      const ValueBounds& range,
                      int split_axis) const {
  return parameters_->add(
      child(name).path(), global_shape, split_axis, initial, false, {}, false, range);
}

std::string Scope::add_recurrent_state(RecurrentStateSpec spec) const {
  spec.name = path_.empty() ? spec.name : path_ + "/" + spec.name;
  parameters_->add_recurrent_state(spec);
  return spec.name;
}

ShardRange Scope::part(std::int64_t total) const {
  const Communicator& tensor = parameters_->mesh().tensor;
  return shard_range(total, tensor.rank(), tensor.size());
}

}  // namespace longspan
