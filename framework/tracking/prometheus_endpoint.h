// The newest numbers of a run, for Prometheus to fetch.
#pragma once

#include <memory>
#include <string>

#include "framework/tracking/metrics_record.h"
#include "framework/tracking/tensorboard.h"

namespace longspan {

// Serves http://ADDRESS:PORT/metrics from threads of its own, which hear no signals. Each number of
// a record is a gauge: its column of metrics.jsonl after "longspan_", up to a colon or slash, the
// rest as the label "of", and the run's id as the label "run". Tokens are the counter
// longspan_tokens_total.
class PrometheusEndpoint : public MetricsSink {
 public:
  // Throws ConfigurationError where the address is none of this machine or the port is in use.
  PrometheusEndpoint(const std::string& address, std::int64_t port);
  // Does not wait for who has connected.
  ~PrometheusEndpoint() override;

  // Until then nothing is told.
  void begin(const TrackedRun& run);
  void write(const MetricsRecord& record) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The name of a gauge and its label "of", or no label.
struct GaugeName {
  std::string name;
  std::string of;
};
GaugeName gauge_name(const std::string& column);

}  // namespace longspan
