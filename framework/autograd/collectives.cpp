#include "framework/autograd/collectives.h"

#include <algorithm>
#include <numeric>

#include "framework/autograd/saved_tensor.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/cross_entropy.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// Row statistics of each rank's shard, reduced over the ranks.
struct RowLosses {
  Tensor losses;
  Tensor log_sum_exp;
};

double off_target_of(const CrossEntropyOptions& options) {
  if (options.smoothing == 0) return 0;
  const auto classes = static_cast<double>(options.vocabulary);
  return options.smoothing /
         (options.kind == LabelSmoothingStyle::wrong_classes ? classes - 1 : classes);
}

double on_target_of(const CrossEntropyOptions& options) {
  // Weight of the target in excess of every class's share.
  return options.kind == LabelSmoothingStyle::wrong_classes
             ? 1 - options.smoothing - off_target_of(options)
             : 1 - options.smoothing;
}

RowLosses reduce_rows(const Tensor& logits,
                      const Tensor& targets,
                      const CrossEntropyOptions& options,
                      const Communicator& communicator) {
  const std::int64_t rows = targets.elements();
  const DType dtype = accumulator_of(logits.dtype());
  const auto vector = [&](std::int64_t parts) {
    return Tensor::empty({parts, rows}, dtype, logits.device());
  };
  const Tensor local_maximum = vector(1);
  const Tensor statistics = vector(options.smoothing != 0 ? 3 : 2);
  on(logits.device(), [&](auto backend) {
    cross_entropy_statistics(
        backend,
        {.logits = logits,
         .targets = targets,
         .vocabulary_begin = options.vocabulary_begin,
         .valid_width = options.classes.value_or(logits.shape()[1]),
         .maximum = local_maximum.reshape({rows}),
         .sum = statistics.slice(0, 1).reshape({rows}),
         .target = statistics.slice(1, 2).reshape({rows}),
         .total = options.smoothing != 0 ? statistics.slice(2, 3).reshape({rows}) : Tensor()});
  });
  Tensor maximum = local_maximum;
  if (communicator.size() > 1) {
    maximum = local_maximum.clone();
    communicator.all_reduce(maximum, Reduction::maximum);
    on(logits.device(), [&](auto backend) {
      rescale_sums(backend, local_maximum, maximum, statistics.slice(0, 1));
    });
    communicator.all_reduce(statistics, Reduction::sum);
  }
  const RowLosses result = {Tensor::empty({rows}, dtype, logits.device()),
                            Tensor::empty({rows}, dtype, logits.device())};
  const double on_target = on_target_of(options), off_target = off_target_of(options);
  on(logits.device(), [&](auto backend) {
    cross_entropy_losses(backend,
                         {.targets = targets,
                          .maximum = maximum,
                          .sum = statistics.slice(0, 1),
                          .target = statistics.slice(1, 2),
                          .total = options.smoothing != 0 ? statistics.slice(2, 3) : Tensor(),
                          .mass = on_target + off_target * static_cast<double>(options.vocabulary),
                          .on_target = on_target,
                          .off_target = off_target,
                          .log_sum_exp = result.log_sum_exp,
                          .losses = result.losses});
  });
  return result;
}

// Activations sharded by time: rows of each rank, and equal-sized blocks for collectives.
class TimeShares {
 public:
  TimeShares(const std::vector<std::int64_t>& rows, const Communicator& communicator)
      : rows_(rows), communicator_(communicator), most_(*std::ranges::max_element(rows)) {
    require(static_cast<int>(rows.size()) == communicator.size(),
            "expected a time range for each rank, found {} for {} ranks",
            rows.size(),
            communicator.size());
  }

  std::int64_t local_rows() const { return rows_[static_cast<std::size_t>(communicator_.rank())]; }
  std::int64_t all_rows() const {
    return std::accumulate(rows_.begin(), rows_.end(), std::int64_t{0});
  }

