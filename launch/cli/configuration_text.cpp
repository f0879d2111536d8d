#include "launch/cli/configuration_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "checkpoints/files.h"
#include "framework/core/config_path.h"
#include "framework/core/error.h"
#include "framework/core/system.h"

namespace longspan {
namespace {

// Reads a regular file, or a pipe, as a shell creates for <(command).
std::string read_file(const std::string& file) {
  // O_NONBLOCK: a named pipe without a writer is empty.
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.defined())
    throw ConfigurationError(
        "{}: cannot be opened: {}{}", file, errno_message(), ConfigPath(file).not_found_hint());
  struct stat status {};
  ::fstat(descriptor.get(), &status);
  if (S_ISDIR(status.st_mode))
    throw ConfigurationError("{}: expected a YAML file, found a directory", file);
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
    throw ConfigurationError("{}: expected a YAML file, found a device or socket", file);
  ::fcntl(descriptor.get(), F_SETFL, 0);
  std::string text;
  char block[4096];
  while (const ssize_t count =
             retry_interrupted([&] { return ::read(descriptor.get(), block, sizeof block); })) {
    if (count < 0) throw ConfigurationError("{}: cannot be read: {}", file, errno_message());
    text.append(block, static_cast<std::size_t>(count));
    if (text.size() > max_configuration_bytes)
      throw ConfigurationError(
          "{}: expected a YAML file of at most {} bytes", file, max_configuration_bytes);
  }
  return text;
}

// Returns an empty path if HOME is not set. On all ranks "~" is rank 0's home.
std::string shared_home(const Communicator& world) {
  const char* const home = world.rank() == 0 ? std::getenv("HOME") : nullptr;
  return world.broadcast(std::string(home == nullptr ? "" : home), 0);
}

}  // namespace

ConfigurationText read_configuration(const std::string& file,
                                     std::vector<std::string> settings,
                                     const Communicator& world) {
  // The first byte indicates whether the text or an error follows.
  std::string message;
  if (world.rank() == 0) {
    try {
      message = '+' + read_file(file);
    } catch (const ConfigurationError& error) {
      message = std::string("-") + error.what();
    }
  }
  message = world.broadcast(std::move(message), 0);
  const std::string text = message.substr(1);
  if (message[0] == '-') throw ConfigurationError("{}", text);
  ConfigurationText source = {.file = file, .text = text, .settings = std::move(settings)};
  if (const std::string home = shared_home(world); !home.empty()) source.home = home;
  return source;
}

}  // namespace longspan
