#include <algorithm>
#include <numeric>

#include "framework/autograd/collectives.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// Activations divided by time: what each rank holds, and blocks of one size that collectives move.
class TimeShares {
 public:
  TimeShares(const std::vector<std::int64_t>& rows, const Communicator& communicator)
      : rows_(rows), communicator_(communicator), most_(*std::ranges::max_element(rows)) {
    require(static_cast<int>(rows.size()) == communicator.size(),
            "time is divided into {} shares for {} ranks",
            rows.size(),
            communicator.size());
  }

  std::int64_t own_rows() const { return rows_[static_cast<std::size_t>(communicator_.rank())]; }
  std::int64_t all_rows() const {
    return std::accumulate(rows_.begin(), rows_.end(), std::int64_t{0});
  }

  Tensor gather(const Tensor& mine) const {
    require_rows(mine, own_rows());
    const Tensor all = of(mine, all_rows());
    if (in_place(mine)) {
      communicator_.all_gather(mine, all);
      return all;
    }
    const Tensor block = of(mine, most_, MemoryTag::workspace);
    copy(mine, 0, block, 0, own_rows());
    const Tensor blocks = blocks_of(mine);
    communicator_.all_gather(block, blocks);
    for_each_share([&](int rank, std::int64_t begin, std::int64_t rows) {
      copy(block_of(blocks, rank, mine), 0, all, begin, rows);
    });
    return all;
  }

  Tensor sum_and_scatter(const Tensor& all) const {
    require_rows(all, all_rows());
    const Tensor mine = of(all, own_rows());
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
    copy(block, 0, mine, 0, own_rows());
    return mine;
  }

 private:
  bool even() const {
    return std::ranges::all_of(rows_, [&](std::int64_t rows) { return rows == most_; });
  }
  // Blocks of one batch row follow one another in time as they do in memory.
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
            "a share of {} positions has shape {}",
            rows,
            x.shape().to_string());
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

}  // namespace

Variable enter_split_by_time(const Variable& x,
                             const std::vector<std::int64_t>& rows,
                             const Communicator& communicator) {
  const TimeShares shares(rows, communicator);
  return record(shares.gather(x.value()), {x}, [shares](Gradients& gradients) {
    gradients.give(0, shares.sum_and_scatter(gradients.output()));
  });
}

Variable leave_split_by_time(const Variable& x,
                             const std::vector<std::int64_t>& rows,
                             const Communicator& communicator) {
  const TimeShares shares(rows, communicator);
  return record(shares.sum_and_scatter(x.value()), {x}, [shares](Gradients& gradients) {
    gradients.give(0, shares.gather(gradients.output()));
  });
}

}  // namespace longspan
