#include "framework/runs/run_state.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints/files.h"
#include "framework/runs/metrics.h"

namespace longspan {

std::string to_text(const RunMark& mark) {
  const nlohmann::ordered_json json = {{"data", mark.layout.data},
                                       {"context", mark.layout.context},
                                       {"tensor", mark.layout.tensor},
                                       {"has_ended", mark.has_ended}};
  return json.dump() + "\n";
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
  return mark;
} catch (const std::exception&) {
  return std::nullopt;
}

bool is_running(const std::filesystem::path& run) noexcept try {
  const Descriptor lock(::open((run / lock_name).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return lock.defined() && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
} catch (const std::exception&) {
  return false;
}

std::int64_t last_logged_step(const std::filesystem::path& run) noexcept try {
  return end_of_metrics(run / "metrics.jsonl").step;
} catch (const std::exception&) {
  return 0;
}

}  // namespace longspan
