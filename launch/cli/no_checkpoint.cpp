#include "launch/cli/no_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "framework/core/quote.h"
#include "framework/training_loop/run_state.h"
#include "launch/cli/saved_config.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

// Returns the value as an integer, or -1.
std::int64_t count_of(const std::map<std::string, std::string>& words, const char* key) {
  const auto found = words.find(key);
  if (found == words.end()) return -1;
  const std::string& word = found->second;
  std::int64_t count = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
  return error == std::errc() && end == word.data() + word.size() ? count : -1;
}

// Returns when it saves next, as a clause; empty if its configuration lacks the interval.
std::string next_save(std::int64_t logged, std::int64_t every, std::int64_t steps) {
  if (every < 0 || steps < 0) return "";
  if (every > 0 && (logged / every + 1) * every < steps)
    return fmt::format("; first save after step {}", (logged / every + 1) * every);
  return fmt::format("; saves at the end, after step {}", steps);
}

}  // namespace

std::string no_checkpoint_message(const fs::path& run) {
  const fs::path configuration = run / "config.yaml";
  std::error_code error;
  const bool is_known = fs::exists(configuration, error);
  const auto words = saved_configuration(configuration).values;
  const std::int64_t logged = last_logged_step(run);
  const std::int64_t steps = count_of(words, "training.max_steps");
  const auto family = words.find("model.family");
  std::string text = fmt::format("{}: no checkpoint yet", run.string());
  if (is_known)
    text += fmt::format(" ({}{})",
                        configuration.string(),
                        family == words.end() ? "" : ": " + truncated(family->second));
  const std::string of_steps = steps > 0 ? fmt::format(" of {}", steps) : "";
  const std::string so_far = logged > 0 ? fmt::format("last logged step {}{}", logged, of_steps)
                                        : fmt::format("no step{} logged", of_steps);
  if (is_running(run))
    return fmt::format("{}; training now: {}{}",
                       text,
                       so_far,
                       next_save(logged, count_of(words, "checkpoint.save_interval"), steps));
  return fmt::format("{}; not running: {}; {}",
                     text,
                     so_far,
                     is_known ? "run longspan train " + configuration.string() : "train it first");
}

}  // namespace longspan
