// Requests to the server of a run's page, as bytes of a connection. 0x1E separates writes.
// "{address}" is replaced by the secret path and "{port}" by the port, which mutation would not
// find.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "framework/report/report_page.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

constexpr std::string_view address_word = "{address}";
constexpr std::string_view port_word = "{port}";

// Serves until the process ends.
class Served {
 public:
  Served()
      : server_(0,
                {.version = [] { return std::string("1"); },
                 .page = [] { return std::string("a page"); },
                 .update = [] { return std::string("{}"); }}) {
    const std::string address = server_.address();  // http://127.0.0.1:PORT/SECRET/
    const std::size_t colon = address.rfind(':');
    const std::size_t slash = address.find('/', colon);
    port_ = address.substr(colon + 1, slash - colon - 1);
    path_ = address.substr(slash);
    std::thread([this] { server_.run(); }).detach();
  }
  // Replaces {address} and {port}.
  std::string completed(std::string_view bytes) const {
    std::string request(bytes);
    for (const auto& [word, value] : {std::pair(address_word, path_), std::pair(port_word, port_)})
      for (std::size_t at = 0; (at = request.find(word, at)) != std::string::npos;
           at += value.size())
        request.replace(at, word.size(), value);
    return request;
  }
  int connected() const {
    const int connection = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port_)));
    const bool is_served =
        connection >= 0 &&
        ::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    require(is_served, "the page is not served");
    // Otherwise the side that closes first keeps the port for a minute.
    const linger at_once = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    return connection;
  }

 private:
  PageServer server_;
  std::string port_;
  std::string path_;
};

std::string answer_to(const Served& served, std::string_view bytes) {
  const int connection = served.connected();
  while (!bytes.empty()) {
    const std::string part = served.completed(take_part(bytes));
    for (std::size_t done = 0; done < part.size();) {
      const ssize_t count =
          ::send(connection, part.data() + done, part.size() - done, MSG_NOSIGNAL);
      if (count <= 0) break;  // the server closed the connection
      done += static_cast<std::size_t>(count);
    }
  }
  ::shutdown(connection, SHUT_WR);
  std::string answer;
  std::array<char, 4096> block;
  for (ssize_t count = 0; (count = ::recv(connection, block.data(), block.size(), 0)) > 0;)
    answer.append(block.data(), static_cast<std::size_t>(count));
  ::close(connection);
  return answer;
}

void ask(std::string_view bytes) {
  static const Served& served = *new Served();  // its thread runs until the process ends
  const std::string answer = answer_to(served, bytes);
  // The HTTP version of the reply is that of the request.
  expect(answer.empty() || answer.starts_with("HTTP/"), "a request is answered with no HTTP");
  expect(answer.substr(0, answer.find('\n')).find(" 500 ") == std::string::npos,
         "a request breaks the server");
  const bool is_page = answer.find("a page") != std::string::npos;
  expect(!is_page || bytes.find(address_word) != std::string_view::npos,
         "the page is given to who does not know its address");
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::ask);
}
