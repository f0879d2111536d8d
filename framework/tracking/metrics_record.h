// The metrics of one step, as every sink receives them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/core/utf8.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Counts in fixed buckets, eight per doubling, so that histograms of shards add up to the full
// tensor's. Elements of magnitude below 2^-40 share one bucket; those from 2^24 on are in the
// outermost ones. Non-finite elements are excluded.
struct Histogram {
  double smallest = 0;
  double largest = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<std::int64_t> counts = {};  // by bucket; empty: no elements

  std::int64_t count() const;
  friend bool operator==(const Histogram&, const Histogram&) = default;
};

// Return the number of buckets, and a bucket's upper end; its lower end is the previous one's upper
// end.
std::size_t histogram_buckets();
double upper_end_of_bucket(std::size_t bucket);
// Returns the bucket of a finite number.
std::size_t bucket_of(double value);

// Returns the histogram of a host tensor of f32 or f64, with each element multiplied by `factor`.
Histogram histogram_of(const Tensor& tensor, double factor = 1);

// Returns the sum of two histograms. Either may be empty.
Histogram added(const Histogram& one, const Histogram& other);

// The non-empty range of buckets with runs of empty ones merged, as TensorBoard expects it.
struct Bars {
  std::vector<double> upper_ends;
  std::vector<double> counts;
};
Bars bars_of(const Histogram& histogram);

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

// Histograms of a model's weights and gradients, each of the full tensor however it is sharded.

// This rank's histograms of the trained parameters, before all_reduce_histograms.
// Returns those of the master weights, as "weights/NAME".
std::vector<NamedHistogram> own_weight_histograms(const Parameters& parameters);
// Returns those of the reduced gradients divided by `scale`, as "gradients/NAME". Call it before
// the update, which consumes the gradients.
std::vector<NamedHistogram> own_gradient_histograms(const Parameters& parameters, double scale);

// Collective. Sums over all ranks, counting each element once; identical on every rank. The counts,
// the smallest and the largest element are independent of the layout; sums are up to rounding.
std::vector<NamedHistogram> all_reduce_histograms(std::vector<NamedHistogram> own,
                                                  const Communicator& world);

}  // namespace longspan
