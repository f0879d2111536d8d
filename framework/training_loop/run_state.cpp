#include "framework/training_loop/run_state.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints/files.h"
#include "framework/core/system.h"
#include "framework/training_loop/step_metrics.h"

namespace longspan {

namespace {

enum class LockState { free, held, unknown };

LockState lock_state(const std::filesystem::path& run) noexcept try {
  const Descriptor lock(::open((run / lock_name).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!lock.defined()) return LockState::unknown;
  if (::flock(lock.get(), LOCK_SH | LOCK_NB) == 0) return LockState::free;
  return errno == EWOULDBLOCK ? LockState::held : LockState::unknown;
} catch (const std::exception&) {
  return LockState::unknown;
}

}  // namespace

std::string to_text(const RunMark& mark) {
  const nlohmann::ordered_json json = {{"data", mark.layout.data},
                                       {"context", mark.layout.context},
                                       {"tensor", mark.layout.tensor},
                                       {"has_ended", mark.has_ended},
                                       {"host", mark.host}};
  constexpr std::size_t size = 255;  // more than any host name and layout need
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize(std::max(size, text.size()), ' ');
  return text + "\n";
}

std::optional<RunMark> run_mark(const std::filesystem::path& run) noexcept try {
  std::error_code error;
  const std::filesystem::path path = run / lock_name;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  constexpr std::size_t most = 1 << 10;
  std::string text(most, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), most);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty()) return std::nullopt;
  const auto json = nlohmann::json::parse(text);
  RunMark mark;
  mark.layout.data = json.at("data").get<int>();
  mark.layout.context = json.at("context").get<int>();
  mark.layout.tensor = json.at("tensor").get<int>();
  mark.has_ended = json.at("has_ended").get<bool>();
  mark.host = json.value("host", "");
  return mark;
} catch (const std::exception&) {
  return std::nullopt;
}

bool is_running(const std::filesystem::path& run) noexcept {
  return lock_state(run) == LockState::held;
}

bool shows_locks(const std::filesystem::path& run, const RunMark& mark) noexcept try {
  const bool is_here = mark.host.empty() || mark.host == host_name();
  return is_here && lock_state(run) != LockState::unknown;
} catch (const std::exception&) {
  return false;
}

std::int64_t last_logged_step(const std::filesystem::path& run) noexcept try {
  return end_of_metrics(run / "metrics.jsonl").step;
} catch (const std::exception&) {
  return 0;
}

}  // namespace longspan
