#include <fmt/format.h>
#include <netdb.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/system.h"
#include "framework/tracking/sinks.h"

namespace longspan {
namespace {

constexpr const char* tokens_column = "tokens";

// Threads created during its lifetime block all signals, which the training thread must receive.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

// A listening address and its socket.
class Place {
 public:
  Place(const std::string& address, std::int64_t port) {
    addrinfo wanted{};
    wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found);
    if (error != 0) {
      error_ = ::gai_strerror(error);
      return;
    }
    place_.reset(found);
    socket_ = ::socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, found->ai_protocol);
    note(socket_ >= 0);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (socket_ >= 0) ::close(socket_);
  }

  // Returns why listening fails, or "". The library does not report the reason.
  const std::string& listen() {
    if (socket_ < 0) return error_;
    // Allows a port that a previous run has just released.
    const int yes = 1;
    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    note(::bind(socket_, place_->ai_addr, place_->ai_addrlen) == 0 && ::listen(socket_, 1) == 0);
    return error_;
  }
  void connect() const {
    if (socket_ >= 0) ::connect(socket_, place_->ai_addr, place_->ai_addrlen);
  }

 private:
  void note(bool is_well) {
    if (!is_well) error_ = errno_message();
  }

  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> place_{nullptr, ::freeaddrinfo};
  int socket_ = -1;
  std::string error_;
};

std::vector<std::string> server_options(const std::string& address, std::int64_t port) {
  const bool is_version_6 = address.find(':') != std::string::npos;
  const std::string place =
      is_version_6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
  // A client that connects and sends nothing times out soon.
  return {"listening_ports", place, "num_threads", "2", "request_timeout_ms", "1000"};
}

}  // namespace

struct PrometheusEndpoint::State {
  std::string address;
  std::int64_t port = 0;
  // Requests before the first record are answered with an empty registry.
  std::shared_ptr<prometheus::Registry> nothing = std::make_shared<prometheus::Registry>();
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  prometheus::Labels labels = {};
  prometheus::Counter* tokens = nullptr;
  std::unique_ptr<prometheus::Exposer> server = {};

  void set(const std::string& column, double value) const {
    const auto [name, of] = gauge_name(column);
    prometheus::Labels own = labels;
    if (!of.empty()) own["name"] = of;
    prometheus::BuildGauge()
        .Name(name)
        .Help("as in metrics.jsonl")
        .Register(*registry)
        .Add(own)
        .Set(value);
  }
};

GaugeName gauge_name(const std::string& column) {
  const std::size_t end = column.find_first_of(":/");
  GaugeName result = {"longspan_" + column.substr(0, end),
                      end == std::string::npos ? "" : column.substr(end + 1)};
  for (char& letter : result.name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return result;
}

PrometheusEndpoint::PrometheusEndpoint(const std::string& address, std::int64_t port)
    : state_(std::make_unique<State>(State{.address = address, .port = port})) {
  std::string reason = Place(address, port).listen();
  if (reason.empty()) try {
      const NoSignals unheard;
      state_->server = std::make_unique<prometheus::Exposer>(server_options(address, port));
      state_->server->RegisterCollectable(state_->nothing);
    } catch (const std::exception& error) {
      reason = error.what();
    }
  if (!reason.empty())
    throw ConfigurationError(
        "metrics.prometheus_port: cannot listen on port {} of {}: {}; set another port or "
        "metrics.prometheus_address, or 0 for no endpoint",
        port,
        address,
        reason);
}

PrometheusEndpoint::~PrometheusEndpoint() {
  const NoSignals unheard;
  std::atomic<bool> has_ended = false;
  std::thread end([&] {
    state_->server.reset();
    has_ended = true;
  });
  // The server checks for shutdown on each connection, and otherwise every two seconds.
  while (!has_ended) {
    Place(state_->address, state_->port).connect();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  end.join();
}

void PrometheusEndpoint::begin(const TrackedRun& run) {
  state_->labels = {{"run", run.id}};
  state_->tokens = &prometheus::BuildCounter()
                        .Name("longspan_tokens_total")
                        .Help("tokens that the run has trained on, since step 0")
                        .Register(*state_->registry)
                        .Add(state_->labels);
  state_->tokens->Increment(static_cast<double>(run.first_tokens));
  state_->set("step", static_cast<double>(run.first_step));
  // Registered last: a counter first scraped at 0 would appear to have been reset.
  state_->server->RegisterCollectable(state_->registry);
}

void PrometheusEndpoint::write(const MetricsRecord& record) {
  state_->set("step", static_cast<double>(record.step));
  for (const MetricField& field : record.fields)
    if (column_of(field) == tokens_column)
      state_->tokens->Increment(number_of(field) - state_->tokens->Value());
    else
      state_->set(column_of(field), number_of(field));
}

}  // namespace longspan
