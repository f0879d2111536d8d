#include "framework/nn/parameters.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

#include "framework/kernels/clamp.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/power_statistics.h"

namespace longspan {
namespace {

constexpr std::int64_t alignment = 16;  // elements: whole cache lines of f32

std::int64_t padded(std::int64_t elements, std::int64_t multiple) {
  return (elements + multiple - 1) / multiple * multiple;
}

// The ranks that share a bucket out, and which of them this is; without ZeRO it is alone.
struct Sharers {
  int count = 1;
  int rank = 0;

  Sharers(const ParameterBucket& bucket, const WeightSharing& sharing) {
    if (sharing.zero == 0) return;
    count = bucket.ranks.size();
    rank = bucket.ranks.rank();
  }
  Tensor own_part(const Tensor& block) const {
    const std::int64_t share = block.elements() / count;
    return block.slice(share * rank, share * (rank + 1));
  }
};

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
void initialise(const Parameter& parameter, const Tensor& piece, const Random& random) {
  const PieceIndex index(parameter);
  T* const values = piece.data<T>();
  const std::int64_t count = piece.elements();
#pragma omp parallel for if (count > 65536)
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(draw(parameter.initial, random, index.global(i)));
}

// Elements of a rank's pieces on average over the tensor ranks, whose pieces may differ in size:
// the same number on all ranks, as buckets that they fill together must end at the same parameters.
std::int64_t elements_a_rank(const std::vector<std::shared_ptr<Parameter>>& parameters,
                             const ProcessMesh& mesh) {
  std::int64_t total = 0;
  for (const auto& parameter : parameters)
    total += parameter->global_shape.elements() / (parameter->split() ? mesh.tensor.size() : 1);
  return total;
}

std::int64_t elements_of_all(const std::vector<std::shared_ptr<Parameter>>& parameters) {
  std::int64_t total = 0;
  for (const auto& parameter : parameters) total += parameter->global_shape.elements();
  return total;
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
                       bool decays,
                       const InProducts& in_products,
                       bool inside,
                       const std::optional<ValueRange>& range) {
  auto parameter = std::make_shared<Parameter>();
  require(by_name_.emplace(name, parameter).second, "there are two parameters \"{}\"", name);
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
    parameter->part = part_of(global_shape[split_axis], mesh_.tensor.rank(), mesh_.tensor.size());
    parameter->shape = global_shape.with(split_axis, parameter->part.count);
  }
  const bool on_gpu = device_.on_gpu();
  parameter->rounded = global_shape.dimensions() > 1 || (in_products.bias && on_gpu);
  constexpr std::int64_t together = 8;  // 16 bytes of the narrowest dtype
  if (in_products.classes && on_gpu)
    parameter->padding = padded(parameter->shape[0], together) - parameter->shape[0];
  parameters_.push_back(parameter);
  if (!parameter->frozen) trained_.push_back(parameter);
  return parameter;
}

// A new bucket where the next parameter is of another kind or would make it too large. Within a
// kind those that are treated alike follow one another.
void Parameters::fill_buckets() {
  const auto kind = [this](const auto& each) {
    return std::tuple(!each->frozen, each->rounded, each->shape.dimensions() > 1, divided(*each));
  };
  const auto place = [&](const auto& each) {
    return std::tuple(kind(each), each->decays, each->split());
  };
  std::vector<std::shared_ptr<Parameter>> order = parameters_;
  std::ranges::stable_sort(order, std::greater<>(), place);
  auto limit = static_cast<std::int64_t>(sharing_.bucket_megabytes * 1e6 /
                                         static_cast<double>(size_of(accumulator_of(compute_))));
  // Where gradients are shared out a few buckets are there at a time: they must be small beside
  // the whole.
  if (sharing_.zero > 1) limit = std::min(limit, elements_a_rank(trained_, mesh_) / 16);
  for (const auto& parameter : order) {
    const std::int64_t size =
        padded(std::max<std::int64_t>(parameter->padded_shape().elements(), 1), alignment);
    const bool fits = !buckets_.empty() && buckets_.back().elements + size <= limit &&
                      kind(buckets_.back().parameters.front()) == kind(parameter);
    ParameterBucket& bucket = fits ? buckets_.back() : buckets_.emplace_back();
    bucket.ranks = divided(*parameter) ? mesh_.world : mesh_.replicas;
    bucket.parameters.push_back(parameter);
    bucket.places.push_back(bucket.elements);
    bucket.elements += size;
  }
}

void Parameters::allocate(ParameterBucket& bucket) {
  const Sharers sharers(bucket, sharing_);
  bucket.elements = padded(bucket.elements, alignment * sharers.count);
  const DType wide = accumulator_of(compute_);
  const bool narrow = wide != compute_ && bucket.parameters.front()->rounded;
  const bool frozen = bucket.frozen();
  const bool copied = narrow || (separate_masters_ && !frozen);
  const bool shares_masters = copied && sharers.count > 1;
  const bool shares_gradients = sharing_.zero > 1 && sharers.count > 1;
  const std::int64_t share = bucket.elements / sharers.count;
  const auto zeros = [&](std::int64_t elements, DType dtype, MemoryTag tag) {
    return Tensor::zeros({elements}, dtype, device_, tag);
  };
  bucket.compute = zeros(bucket.elements, narrow ? compute_ : wide, MemoryTag::weights);
  Tensor master = bucket.compute;
  if (copied) master = zeros(shares_masters ? share : bucket.elements, wide, MemoryTag::weights);
  bucket.own_master = shares_masters ? master : sharers.own_part(master);
  if (copied) bucket.own_compute = sharers.own_part(bucket.compute);
  if (!frozen) {
    bucket.own_gradient =
        zeros(shares_gradients ? share : bucket.elements, wide, MemoryTag::gradients);
    if (!shares_gradients) {
      bucket.gradient = bucket.own_gradient;
      bucket.own_gradient = sharers.own_part(bucket.gradient);
    }
  }
  const std::int64_t own_begin = share * sharers.rank;
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    Parameter& parameter = *bucket.parameters[i];
    const std::int64_t place = bucket.places[i];
    const std::int64_t size = parameter.shape.elements();
    const auto whole = [&](const Tensor& block, const Shape& shape) {
      return block.slice(place, place + shape.elements()).reshape(shape);
    };
    parameter.compute = whole(bucket.compute, parameter.shape);
    if (!shares_masters) parameter.master = whole(master, parameter.shape);
    const Shape with_padding = parameter.padded_shape();
    const Tensor read = whole(bucket.compute, with_padding);
    const bool has_gradient = bucket.gradient.defined();
    if (has_gradient) parameter.gradient = whole(bucket.gradient, parameter.shape);
    parameter.variable =
        frozen ? Variable(read)
               : Variable::leaf(
                     read, wide, has_gradient ? whole(bucket.gradient, with_padding) : Tensor());
    // Where the parameter and this rank's part overlap, counted from the part's beginning.
    const std::int64_t begin = std::clamp<std::int64_t>(place - own_begin, 0, share);
    const std::int64_t end = std::clamp<std::int64_t>(place + size - own_begin, 0, share);
    parameter.own_begin = begin == end ? 0 : own_begin + begin - place;
    parameter.own_end = parameter.own_begin + end - begin;
    parameter.own_place = own_elements_ + begin;
    parameter.own_master = bucket.own_master.slice(begin, end);
    if (!frozen) parameter.own_gradient = bucket.own_gradient.slice(begin, end);
    if (copied) parameter.own_compute = bucket.own_compute.slice(begin, end);
  }
  if (frozen) return;
  add_runs(bucket,
           {.own_place = own_elements_,
            .own_master = bucket.own_master,
            .own_gradient = bucket.own_gradient,
            .own_compute = bucket.own_compute});
  own_elements_ += share;
}