  Tensor gather(const Tensor& mine) const {
    require_rows(mine, local_rows());
    const Tensor all = of(mine, all_rows());
    if (in_place(mine)) {
      communicator_.all_gather(mine, all);
      return all;
    }
    const Tensor block = of(mine, most_, MemoryTag::workspace);
    copy(mine, 0, block, 0, local_rows());
    const Tensor blocks = blocks_of(mine);
    communicator_.all_gather(block, blocks);
    for_each_share([&](int rank, std::int64_t begin, std::int64_t rows) {
      copy(block_of(blocks, rank, mine), 0, all, begin, rows);
    });
    return all;
  }

  Tensor sum_and_scatter(const Tensor& all) const {
    require_rows(all, all_rows());
    const Tensor mine = of(all, local_rows());
    if (in_place(mine)) {
      communicator_.reduce_scatter(all, mine);
      return mine;
    }
    const Tensor blocks = blocks_of(all);
    if (!even()) blocks.zero();
    for_each_share([&](int rank, std::int64_t begin, std::int64_t rows) {
      copy(all, begin, block_of(blocks, rank, all), 0, rows);
    });
    const Tensor block = of(all, most_, MemoryTag::workspace);
    communicator_.reduce_scatter(blocks, block);
    copy(block, 0, mine, 0, local_rows());
    return mine;
  }

 private:
  bool even() const {
    return std::ranges::all_of(rows_, [&](std::int64_t rows) { return rows == most_; });
  }
  // For a single batch row, blocks are contiguous in memory in time order.
  bool in_place(const Tensor& x) const { return x.shape()[0] == 1 && even(); }

  static Tensor of(const Tensor& x, std::int64_t rows, MemoryTag tag = MemoryTag::activations) {
    return Tensor::empty(x.shape().with(1, rows), x.dtype(), x.device(), tag);
  }
  Tensor blocks_of(const Tensor& x) const {
    const std::int64_t ranks = communicator_.size();
    return Tensor::empty({ranks * x.shape()[0], most_, x.shape().width()},
                         x.dtype(),
                         x.device(),
                         MemoryTag::workspace);
  }
  static Tensor block_of(const Tensor& blocks, int rank, const Tensor& x) {
    const std::int64_t batch = x.shape()[0];
    return blocks.slice(batch * rank, batch * (rank + 1));
  }
  static void require_rows(const Tensor& x, std::int64_t rows) {
    require(x.shape().dimensions() == 3 && x.shape()[1] == rows,
            "expected {} positions, found shape {}",
            rows,
            x.shape());
  }
  template <typename F>
  void for_each_share(const F& f) const {
    std::int64_t begin = 0;
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      const std::int64_t rows = rows_[static_cast<std::size_t>(rank)];
      f(rank, begin, rows);
      begin += rows;
    }
  }
  static void copy(const Tensor& from,
                   std::int64_t from_begin,
                   const Tensor& to,
                   std::int64_t to_begin,
                   std::int64_t rows) {
    on(from.device(),
       [&](auto backend) { copy_rows(backend, from, from_begin, to, to_begin, rows, false); });
  }

  std::vector<std::int64_t> rows_;
  Communicator communicator_;
  std::int64_t most_;
};

// All-to-all between time sharding and head sharding. Every pair of ranks exchanges a part [batch,
// most rows, own heads, dim].
class HeadExchange {
 public:
  HeadExchange(const std::vector<Ranges>& positions, const Communicator& communicator)
      : positions_(positions), communicator_(communicator) {
    require(std::ssize(positions) == communicator.size(),
            "expected a time range for each rank, found {} for {} ranks",
            positions.size(),
            communicator.size());
    for (const Ranges& ranges : positions) {
      most_ = std::max(most_, total_count(ranges));
      total_ += total_count(ranges);
    }
  }

