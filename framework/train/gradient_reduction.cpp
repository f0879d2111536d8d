#include "framework/train/gradient_reduction.h"

#include <algorithm>

namespace longspan {

GradientReduction::GradientReduction(Parameters& parameters, double bucket_megabytes)
    : replicas_(parameters.mesh().replicas) {
  if (replicas_.size() == 1) return;
  const Tensor& flat = parameters.flat_gradient();
  const double bytes = bucket_megabytes * 1e6;
  const auto limit = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(bytes / static_cast<double>(size_of(flat.dtype()))));
  const auto& all = parameters.all();
  for (std::size_t first = 0; first < all.size();) {
    std::size_t end = first + 1;
    const std::int64_t begin = all[first]->begin;
    const auto end_of = [&](std::size_t i) {
      return i < all.size() ? all[i]->begin : flat.elements();
    };
    while (end < all.size() && end_of(end + 1) - begin <= limit) ++end;
    Bucket& bucket = buckets_.emplace_back();
    bucket.gradients = flat.slice(begin, end_of(end));
    for (; first < end; ++first) bucket.parameters.push_back(all[first].get());
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
  bucket.request = replicas_.start_all_reduce(bucket.gradients, Reduction::sum);
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
