#include "framework/report/tailed_metrics.h"

#include "framework/core/error.h"

namespace longspan {

TailedMetrics::TailedMetrics(std::filesystem::path path, std::size_t most_buckets)
    : file_(std::move(path)), most_buckets_(most_buckets), reading_(most_buckets, {}) {}

void TailedMetrics::begin_anew(std::vector<StepRewind> known) {
  known_ = std::move(known);
  reading_ = MetricsParser(most_buckets_, known_);
  file_.begin_anew();
}

bool TailedMetrics::poll() {
  const std::uintmax_t before = file_.taken();
  const TailedFile::Change change = file_.poll();
  if (change == TailedFile::Change::none) return false;
  const bool is_other = change == TailedFile::Change::another;
  if (is_other) begin_anew();
  try {
    take();
    // Superseded lines were already counted. Usually there are none, and one pass suffices. A run
    // that restarts meanwhile may rewind again; the approximate result is then acceptable.
    for (int attempt = 0; reading_.found() != known_ && attempt < 3; ++attempt) {
      begin_anew(reading_.found());
      take();
    }
  } catch (...) {
    begin_anew();
    file_.forget();
    throw;
  }
  return is_other ? before > 0 || file_.taken() > 0 : file_.taken() != before;
}

void TailedMetrics::take() {
  file_.read([&](std::string_view line, std::uintmax_t offset) {
    if (!reading_.take(line, offset))
      throw DataError("{}:{}: expected a line of metrics", file_.path().string(), file_.lines());
  });
}

}  // namespace longspan
