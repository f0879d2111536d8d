// A page for the browser of one user, on the machine that the browser is on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace longspan {

// What is served, made as it is asked for, by the thread that serves.
struct ServedPage {
  std::function<std::string()> version;  // of now: the same where nothing is new
  std::function<std::string()> page;     // of that version; HTML
  std::function<std::string()> update;   // of that version; JSON
};

// Whether a request that names this host is for the address: 127.0.0.1 or localhost with the port,
// which browsers leave out where it is 80.
bool is_own_host(std::string_view host, std::int64_t port);

// Listens on 127.0.0.1 alone and gives nothing to one who does not know its address, a part of
// which is random: 403. It answers GET and HEAD, at the address and at "update" beside it, whose
// ETag is the version: one who has it is told 304. Requests under another name than 127.0.0.1 or
// localhost are refused, so that no page of a stranger can have its name lead here.
class PageServer {
 public:
  // port: 0 for one that is free. SIGINT and SIGTERM end `run` from now on. Throws
  // ConfigurationError where the port is taken or not for this user, Failure where there is none.
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
