// What a run tells of one step: a value that every sink takes as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/core/text_sample.h"
#include "framework/tracking/histogram.h"

namespace longspan {

// What a number is about: where a board shows it.
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
  std::string png;            // the bytes of a file
};

struct MetricsRecord {
  std::int64_t step = 0;
  double time = 0;  // seconds since 1970
  std::vector<MetricField> fields;
  std::vector<NamedHistogram> histograms = {};
  std::vector<NamedImage> images = {};
  std::vector<TextSample> texts = {};
};

// Seconds since 1970, now.
double seconds_of_the_clock();

// As a column of metrics.jsonl: "loss", "validation_loss".
std::string column_of(const MetricField& field);
// As boards group their numbers: "training/loss", "validation/loss", "time/step_seconds".
std::string tag_of(const MetricField& field);

// The value as a number of any kind.
double number_of(const MetricField& field);

// Takes the records of a run, each as soon as it is there.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  // Throws Failure when the record cannot be taken whole.
  virtual void write(const MetricsRecord& record) = 0;
  // Returns when all records are on the disk: before a checkpoint, so that none of its steps is
  // lost. Throws Failure.
  virtual void sync() {}
};

}  // namespace longspan
