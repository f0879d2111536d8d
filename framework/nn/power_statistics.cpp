#include "framework/nn/power_statistics.h"

#include "framework/core/dispatch.h"
#include "framework/kernels/attention/clusters.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/l2_normalize.h"
#include "framework/kernels/power_norm.h"
#include "framework/nn/parameters.h"

namespace longspan {
namespace {

Tensor inverse_of(const PowerStatistics& statistics, const Tensor& squares) {
  const Tensor inverse = statistics.square.empty_like();
  on(inverse.device(),
     [&](auto backend) { power_inverse(backend, squares, statistics.epsilon, inverse); });
  return inverse;
}

// Returns [batch, time]: 1 for each row that is not padding.
Tensor counted_rows(const Tensor& x, const Tensor& length, const ForwardContext& pass) {
  const Shape& shape = x.shape();
  const Tensor counted = Tensor::empty({shape[0], shape[1]}, accumulator_of(x.dtype()), x.device());
  const Ranges positions = pass.time.total > 0 ? pass.time.outside() : Ranges{{0, shape[1]}};
  std::int64_t row = 0;
  for (const Range& range : positions) {
    on(x.device(), [&](auto backend) {
      count_rows(backend,
                 {.counted = counted,
                  .length = length,
                  .begin = row,
                  .end = row + range.count(),
                  .position = range.begin});
    });
    row += range.count();
  }
  return counted;
}

// Returns this rank's sums of squares and number of rows, [width + 1].
Tensor sums_of(const Tensor& x, const Tensor& counted, std::int64_t width) {
  const Tensor sums = Tensor::zeros({width + 1}, counted.dtype(), x.device());
  const Tensor rows = x.reshape({counted.elements(), width});
  const Tensor each = counted.reshape({counted.elements(), 1});
  on(x.device(), [&](auto backend) {
    add_product_sums(backend,
                     {.a = rows, .b = rows, .counted = counted, .sums = sums.slice(0, width)});
    add_product_sums(backend, {.a = each, .b = each, .sums = sums.slice(width, width + 1)});
  });
  return sums;
}

Tensor mean_of(const Tensor& sums, const Tensor& count) {
  const Tensor means = sums.empty_like();
  on(sums.device(), [&](auto backend) { power_mean(backend, sums, count, means); });
  return means;
}

}  // namespace

PowerRows divided_by_average(const PowerStatistics& statistics) {
  return {.inverse = inverse_of(statistics, statistics.square)};
}

PowerRows followed(const std::shared_ptr<PowerStatistics>& statistics,
                   const Tensor& x,
                   const Tensor& length,
                   const ForwardContext& pass,
                   bool second_read) {
  const bool moves = statistics->sums.defined();
  if (!pass.training || !pass.updates_statistics || !moves) return divided_by_average(*statistics);
  const std::int64_t width = statistics->width();
  const bool own = pass.step < statistics->options.warmup;
  const Tensor counted = counted_rows(x, length, pass);
  // Reduced over all ranks during warmup. Later the result is not read.
  const Tensor sums = pass.child("power").decide([&] {
    const Tensor here = sums_of(x, counted, width);
    statistics->divided_by_batch = own;
    on(x.device(), [&](auto backend) {
      accumulate(backend, 1, here.slice(0, width), statistics->squares);
      accumulate(backend, 1, here.slice(width, width + 1), statistics->count);
    });
    if (own) statistics->ranks.all_reduce(here, Reduction::sum);
    return here;
  });
  const Tensor count = sums.slice(width, width + 1);
  const Tensor squares = own ? mean_of(sums.slice(0, width), count) : statistics->square;
  const PowerSlope slope = [statistics, own, count, second_read, scale = pass.gradient_scale](
                               const Tensor& products) -> Tensor {
    const Tensor result = products.clone(MemoryTag::workspace);
    on(products.device(), [&](auto backend) {
      accumulate(backend, 1 / scale, products, statistics->products);
      if (!own) longspan::scale(backend, second_read ? 0 : scale, statistics->slope, result);
    });
    if (!own) return result;
    statistics->ranks.all_reduce(result, Reduction::sum);
    return mean_of(result, count);
  };
  return {.inverse = inverse_of(*statistics, squares), .counted = counted, .slope = slope};
}

void PowerStatistics::begin() const {
  slope.zero();
  if (sums.defined()) sums.zero();
  // Sets all elements to 1: counts a single row of `width` positions.
  on(square.device(), [&](auto backend) {
    count_rows(backend, {.counted = square.reshape({1, width()}), .begin = 0, .end = width()});
  });
}

void PowerStatistics::end_step(bool moves) const {
  if (!sums.defined()) return;
  if (moves) {
    ranks.all_reduce(sums, Reduction::sum);
    on(square.device(), [&](auto backend) {
      update_power_statistics(backend,
                              {.square = square,
                               .slope = slope,
                               .squares = squares,
                               .products = products,
                               .count = count,
                               .decay = options.decay,
                               .epsilon = epsilon,
                               .divided_by_batch = divided_by_batch});
    });
  }
  sums.zero();
}

std::shared_ptr<PowerStatistics> Parameters::add_power_statistics(const std::string& name,
                                                                  std::int64_t width,
                                                                  const PowerOptions& options,
                                                                  double epsilon) {
  const auto zeros = [&](std::int64_t elements) {
    return Tensor::zeros({elements}, accumulator_of(compute_), device_, MemoryTag::weights);
  };
  auto result = std::make_shared<PowerStatistics>();
  result->name = name;
  result->options = options;
  result->epsilon = epsilon;
  result->ranks = mesh_.shape.sequence ? mesh_.world : mesh_.replicas;
  result->square = zeros(width);
  result->slope = zeros(width);
  if (!tuning_.freezes(name)) {
    result->sums = zeros(2 * width + 1);
    result->squares = result->sums.slice(0, width);
    result->products = result->sums.slice(width, 2 * width);
    result->count = result->sums.slice(2 * width, 2 * width + 1);
  }
  power_.push_back(result);
  return result;
}

std::shared_ptr<PowerStatistics> Scope::power_statistics(std::int64_t width,
                                                         const PowerOptions& options,
                                                         double epsilon) const {
  return parameters_->add_power_statistics(path(), width, options, epsilon);
}

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
