#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "framework/core/error.h"
#include "framework/tracking/sinks.h"

namespace longspan::prometheus_endpoint_test {
namespace {

// A TCP socket of the test.
class Socket {
 public:
  Socket() : file_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { ::close(file_); }

  // Listens at a free port. Returns the port.
  std::int64_t listen() const {
    sockaddr_in address = loopback(0);
    EXPECT_EQ(::bind(file_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(file_, 1), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(file_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  bool connect(std::int64_t port) const {
    const sockaddr_in address = loopback(port);
    return ::connect(file_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  void send(const std::string& text) const {
    EXPECT_EQ(::send(file_, text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
  }
  std::string receive_all() const {
    std::string text;
    char block[4096];
    for (ssize_t count; (count = ::recv(file_, block, sizeof block, 0)) > 0;)
      text.append(block, static_cast<std::size_t>(count));
    return text;
  }

 private:
  static sockaddr_in loopback(std::int64_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
  }
  int file_;
};

std::int64_t free_port() { return Socket().listen(); }

std::string fetch(std::int64_t port) {
  const Socket socket;
  if (!socket.connect(port)) return "";
  socket.send("GET /metrics HTTP/1.0\r\n\r\n");
  return socket.receive_all();
}

TEST(PrometheusEndpoint, GaugeNamesAreValidInPrometheus) {
  EXPECT_EQ(gauge_name("loss").name, "longspan_loss");
  EXPECT_EQ(gauge_name("loss").of, "");
  EXPECT_EQ(gauge_name("validation_loss:texts/a.txt").name, "longspan_validation_loss");
  EXPECT_EQ(gauge_name("validation_loss:texts/a.txt").of, "texts/a.txt");
  EXPECT_EQ(gauge_name("validation_f1/PERSON").name, "longspan_validation_f1");
  EXPECT_EQ(gauge_name("a-b c").name, "longspan_a_b_c");
}

TEST(PrometheusEndpoint, ServesNewestValues) {
  const std::int64_t port = free_port();
  PrometheusEndpoint endpoint("127.0.0.1", port);
  EXPECT_EQ(fetch(port).find("longspan_"), std::string::npos);
  endpoint.begin({"0123abcd", 40, "", {}, 4000});
  const std::string first = fetch(port);
  EXPECT_NE(first.find("longspan_step{run=\"0123abcd\"} 40"), std::string::npos) << first;
  EXPECT_NE(first.find("longspan_tokens_total{run=\"0123abcd\"} 4000"), std::string::npos) << first;
  for (const std::int64_t step : {50, 60})
    endpoint.write({.step = step,
                    .time = 1,
                    .fields = {{MetricGroup::training, "tokens", 100 * step},
                               {MetricGroup::training, "loss", static_cast<double>(step) / 3000},
                               {MetricGroup::validation, "loss:a.txt", 2.5}}});
  const std::string found = fetch(port);
  for (const char* const line : {"longspan_step{run=\"0123abcd\"} 60",
                                 "longspan_tokens_total{run=\"0123abcd\"} 6000",
                                 "longspan_loss{run=\"0123abcd\"} 0.02",
                                 "# TYPE longspan_tokens_total counter"})
    EXPECT_NE(found.find(line), std::string::npos) << line << "\n" << found;
  EXPECT_NE(found.find("name=\"a.txt\""), std::string::npos) << found;
}

TEST(PrometheusEndpoint, ReportsPortInUse) {
  const Socket other;
  const std::int64_t port = other.listen();
  try {
    PrometheusEndpoint("127.0.0.1", port);
    FAIL();
  } catch (const ConfigurationError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(std::to_string(port)), std::string::npos) << text;
    EXPECT_NE(text.find("Address already in use"), std::string::npos) << text;
  }
}

TEST(PrometheusEndpoint, RejectsAddressesThatAreNotLocal) {
  EXPECT_THROW(PrometheusEndpoint("192.0.2.1", free_port()), ConfigurationError);
  EXPECT_THROW(PrometheusEndpoint("no address", free_port()), ConfigurationError);
}

void expect_quick_end(std::unique_ptr<PrometheusEndpoint> endpoint) {
  const auto begin = std::chrono::steady_clock::now();
  endpoint.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
}

TEST(PrometheusEndpoint, StopsImmediately) {
  for (const char* const address : {"127.0.0.1", "0.0.0.0"})
    expect_quick_end(std::make_unique<PrometheusEndpoint>(address, free_port()));
}

// A client that connects without a request does not delay the end of a run.
TEST(PrometheusEndpoint, StopsWhileClientsAreConnected) {
  const std::int64_t port = free_port();
  auto endpoint = std::make_unique<PrometheusEndpoint>("127.0.0.1", port);
  EXPECT_NE(fetch(port), "");
  const Socket silent;
  ASSERT_TRUE(silent.connect(port));
  const Socket slow;
  ASSERT_TRUE(slow.connect(port));
  slow.send("GET /met");
  expect_quick_end(std::move(endpoint));
  EXPECT_EQ(fetch(port), "");
}

// Checks all threads except the main thread.
TEST(PrometheusEndpoint, ThreadsBlockSignals) {
  const PrometheusEndpoint endpoint("127.0.0.1", free_port());
  int threads = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    if (entry.path().filename().string() == std::to_string(::getpid())) continue;
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("SigBlk:")) {
        ++threads;
        const std::uint64_t blocked = std::stoull(line.substr(7), nullptr, 16);
        for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP})
          EXPECT_NE(blocked >> (signal - 1) & 1, 0u) << signal;
      }
  }
  EXPECT_GT(threads, 0);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGTERM), 0);
}

}  // namespace
}  // namespace longspan::prometheus_endpoint_test
