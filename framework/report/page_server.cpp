#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/system.h"
#include "framework/report/report_page.h"

namespace longspan {
namespace {

constexpr const char* loopback = "127.0.0.1";
constexpr int max_header_bytes = 8192;
constexpr int max_body_bytes = 4096;      // of refused requests
constexpr int idle_timeout_seconds = 20;  // of a connection

template <auto release>
struct Releaser {
  template <typename T>
  void operator()(T* owned) const {
    release(owned);
  }
};
template <typename T, auto release>
using Owned = std::unique_ptr<T, Releaser<release>>;

std::string random_word() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Failure("getrandom failed");
  std::string word;
  for (const unsigned char byte : bytes) word += fmt::format("{:02x}", byte);
  return word;
}

// Compares in constant time, to prevent timing attacks.
bool is_same(std::string_view given, std::string_view secret) {
  if (given.size() != secret.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < secret.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(secret[i]);
  return difference == 0;
}

struct Answer {
  int code = HTTP_OK;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string version = {};
};

Answer refusal(int code, std::string_view sentence) {
  return {.code = code, .body = std::string(sentence) + "\n"};
}

}  // namespace

bool is_local_host(std::string_view host, std::int64_t port) {
  for (const std::string_view name : {loopback, "localhost"})
    if (host == fmt::format("{}:{}", name, port) || (port == 80 && host == name)) return true;
  return false;
}

struct PageServer::Parts {
  Owned<event_base, event_base_free> base{event_base_new()};
  Owned<evhttp, evhttp_free> server{evhttp_new(base.get())};
  std::array<Owned<event, event_free>, 2> signals;
  ServedPage page;
  std::string token = random_word();
  std::int64_t port = 0;

  // Returns the response to a request.
  Answer answer(evhttp_request* request) const {
    const char* const named = evhttp_find_header(evhttp_request_get_input_headers(request), "Host");
    if (named == nullptr || !is_local_host(named, port)) return refusal(403, "unknown host name");
    const std::string_view path = evhttp_request_get_uri(request);
    const std::string_view given = path.substr(path.starts_with('/') ? 1 : path.size());
    if (!is_same(given.substr(0, token.size()), token) || given.substr(token.size(), 1) != "/")
      return refusal(403, "wrong address; use the one that the program printed");
    const auto method = evhttp_request_get_command(request);
    if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD)
      return refusal(HTTP_BADMETHOD, "only GET and HEAD are supported");
    const std::string_view wanted = given.substr(token.size() + 1);
    if (!wanted.empty() && wanted != "update") return refusal(HTTP_NOTFOUND, "no such page");
    const std::string version = fmt::format("\"{}\"", page.version());
    const char* const known =
        evhttp_find_header(evhttp_request_get_input_headers(request), "If-None-Match");
    if (known != nullptr && known == version) return {.code = HTTP_NOTMODIFIED, .version = version};
    if (wanted.empty())
      return {.type = "text/html; charset=utf-8", .body = page.page(), .version = version};
    return {.type = "application/json", .body = page.update(), .version = version};
  }
};

namespace {

void send(evhttp_request* request, const Answer& answer) {
  evkeyvalq* const headers = evhttp_request_get_output_headers(request);
  const auto add = [&](const char* name, const std::string& value) {
    evhttp_add_header(headers, name, value.c_str());
  };
  add("Content-Type", answer.type);
  add("Cache-Control", "no-store");
  add("X-Content-Type-Options", "nosniff");
  add("X-Frame-Options", "DENY");
  add("Referrer-Policy", "no-referrer");
  add("Cross-Origin-Resource-Policy", "same-origin");
  add("Content-Security-Policy", "frame-ancestors 'none'");
  if (!answer.version.empty()) add("ETag", answer.version);
  if (answer.code == HTTP_BADMETHOD) add("Allow", "GET, HEAD");
  const Owned<evbuffer, evbuffer_free> body(evbuffer_new());
  evbuffer_add(body.get(), answer.body.data(), answer.body.size());
  evhttp_send_reply(request, answer.code, nullptr, body.get());
}

}  // namespace

PageServer::PageServer(std::int64_t port, ServedPage page) : parts_(std::make_unique<Parts>()) {
  Parts& parts = *parts_;
  parts.page = std::move(page);
  std::signal(SIGPIPE, SIG_IGN);  // a client may disconnect during the response
  require(parts.base != nullptr && parts.server != nullptr, "libevent failed to start");
  evhttp* const server = parts.server.get();
  evhttp_set_timeout(server, idle_timeout_seconds);
  evhttp_set_max_headers_size(server, max_header_bytes);
  evhttp_set_max_body_size(server, max_body_bytes);
  // Accepts all methods, since `answer` refuses unsupported ones after the address check.
  evhttp_set_allowed_methods(server,
                             EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT |
                                 EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE |
                                 EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH);
  evhttp_set_gencb(
      server,
      [](evhttp_request* request, void* own) {
        try {
          send(request, static_cast<const Parts*>(own)->answer(request));
        } catch (const std::exception& error) {
          send(request, refusal(HTTP_INTERNAL, error.what()));
        }
      },
      &parts);
  evhttp_bound_socket* const bound =
      evhttp_bind_socket_with_handle(server, loopback, static_cast<std::uint16_t>(port));
  if (bound == nullptr) {
    const int error = errno;
    const std::string why = errno_message(error);
    if (port != 0 && (error == EADDRINUSE || error == EACCES))
      throw ConfigurationError(
          "--port: cannot listen on port {}: {}; choose a free port, or omit --port", port, why);
    throw Failure("cannot listen on a port of {}: {}", loopback, why);
  }
  sockaddr_in address{};
  socklen_t size = sizeof address;
  require(::getsockname(
              evhttp_bound_socket_get_fd(bound), reinterpret_cast<sockaddr*>(&address), &size) == 0,
          "getsockname failed");
  parts.port = ntohs(address.sin_port);
  const std::array numbers = {SIGINT, SIGTERM};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    parts.signals[i].reset(evsignal_new(
        parts.base.get(),
        numbers[i],
        [](evutil_socket_t, short, void* base) {
          event_base_loopbreak(static_cast<event_base*>(base));
        },
        parts.base.get()));
    require(parts.signals[i] != nullptr && event_add(parts.signals[i].get(), nullptr) == 0,
            "cannot install signal handlers");
  }
}

PageServer::~PageServer() = default;

std::string PageServer::address() const {
  return fmt::format("http://{}:{}/{}/", loopback, parts_->port, parts_->token);
}

void PageServer::run() { event_base_dispatch(parts_->base.get()); }

}  // namespace longspan
