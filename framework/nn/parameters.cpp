#include "framework/nn/parameters.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

constexpr std::int64_t alignment = 16;  // elements: whole cache lines of f32

std::int64_t padded(std::int64_t elements) {
  return (elements + alignment - 1) / alignment * alignment;
}

double draw(const Initial& initial, const Random& random, std::uint64_t element) {
  switch (initial.kind) {
    case Initial::Kind::constant:
      return initial.mean;
    case Initial::Kind::normal:
      return initial.mean + initial.scale * random.normal_at(element);
    case Initial::Kind::uniform:
      return initial.mean +
             initial.scale * (2 * static_cast<double>(random.uniform_at(element)) - 1);
  }
  return 0;
}

// The global index of element `local` of a piece: the piece is a box cut along one axis.
struct PieceIndex {
  std::int64_t inner;       // elements of one step of the split axis
  std::int64_t local_run;   // elements of the piece that follow one another
  std::int64_t global_run;  // the same of the whole tensor
  std::int64_t begin;       // of the piece within the run

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
void initialise(const Parameter& parameter, const Random& random) {
  const PieceIndex index(parameter);
  T* const values = parameter.master.data<T>();
  const std::int64_t count = parameter.master.elements();
#pragma omp parallel for if (count > 65536)
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(draw(parameter.initial, random, index.global(i)));
}

}  // namespace

Initial Initial::xavier(std::int64_t in, std::int64_t out) {
  return uniform(std::sqrt(6.0 / static_cast<double>(in + out)));
}

Part part_of(std::int64_t total, int rank, int ranks) {
  const std::int64_t begin = total * rank / ranks;
  return {begin, total * (rank + 1) / ranks - begin, total};
}

std::vector<std::int64_t> Parameter::offset() const {
  std::vector<std::int64_t> result(static_cast<std::size_t>(global_shape.dimensions()), 0);
  if (split()) result[static_cast<std::size_t>(split_axis)] = part.begin;
  return result;
}

Weight Parameters::add(const std::string& name,
                       const Shape& global_shape,
                       int split_axis,
                       const Initial& initial,
                       bool decays) {
  require(std::ranges::none_of(parameters_, [&](const auto& other) { return other->name == name; }),
          "there are two parameters \"{}\"",
          name);
  auto parameter = std::make_shared<Parameter>();
  parameter->name = name;
  parameter->global_shape = global_shape;
  parameter->shape = global_shape;
  parameter->initial = initial;
  parameter->decays = decays;
  if (split_axis >= 0) {
    parameter->split_axis = split_axis;
    parameter->part = part_of(global_shape[split_axis], mesh_.tensor.rank(), mesh_.tensor.size());
    parameter->shape = global_shape.with(split_axis, parameter->part.count);
  }
  parameters_.push_back(parameter);
  return parameter;
}

void Parameters::allocate(const Random& random) {
  std::ranges::stable_partition(parameters_,
                                [](const auto& parameter) { return !parameter->split(); });
  std::int64_t total = 0;
  for (const auto& parameter : parameters_) {
    parameter->begin = total;
    total += padded(parameter->shape.elements());
  }
  const DType wide = accumulator_of(compute_);
  flat_master_ = Tensor::zeros({total}, wide, device_, MemoryTag::weights);
  flat_gradient_ = Tensor::zeros({total}, wide, device_, MemoryTag::gradients);
  if (wide != compute_)
    flat_compute_ = Tensor::zeros({total}, compute_, device_, MemoryTag::weights);
  for (const auto& parameter : parameters_) {
    const auto piece = [&](const Tensor& flat) {
      return flat.slice(parameter->begin, parameter->begin + parameter->shape.elements())
          .reshape(parameter->shape);
    };
    // Vectors stay wide: they are small, and a rounded gain or bias is felt by every element.
    const bool narrow = flat_compute_.defined() && parameter->shape.dimensions() > 1;
    parameter->master = piece(flat_master_);
    parameter->gradient = piece(flat_gradient_);
    parameter->compute = narrow ? piece(flat_compute_) : parameter->master;
    parameter->variable = Variable::leaf(parameter->compute, wide, parameter->gradient);
    const Random place = random.child(parameter->name);
    if (wide == DType::f64)
      initialise<double>(*parameter, place);
    else
      initialise<float>(*parameter, place);
  }
  refresh_compute();
}

void Parameters::refresh_compute() const {
  if (!flat_compute_.defined()) return;
  on(device_, [&](auto backend) { scale(backend, 1.0, flat_master_, flat_compute_); });
}

void Parameters::clear_gradients() const {
  for (const auto& parameter : parameters_) parameter->variable.clear_gradient();
}

const Parameter& Parameters::named(const std::string& name) const {
  for (const auto& parameter : parameters_)
    if (parameter->name == name) return *parameter;
  throw Failure("there is no parameter \"{}\"", name);
}

std::int64_t Parameters::global_elements() const {
  std::int64_t total = 0;
  for (const auto& parameter : parameters_) total += parameter->global_shape.elements();
  return total;
}

std::int64_t Parameters::local_elements() const {
  std::int64_t total = 0;
  for (const auto& parameter : parameters_) total += parameter->shape.elements();
  return total;
}

Scope Scope::child(const std::string& name) const {
  Scope result = *this;
  result.path_ = path_.empty() ? name : path_ + "/" + name;
  return result;
}

Weight Scope::weight(const std::string& name,
                     const Shape& global_shape,
                     const Initial& initial,
                     int split_axis) const {
  return parameters_->add(
      child(name).path(), global_shape, split_axis, initial, global_shape.dimensions() > 1);
}

Weight Scope::undecayed(const std::string& name,
                        const Shape& global_shape,
                        const Initial& initial,
                        int split_axis) const {
  return parameters_->add(child(name).path(), global_shape, split_axis, initial, false);
}

Part Scope::part(std::int64_t total) const {
  const Communicator& tensor = parameters_->mesh().tensor;
  return part_of(total, tensor.rank(), tensor.size());
}

}  // namespace longspan
