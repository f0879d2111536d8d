#include "framework/report/growing_metrics.h"

#include "framework/core/error.h"

namespace longspan {

GrowingMetrics::GrowingMetrics(std::filesystem::path path, std::size_t most_buckets)
    : file_(std::move(path)), most_buckets_(most_buckets), reading_(most_buckets, {}) {}

void GrowingMetrics::begin_anew(std::vector<StepReturn> known) {
  known_ = std::move(known);
  reading_ = MetricsReading(most_buckets_, known_);
  file_.begin_anew();
}

bool GrowingMetrics::look() {
  const std::uintmax_t before = file_.taken();
  const GrowingFile::Change change = file_.look();
  if (change == GrowingFile::Change::none) return false;
  const bool is_other = change == GrowingFile::Change::another;
  if (is_other) begin_anew();
  try {
    take();
    // What comes again was taken for good. Mostly nothing does, and one reading is enough. A run
    // that begins anew meanwhile may write others; then this picture of it will do.
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

void GrowingMetrics::take() {
  file_.read([&](std::string_view line, std::uintmax_t offset) {
    if (!reading_.take(line, offset))
      throw DataError("{}:{}: found something else than a line of metrics",
                      file_.path().string(),
                      file_.lines());
  });
}

}  // namespace longspan
