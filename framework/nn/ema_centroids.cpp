#include "framework/nn/ema_centroids.h"

#include "framework/kernels/attention/clusters.h"
#include "framework/kernels/l2_normalize.h"
#include "framework/nn/parameters.h"
#include "framework/nn/power_statistics.h"

namespace longspan {

void EmaCentroids::begin(const Random& random) const {
  const Shape& shape = centroids.shape();
  const std::int64_t of_head = shape[1] * shape[2];
  const Device& device = centroids.device();
  const Tensor drawn = Tensor::empty(shape, centroids.dtype(), device.host(), MemoryTag::workspace);
  dispatch_on_host(drawn.device(), [&] {
    with_floating_type(drawn.dtype(), [&]<typename T>(TypeTag<T>) {
      for (std::int64_t h = 0; h < shape[0]; ++h) {
        const Random head = random.child(name).child(static_cast<std::uint64_t>(head_begin + h));
        for (std::int64_t i = 0; i < of_head; ++i)
          drawn.data<T>()[h * of_head + i] =
              T(static_cast<Accumulator<T>>(head.normal_at(static_cast<std::uint64_t>(i))));
      }
    });
  });
  centroids.copy_from(drawn.to(device));
  const Tensor inverse =
      Tensor::empty({shape[0] * shape[1]}, centroids.dtype(), device, MemoryTag::workspace);
  on(device, [&](auto backend) {
    l2_normalize(backend, {.x = centroids, .y = centroids, .inverse_norm = inverse});
  });
  sums.zero();
  counts.zero();
}

void EmaCentroids::end_step(const Communicator& ranks, bool moves) const {
  if (moves) {
    ranks.all_reduce(sums, Reduction::sum);
    ranks.all_reduce(counts, Reduction::sum);
    on(centroids.device(), [&](auto backend) {
      update_centroids(
          backend,
          {.centroids = centroids, .sums = sums, .counts = counts, .decay = decay, .unit = true});
    });
  }
  sums.zero();
  counts.zero();
}

std::shared_ptr<const EmaCentroids> Parameters::add_centroids(const std::string& name,
                                                              const Shape& global_shape,
                                                              double decay) {
  const ShardRange part = shard_range(global_shape[0], mesh_.tensor.rank(), mesh_.tensor.size());
  const Shape shape = global_shape.with(0, part.count);
  const DType wide = accumulator_of(compute_);
  const auto zeros = [&](const Shape& of) {
    return Tensor::zeros(of, wide, device_, MemoryTag::weights);
  };
  auto result = std::make_shared<EmaCentroids>();
  result->name = name;
  result->head_begin = part.begin;
  result->heads_total = part.total;
  result->decay = decay;
  result->centroids = zeros(shape);
  result->sums = zeros(shape);
  result->counts = zeros({shape[0], shape[1]});
  centroids_.push_back(result);
  return result;
}

void Parameters::end_step(bool counts) const {
  for (const auto& each : centroids_)
    each->end_step(mesh_.replicas, counts && !tuning_.freezes(each->name));
  for (const auto& each : power_) each->end_step(counts);
}

std::shared_ptr<const EmaCentroids> Scope::centroids(const std::string& name,
                                                     const Shape& global_shape,
                                                     double decay) const {
  return parameters_->add_centroids(child(name).path(), global_shape, decay);
}

}  // namespace longspan