// Cuts what this rank owns of a bucket where a parameter is treated otherwise than the one before.
void Parameters::add_runs(const ParameterBucket& bucket, const ParameterRun& whole) {
  const Parameter* first = nullptr;
  std::int64_t begin = 0, end = 0;
  const auto add_run = [&] {
    if (first == nullptr) return;
    const auto part = [&](const Tensor& tensor) {
      return tensor.defined() ? tensor.slice(begin, end) : tensor;
    };
    all_runs_.push_back({.own_place = whole.own_place + begin,
                         .own_master = part(whole.own_master),
                         .own_gradient = part(whole.own_gradient),
                         .own_compute = part(whole.own_compute),
                         .decays = first->decays,
                         .answered_for = answers_for(*first),
                         .read_steps = first->read_steps});
  };
  for (const auto& parameter : bucket.parameters) {
    if (parameter->own_begin == parameter->own_end) continue;
    if (first == nullptr || parameter->decays != first->decays ||
        answers_for(*parameter) != answers_for(*first) ||
        parameter->read_steps != first->read_steps) {
      add_run();
      first = parameter.get();
      begin = parameter->own_place - whole.own_place;
    }
    end = parameter->own_place - whole.own_place + parameter->own_end - parameter->own_begin;
  }
  add_run();
}

