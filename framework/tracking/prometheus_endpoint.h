// A Prometheus endpoint with a run's latest metrics.
#pragma once

#include <memory>
#include <string>

#include "framework/tracking/metrics_record.h"
#include "framework/tracking/tensorboard.h"

namespace longspan {

// Serves http://ADDRESS:PORT/metrics from its own threads, which block all signals. Each number of
// a record is a gauge: "longspan_" and its column of metrics.jsonl up to a colon or slash. The rest
// is the label "name", and the run's id the label "run". Tokens are the counter
// longspan_tokens_total.
class PrometheusEndpoint : public MetricsSink {
 public:
  // Throws ConfigurationError where the address is not local or the port is in use.
  PrometheusEndpoint(const std::string& address, std::int64_t port);
  // Does not wait for open connections.
  ~PrometheusEndpoint() override;

  // Until this call no metrics are served.
  void begin(const TrackedRun& run);
  void write(const MetricsRecord& record) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The name of a gauge and the value of its label "name"; empty: no label.
struct GaugeName {
  std::string name;
  std::string of;
};
GaugeName gauge_name(const std::string& column);

}  // namespace longspan
