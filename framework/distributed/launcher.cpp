#include "framework/distributed/launcher.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace longspan {

void report_job_end(int exit_code) {
  if (std::getenv(end_variable) != nullptr)
    std::fprintf(stderr, "%s%d\n", std::string(end_words).c_str(), exit_code);
}

void notify_launcher(std::string_view doing) {
  const char* const variable = std::getenv(launcher_variable);
  if (variable == nullptr) return;
  const std::string_view name = variable;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // The leading 0 byte makes the address abstract instead of a path.
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::copy_n(name.data(), length, address.sun_path + 1);
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  [[maybe_unused]] const auto sent = ::sendto(socket,
                                              doing.data(),
                                              doing.size(),
                                              MSG_NOSIGNAL,
                                              reinterpret_cast<const sockaddr*>(&address),
                                              bytes);
  ::close(socket);
}

}  // namespace longspan