  // [batch, own rows, heads, dim] -> [batch, all rows, own heads, dim].
  Tensor to_heads(const Tensor& x) const {
    const Shape& shape = x.shape();
    require_rows(x, total_count(own()));
    if (shape[2] % ranks() != 0)
      throw ConfigurationError(
          "parallel.context_parallel_size: expected a divisor of the {} heads per tensor rank, "
          "found {}; this attention type shards heads over context ranks",
          shape[2],
          ranks());
    const Parts parts(x, shape[2] / ranks(), *this);
    for (int rank = 0; rank < ranks(); ++rank) copy_heads(x, rank, parts.sent, false);
    communicator_.all_to_all(parts.sent, parts.received);
    const Tensor all =
        Tensor::empty({shape[0], total_, shape[2] / ranks(), shape[3]}, x.dtype(), x.device());
    for (int rank = 0; rank < ranks(); ++rank) copy_positions(all, rank, parts.received, true);
    return all;
  }

  // [batch, all rows, own heads, dim] -> [batch, own rows, heads, dim].
  Tensor to_time(const Tensor& x) const {
    const Shape& shape = x.shape();
    require_rows(x, total_);
    const Parts parts(x, shape[2], *this);
    for (int rank = 0; rank < ranks(); ++rank) copy_positions(x, rank, parts.sent, false);
    communicator_.all_to_all(parts.sent, parts.received);
    const Tensor mine = Tensor::empty(
        {shape[0], total_count(own()), shape[2] * ranks(), shape[3]}, x.dtype(), x.device());
    for (int rank = 0; rank < ranks(); ++rank) copy_heads(mine, rank, parts.received, true);
    return mine;
  }

 private:
  struct Parts {
    Tensor sent;
    Tensor received;

    Parts(const Tensor& x, std::int64_t heads, const HeadExchange& exchange) {
      const Shape shape = {exchange.ranks() * x.shape()[0], exchange.most_, heads * x.shape()[3]};
      sent = Tensor::zeros(shape, x.dtype(), x.device(), MemoryTag::workspace);
      received = Tensor::empty(shape, x.dtype(), x.device(), MemoryTag::workspace);
    }
  };

  int ranks() const { return communicator_.size(); }
  const Ranges& own() const { return positions_[static_cast<std::size_t>(communicator_.rank())]; }

  static void require_rows(const Tensor& x, std::int64_t rows) {
    require(x.shape().dimensions() == 4 && x.shape()[1] == rows,
            "expected {} positions, found shape {}",
            rows,
            x.shape());
  }

  // Copies between the heads of a rank in x [batch, own rows, heads, dim] and part `rank`. Each
  // batch row's rows are viewed as [rows, ranks, own heads * dim].
  void copy_heads(const Tensor& x, int rank, const Tensor& parts, bool to_x) const {
    const std::int64_t batch = x.shape()[0];
    const std::int64_t rows = x.shape()[1];
    const std::int64_t width = parts.shape()[2];
    for (std::int64_t b = 0; b < batch; ++b) {
      const Tensor whole = x.slice(b, b + 1).reshape({rows, ranks(), width});
      const Tensor part = parts.slice(batch * rank + b, batch * rank + b + 1)
                              .reshape({most_, width})
                              .slice(0, rows)
                              .reshape({rows, 1, width});
      on(x.device(), [&](auto backend) {
        if (to_x)
          copy_rows(backend, part, 0, whole, rank, 1, false);
        else
          copy_rows(backend, whole, rank, part, 0, 1, false);
      });
    }
  }

  // Copies between the rows of a rank in x [batch, all rows, own heads, dim] and part `rank`.
  void copy_positions(const Tensor& x, int rank, const Tensor& parts, bool to_x) const {
    const std::int64_t batch = x.shape()[0];
    const Tensor whole = x.reshape({batch, total_, parts.shape()[2]});
    const Tensor part = parts.slice(batch * rank, batch * (rank + 1));
    std::int64_t at = 0;
    for (const Range& range : positions_[static_cast<std::size_t>(rank)]) {
      on(x.device(), [&](auto backend) {
        if (to_x)
          copy_rows(backend, part, at, whole, range.begin, range.count(), false);
        else
          copy_rows(backend, whole, range.begin, part, at, range.count(), false);
      });
      at += range.count();
    }
  }

