#include "framework/report/tailed_metrics.h"

#include "framework/core/error.h"

namespace longspan {

TailedMetrics::TailedMetrics(std::filesystem::path path, std::size_t max_buckets)
    : file_(std::move(path)), max_buckets_(max_buckets), reading_(max_buckets, {}) {}

void TailedMetrics::restart(std::vector<StepRewind> known) {
  known_ = std::move(known);
  reading_ = MetricsParser(max_buckets_, known_);
  file_.restart();
}

bool TailedMetrics::poll() {
  const std::uintmax_t before = file_.taken();
  const TailedFile::Change change = file_.poll();
  if (change == TailedFile::Change::none) return false;
  const bool is_other = change == TailedFile::Change::another;
  if (is_other) restart();
  try {
    take();
    // Superseded lines were already counted. Usually there are none, and one pass suffices. A run
    // that restarts meanwhile may rewind again; the approximate result is then acceptable.
    for (int attempt = 0; reading_.found() != known_ && attempt < 3; ++attempt) {
      restart(reading_.found());
      take();
    }
  } catch (...) {
    restart();
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
