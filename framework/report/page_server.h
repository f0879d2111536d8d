// A local HTTP server of one page for one user's browser.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace longspan {

// The served content, generated on request by the server's thread.
struct ServedPage {
  std::function<std::string()> version;  // of the current data; unchanged if nothing is new
  std::function<std::string()> page;     // of that version; HTML
  std::function<std::string()> update;   // of that version; JSON
};

// Returns whether a request's Host header matches the address: 127.0.0.1 or localhost with the
// port, which browsers omit for 80.
bool is_local_host(std::string_view host, std::int64_t port);

// Listens on 127.0.0.1 only and answers 403 without the random part of its address. Serves GET and
// HEAD at the address and its sibling "update". The ETag is the version; a current client gets 304.
// Requests for a host other than 127.0.0.1 or localhost are refused, to prevent DNS rebinding.
class PageServer {
 public:
  // `port`: 0 selects a free one. From construction on SIGINT and SIGTERM end `run`. Throws
  // ConfigurationError where the port is in use or not permitted, and Failure where none is free.
  PageServer(std::int64_t port, ServedPage page);
  ~PageServer();

  // "http://127.0.0.1:8080/0123...ef/"
  std::string address() const;
  // Returns after SIGINT or SIGTERM.
  void run();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace longspan