// Every rank draws all of its piece, whatever part of it it keeps.
void Parameters::draw(const Parameter& parameter, const Random& random) const {
  const DType wide = accumulator_of(compute_);
  const bool keeps_all = parameter.master.defined();
  const Tensor drawn =
      keeps_all && !device_.on_gpu()
          ? parameter.master
          : Tensor::empty(parameter.shape, wide, device_.host(), MemoryTag::workspace);
  const std::string& as = parameter.initial.as;
  const Random place = random.child(as.empty() ? parameter.name : as);
  on_host(drawn.device(), [&] {
    if (wide == DType::f64)
      initialise<double>(parameter, drawn, place);
    else
      initialise<float>(parameter, drawn, place);
  });
  const Tensor piece = drawn.to(device_);
  if (keeps_all)
    parameter.master.copy_from(piece);
  else
    parameter.own_master.copy_from(
        piece.reshape({piece.elements()}).slice(parameter.own_begin, parameter.own_end));
  if (parameter.own_compute.defined())
    on(device_, [&](auto backend) { scale(backend, 1.0, piece, parameter.compute); });
}

void Parameters::allocate(const Random& random) {
  fill_buckets();
  for (ParameterBucket& bucket : buckets_) allocate(bucket);
  for (const auto& parameter : parameters_) draw(*parameter, random);
  for (const auto& each : centroids_) each->begin(random);
  for (const auto& each : power_) each->begin();
  set_steps(steps_);
}

void Parameters::set_steps(std::int64_t steps) {
  steps_ = steps;
  runs_.clear();
  std::ranges::copy_if(all_runs_, std::back_inserter(runs_), [this](const ParameterRun& run) {
    return reads(run.read_steps);
  });
}

void Parameters::read_for(const Scope& scope, std::int64_t steps) const {
  for (const auto& parameter : parameters_)
    if (parameter->name.starts_with(scope.path() + "/")) parameter->read_steps = steps;
}

void Parameters::refresh_compute() const {
  for (const ParameterBucket& bucket : buckets_)
    if (bucket.own_compute.defined())
      on(device_,
         [&](auto backend) { scale(backend, 1.0, bucket.own_master, bucket.own_compute); });
  gather(true);
}

void Parameters::hold_in_ranges() const {
  for (const auto& parameter : trained_) {
    if (!parameter->range || parameter->own_begin == parameter->own_end) continue;
    on(device_, [&](auto backend) {
      clamp(backend, parameter->own_master, parameter->range->least, parameter->range->most);
      if (parameter->own_compute.defined())
        clamp(backend, parameter->own_compute, parameter->range->least, parameter->range->most);
    });
  }
}

