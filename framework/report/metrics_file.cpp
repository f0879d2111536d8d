#include "framework/report/metrics_file.h"

#include "framework/core/error.h"
#include "framework/report/tailed_metrics.h"

namespace longspan {

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
