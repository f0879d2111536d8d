// Sinks of a run's metrics: TensorBoard and a Prometheus endpoint.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "framework/tracking/event_file.h"
#include "framework/tracking/metrics_record.h"

namespace longspan {

// A run at its start or resumption.
struct TrackedRun {
  std::string id;
  std::int64_t first_step = 0;                   // completed steps
  std::string configuration;                     // resolved, as text
  std::map<std::string, std::string> keys = {};  // the configuration by key, as written
  std::int64_t first_tokens = 0;                 // tokens of the completed steps
};

// Writes one event file in a directory for each start of a run. Events of earlier starts after
// `first_step` are truncated, and running TensorBoards are notified, so that each step occurs once.
// The configuration and hyperparameters are written with the next step.
class TensorBoardFiles : public MetricsSink {
 public:
  // Creates the directory. Throws Failure.
  TensorBoardFiles(const std::filesystem::path& folder, const TrackedRun& run);

  void write(const MetricsRecord& record) override;
  void sync() override { file_.sync(); }

 private:
  TensorBoardEventFile file_;
};

// A Prometheus endpoint with a run's latest metrics.

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
