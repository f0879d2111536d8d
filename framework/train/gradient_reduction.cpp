#include "framework/train/gradient_reduction.h"

#include <algorithm>

namespace longspan {

GradientReduction::GradientReduction(Parameters& parameters, double bucket_megabytes) {
  const Tensor& flat = parameters.flat_gradient();
  const double bytes = bucket_megabytes * 1e6;
  const auto limit = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(bytes / static_cast<double>(size_of(flat.dtype()))));
  const auto& all = parameters.all();
  const auto end_of = [&](std::size_t i) {
    return i < all.size() ? all[i]->begin : flat.elements();
  };
  for (std::size_t first = 0; first < all.size();) {
    const bool divided = parameters.divided(*all[first]);
    const std::int64_t begin = all[first]->begin;
    std::size_t end = first + 1;
    while (end < all.size() && parameters.divided(*all[end]) == divided &&
           end_of(end + 1) - begin <= limit)
      ++end;
    const Communicator& ranks = divided ? parameters.mesh().world : parameters.mesh().replicas;
    if (ranks.size() > 1) {
      Bucket& bucket = buckets_.emplace_back();
      bucket.gradients = flat.slice(begin, end_of(end));
      bucket.ranks = ranks;
      for (std::size_t i = first; i < end; ++i) bucket.parameters.push_back(all[i].get());
    }
    first = end;
  }
  // Only now do the buckets stay where they are.
  for (Bucket& bucket : buckets_)
    for (const Parameter* parameter : bucket.parameters)
      parameter->variable.when_gradient_ready([this, &bucket] { ready(bucket); });
}

GradientReduction::~GradientReduction() {
  for (const Bucket& bucket : buckets_)
    for (const Parameter* parameter : bucket.parameters)
      parameter->variable.when_gradient_ready({});
}

void GradientReduction::begin() {
  active_ = true;
  for (Bucket& bucket : buckets_) {
    bucket.missing = bucket.parameters.size();
    bucket.started = false;
  }
}

void GradientReduction::ready(Bucket& bucket) {
  if (active_ && --bucket.missing == 0) start(bucket);
}

void GradientReduction::start(Bucket& bucket) {
  for (const Parameter* parameter : bucket.parameters)
    if (!parameter->variable.gradient().defined()) parameter->variable.zero_gradient();
  bucket.started = true;
  bucket.request = bucket.ranks.start_all_reduce(bucket.gradients, Reduction::sum);
}

void GradientReduction::progress() {
  for (Bucket& bucket : buckets_)
    if (bucket.started) bucket.request.test();
}

void GradientReduction::finish() {
  active_ = false;
  // Last bucket first, as the backward pass would have started them.
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket)
    if (!bucket->started) start(*bucket);
  for (Bucket& bucket : buckets_) {
    bucket.request.wait();
    bucket.request = {};
  }
}

}  // namespace longspan
