// The metrics of one step, as every sink receives them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/core/utf8.h"
#include "framework/tracking/histogram.h"

namespace longspan {

// The subject of a metric, by which dashboards group it.
enum class MetricGroup : std::uint8_t { training, validation, time, memory };

struct MetricField {
  MetricGroup group = MetricGroup::training;
  std::string name;  // within the group: "loss"
  std::variant<std::int64_t, double> value;
};

struct NamedHistogram {
  std::string name;  // "weights/layers/0/attention/query/weight"
  Histogram histogram;
};

struct NamedImage {
  std::string name;  // "samples/0"
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t channels = 0;  // 1, 3 or 4
  std::string png;            // contents of a PNG file
};

struct MetricsRecord {
  std::int64_t step = 0;
  double time = 0;  // seconds since 1970
  std::vector<MetricField> fields;
  std::vector<NamedHistogram> histograms = {};
  std::vector<NamedImage> images = {};
  std::vector<TextSample> texts = {};
};

// Returns the current time in seconds since 1970.
double seconds_of_the_clock();

// Returns the column of metrics.jsonl: "loss", "validation_loss".
std::string column_of(const MetricField& field);
// Returns the tag by which dashboards group metrics: "training/loss", "validation/loss",
// "time/step_seconds".
std::string tag_of(const MetricField& field);

// Returns the value as a double.
double number_of(const MetricField& field);

// Receives the records of a run as they are produced.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  // Throws Failure when the record cannot be written completely.
  virtual void write(const MetricsRecord& record) = 0;
  // Blocks until all records are on disk. Called before a checkpoint, so that none of its steps is
  // lost. Throws Failure.
  virtual void sync() {}
};

}  // namespace longspan