void Parameters::gather(bool frozen_too) const {
  std::vector<Request> requests;
  for (const ParameterBucket& bucket : buckets_)
    if (const Sharers sharers(bucket, sharing_);
        sharers.count > 1 && (frozen_too || !bucket.frozen()))
      requests.push_back(
          bucket.ranks.start_all_gather(sharers.own_part(bucket.compute), bucket.compute));
  for (Request& request : requests) request.wait();
}

bool Parameters::answers_for(const Parameter& parameter) const {
  const bool first_replica = mesh_.replicas.rank() == 0;
  const bool first_tensor_rank = parameter.split() || mesh_.tensor.rank() == 0;
  if (sharing_.zero == 0) return first_replica && first_tensor_rank;
  // What the tensor ranks have shares of is also shared out over them.
  return first_tensor_rank || divided(parameter);
}

void Parameters::clear_gradients() const {
  for (const auto& parameter : trained_) parameter->variable.clear_gradient();
}

const Parameter& Parameters::named(const std::string& name) const {
  const auto found = by_name_.find(name);
  require(found != by_name_.end(), "there is no parameter \"{}\"", name);
  return *found->second;
}

Weight Parameters::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::int64_t Parameters::global_elements() const { return elements_of_all(parameters_); }

std::int64_t Parameters::trained_elements() const { return elements_of_all(trained_); }

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

Weight Scope::hidden_matrix(const std::string& name,
                            const Shape& global_shape,
                            const Initial& initial,
                            int split_axis) const {
  return parameters_->add(
      child(name).path(), global_shape, split_axis, initial, true, {.hidden = true});
}

Weight Scope::adapter(const std::string& name,
                      const Shape& global_shape,
                      const Initial& initial,
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

Weight Scope::inside_weight(const std::string& name,
                            const Shape& global_shape,
                            const Initial& initial) const {
  const bool decays = global_shape.dimensions() > 1;
  return parameters_->add(child(name).path(), global_shape, -1, initial, decays, {}, true);
}

Weight Scope::inside_weight_of_model(const std::string& name,
                                     const Shape& global_shape,
                                     const Initial& initial) const {
  if (Weight known = parameters_->find(name)) {
    require(known->global_shape == global_shape,
            "parameter \"{}\" of shape {} was asked for with shape {}",
            name,
            known->global_shape,
            global_shape);
    return known;
  }
  const bool decays = global_shape.dimensions() > 1;
  return parameters_->add(name, global_shape, -1, initial, decays, {}, true);
}

Weight Scope::bias(std::int64_t elements, int split_axis) const {
  return parameters_->add(
      child("bias").path(), {elements}, split_axis, Initial::constant(0), false, {.bias = true});
}

Weight Scope::classes(std::int64_t count, std::int64_t width, const Initial& initial) const {
  return parameters_->add(
      child("weight").path(), {count, width}, 0, initial, true, {.classes = true});
}

Weight Scope::class_bias(std::int64_t count) const {
  return parameters_->add(child("bias").path(),
                          {count},
                          0,
                          Initial::constant(0),
                          false,
                          {.bias = true, .classes = true});
}

Weight Scope::undecayed(const std::string& name,
                        const Shape& global_shape,
                        const Initial& initial,
                        int split_axis) const {
  return parameters_->add(child(name).path(), global_shape, split_axis, initial, false);
}

Weight Scope::bounded(const std::string& name,
                      const Shape& global_shape,
                      const Initial& initial,
                      const ValueRange& range,
                      int split_axis) const {
  return parameters_->add(
      child(name).path(), global_shape, split_axis, initial, false, {}, false, range);
}

Part Scope::part(std::int64_t total) const {
  const Communicator& tensor = parameters_->mesh().tensor;
  return part_of(total, tensor.rank(), tensor.size());
}

}  // namespace longspan
