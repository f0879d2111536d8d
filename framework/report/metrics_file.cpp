#include "framework/report/metrics_file.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/report/tailed_metrics.h"

namespace longspan {

void Cell::add(double value) {
  Cell one;
  if (std::isfinite(value)) {
    one.least = one.most = one.sum = value;
    one.count = 1;
  } else {
    one.gaps = 1;
  }
  add(one);
}

void Cell::add(const Cell& other) {
  gaps += other.gaps;
  if (other.count == 0) return;
  least = count == 0 ? other.least : std::min(least, other.least);
  most = count == 0 ? other.most : std::max(most, other.most);
  sum += other.sum;
  count += other.count;
}

DownsampledSeries::DownsampledSeries(std::size_t max_buckets) : most_(max_buckets) {
  require(max_buckets >= 2, "expected at least 2 buckets, found {}", max_buckets);
}

std::optional<std::size_t> DownsampledSeries::find(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names_.begin());
}

std::size_t DownsampledSeries::column(std::string_view name) {
  const auto [found, is_new] = numbers_.try_emplace(std::string(name), names_.size());
  if (is_new) {
    names_.emplace_back(name);
    cells_.emplace_back();
  }
  return found->second;
}

void DownsampledSeries::begin(const Bucket& at) {
  if (!buckets_.empty()) {
    Bucket& last = buckets_.back();
    require(
        at.step > last.step, "expected increasing steps, found {} after {}", at.step, last.step);
    if (at.step / width_ == last.step / width_) {
      last = at;
      return;
    }
  }
  buckets_.push_back(at);
  while (buckets_.size() > most_) widen();
}

void DownsampledSeries::add(std::size_t column, double value) {
  std::vector<Cell>& cells = cells_[column];
  cells.resize(buckets_.size());
  cells.back().add(value);
}

void DownsampledSeries::thin_to(std::size_t max_buckets) {
  require(max_buckets >= 2, "expected at least 2 buckets, found {}", max_buckets);
  most_ = std::min(most_, max_buckets);
  while (buckets_.size() > most_) widen();
}

void DownsampledSeries::widen() {
  width_ *= 2;
  std::vector<std::size_t> place(buckets_.size());  // index of each bucket among the wider ones
  std::vector<Bucket> wider;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (wider.empty() || wider.back().step / width_ != buckets_[i].step / width_)
      wider.push_back(buckets_[i]);
    else
      wider.back() = buckets_[i];
    place[i] = wider.size() - 1;
  }
  for (std::vector<Cell>& cells : cells_) {
    std::vector<Cell> merged(wider.size());
    for (std::size_t i = 0; i < cells.size(); ++i) merged[place[i]].add(cells[i]);
    cells = std::move(merged);
  }
  buckets_ = std::move(wider);
}

RunMetrics read_run_metrics(const std::filesystem::path& path, std::size_t max_buckets) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw DataError("{}: no such file: the run has logged no step yet", path.string());
  static_cast<void>(std::filesystem::file_size(path, error));
  if (error) throw DataError("{}: cannot be read: {}", path.string(), error.message());
  TailedMetrics file(path, max_buckets);
  file.poll();
  if (file.metrics().lines == 0)
    throw DataError("{}: has no complete line: the run has logged no step yet", path.string());
  return file.metrics();
}

}  // namespace longspan
