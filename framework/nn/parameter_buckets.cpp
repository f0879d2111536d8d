// Parameter buckets, trained and frozen: filling, sharding and gathering.
#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/parameters.h"

namespace longspan {
namespace {

constexpr std::int64_t alignment = 16;  // in elements: full cache lines of f32

std::int64_t padded(std::int64_t elements, std::int64_t multiple) {
  return (elements + multiple - 1) / multiple * multiple;
}

// Number of ranks that shard a bucket, and index of this rank. Without ZeRO it is alone.
struct Sharers {
  int count = 1;
  int rank = 0;

  Sharers(const ParameterBucket& bucket, const ZeroOptions& sharing) {
    if (sharing.zero == 0) return;
    count = bucket.ranks.size();
    rank = bucket.ranks.rank();
  }
  Tensor local_part(const Tensor& block) const {
    const std::int64_t share = block.elements() / count;
    return block.slice(share * rank, share * (rank + 1));
  }
};

// Returns the mean number of elements of a rank's shards over the tensor ranks, whose shards may
// differ in size. It must be equal on all ranks, because buckets filled jointly must end at the
// same parameters.
std::int64_t elements_a_rank(const std::vector<std::shared_ptr<Parameter>>& parameters,
                             const ProcessMesh& mesh) {
  std::int64_t total = 0;
  for (const auto& parameter : parameters)
    total += parameter->global_shape.elements() / (parameter->split() ? mesh.tensor.size() : 1);
  return total;
}

}  // namespace

// Starts a new bucket if the next parameter has another kind or would make it too large. Within a
// kind, parameters with equal settings are adjacent.
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
  // With sharded gradients a few buckets exist at a time, which must be small relative to the
  // total.
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
  bucket.shard_master = shares_masters ? master : sharers.local_part(master);
  if (copied) bucket.shard_compute = sharers.local_part(bucket.compute);
  if (!frozen) {
    bucket.shard_gradient =
        zeros(shares_gradients ? share : bucket.elements, wide, MemoryTag::gradients);
    if (!shares_gradients) {
      bucket.gradient = bucket.shard_gradient;
      bucket.shard_gradient = sharers.local_part(bucket.gradient);
    }
  }
  const std::int64_t local_begin = share * sharers.rank;
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
    // Overlap of the parameter and this rank's part, relative to the start of the part.
    const std::int64_t begin = std::clamp<std::int64_t>(place - local_begin, 0, share);
    const std::int64_t end = std::clamp<std::int64_t>(place + size - local_begin, 0, share);
    parameter.shard_begin = begin == end ? 0 : local_begin + begin - place;
    parameter.shard_end = parameter.shard_begin + end - begin;
    parameter.shard_offset = shard_elements_ + begin;
    parameter.shard_master = bucket.shard_master.slice(begin, end);
    if (!frozen) parameter.shard_gradient = bucket.shard_gradient.slice(begin, end);
    if (copied) parameter.shard_compute = bucket.shard_compute.slice(begin, end);
  }
  if (frozen) return;
  add_runs(bucket,
           {.shard_offset = shard_elements_,
            .shard_master = bucket.shard_master,
            .shard_gradient = bucket.shard_gradient,
            .shard_compute = bucket.shard_compute});
  shard_elements_ += share;
}

// Splits this rank's part of a bucket where parameter settings change.
void Parameters::add_runs(const ParameterBucket& bucket, const FlatParameterRun& whole) {
  const Parameter* first = nullptr;
  std::int64_t begin = 0, end = 0;
  const auto add_run = [&] {
    if (first == nullptr) return;
    const auto part = [&](const Tensor& tensor) {
      return tensor.defined() ? tensor.slice(begin, end) : tensor;
    };
    all_runs_.push_back({.shard_offset = whole.shard_offset + begin,
                         .shard_master = part(whole.shard_master),
                         .shard_gradient = part(whole.shard_gradient),
                         .shard_compute = part(whole.shard_compute),
                         .decays = first->decays,
                         .answered_for = is_primary_owner(*first),
                         .active_steps = first->active_steps});
  };
  for (const auto& parameter : bucket.parameters) {
    if (parameter->shard_begin == parameter->shard_end) continue;
    if (first == nullptr || parameter->decays != first->decays ||
        is_primary_owner(*parameter) != is_primary_owner(*first) ||
        parameter->active_steps != first->active_steps) {
      add_run();
      first = parameter.get();
      begin = parameter->shard_offset - whole.shard_offset;
    }
    end = parameter->shard_offset - whole.shard_offset + parameter->shard_end -
          parameter->shard_begin;
  }
  add_run();
}

void Parameters::set_steps(std::int64_t steps) {
  steps_ = steps;
  runs_.clear();
  std::ranges::copy_if(all_runs_, std::back_inserter(runs_), [this](const FlatParameterRun& run) {
    return reads(run.active_steps);
  });
}

void Parameters::refresh_compute() const {
  for (const ParameterBucket& bucket : buckets_)
    if (bucket.shard_compute.defined())
      on(device_,
         [&](auto backend) { scale(backend, 1.0, bucket.shard_master, bucket.shard_compute); });
  gather(true);
}

void Parameters::gather(bool frozen_too) const {
  std::vector<Request> requests;
  for (const ParameterBucket& bucket : buckets_)
    if (const Sharers sharers(bucket, sharing_);
        sharers.count > 1 && (frozen_too || !bucket.frozen()))
      requests.push_back(
          bucket.ranks.start_all_gather(sharers.local_part(bucket.compute), bucket.compute));
  for (Request& request : requests) request.wait();
}

}  // namespace longspan