  std::vector<Ranges> positions_;
  Communicator communicator_;
  std::int64_t most_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace

Variable copy_to_tensor_parallel_region(const Variable& x, const Communicator& communicator) {
  if (communicator.size() == 1) return x;
  return record(x.value(), {x}, [communicator](BackwardContext& gradients) {
    const Tensor dx = gradients.release_output();
    communicator.all_reduce(dx, Reduction::sum);
    gradients.set(0, dx);
  });
}

Variable reduce_from_tensor_parallel_region(Variable&& x, const Communicator& communicator) {
  if (communicator.size() == 1) return std::move(x);
  const Variable input = std::move(x);
  // `input` itself is one owner of its value.
  Tensor y = input.value();
  if (!y.has_use_count(2)) y = y.clone();
  communicator.all_reduce(y, Reduction::sum);
  return record(std::move(y), {input}, [](BackwardContext& gradients) {
    gradients.set(0, gradients.output());
  });
}

Variable cross_entropy(Variable&& logits,
                       const Tensor& targets,
                       const CrossEntropyOptions& options,
                       const Communicator& communicator) {
  const Variable input = std::move(logits);
  // `input` itself is one owner of its value.
  const Tensor own = input.value().has_use_count(1) ? input.value() : input.value().clone();
  const Tensor values = own.reshape({input.shape().rows(), input.shape().width()});
  const Tensor ids = targets.reshape({targets.elements()});
  const RowLosses rows = reduce_rows(values, ids, options, communicator);
  return record(rows.losses,
                {input},
                [values, ids, options, log_sum_exp = rows.log_sum_exp](BackwardContext& gradients) {
                  on(values.device(), [&](auto backend) {
                    cross_entropy_backward(
                        backend,
                        {.logits = values,
                         .targets = ids,
                         .vocabulary_begin = options.vocabulary_begin,
                         .valid_width = options.classes.value_or(values.shape()[1]),
                         .log_sum_exp = log_sum_exp,
                         .scale = gradients.output(),
                         .on_target = on_target_of(options),
                         .off_target = off_target_of(options)});
                  });
                  gradients.set(0, values);
                });
}

Variable gather_from_sequence_parallel_region(const Variable& x,
                                              const std::vector<std::int64_t>& rows,
                                              const Communicator& communicator) {
  const TimeShares shares(rows, communicator);
  Variable all = record(shares.gather(x.value()), {x}, [shares](BackwardContext& gradients) {
    gradients.set(0, shares.sum_and_scatter(gradients.output()));
  });
  set_recompute(all, [shares, mine = x.value()] { return shares.gather(mine); });
  return all;
}

Variable reduce_scatter_to_sequence_parallel_region(const Variable& x,
                                                    const std::vector<std::int64_t>& rows,
                                                    const Communicator& communicator) {
  const TimeShares shares(rows, communicator);
  return record(shares.sum_and_scatter(x.value()), {x}, [shares](BackwardContext& gradients) {
    gradients.set(0, shares.gather(gradients.output()));
  });
}

Variable sequence_to_heads(const Variable& x,
                           const std::vector<Ranges>& positions,
                           const Communicator& communicator) {
  const HeadExchange exchange(positions, communicator);
  return record(exchange.to_heads(x.value()), {x}, [exchange](BackwardContext& gradients) {
    gradients.set(0, exchange.to_time(gradients.output()));
  });
}

Variable heads_to_sequence(const Variable& x,
                           const std::vector<Ranges>& positions,
                           const Communicator& communicator) {
  const HeadExchange exchange(positions, communicator);
  return record(exchange.to_time(x.value()), {x}, [exchange](BackwardContext& gradients) {
    gradients.set(0, exchange.to_heads(gradients.output()));
  });
}

}  // namespace longspan
