#include "framework/training_loop/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>

#include <mutex>
#include <vector>

#include "framework/core/error.h"

namespace longspan {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Writes through the console, which preserves the status line.
class ConsoleSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ConsoleSink(Console console) : console_(std::move(console)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view sentence(message.payload.data(), message.payload.size());
    if (message.level == spdlog::level::info) return console_.line(sentence);
    const auto level = spdlog::level::to_string_view(message.level);
    const std::string word = fmt::format("{}:", std::string_view(level.data(), level.size()));
    console_.line(fmt::format("{} {}", painted(word, message.level), sentence));
  }
  void flush_() override {}

 private:
  std::string painted(const std::string& word, spdlog::level::level_enum level) const {
    if (level < spdlog::level::warn) return word;
    return console_.colored(word, level == spdlog::level::warn ? Color::yellow : Color::red);
  }

  Console console_;
};

// Opens the file for appending. Throws spdlog_ex.
spdlog::sink_ptr file_sink(const std::filesystem::path& file) {
  auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
  sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  return sink;
}

}  // namespace

struct Log::State {
  spdlog::logger logger;
  spdlog::sink_ptr file;  // one of the logger's sinks; none: console only
};

Log::Log(const Console& console, const std::filesystem::path& file, LogLevel least) {
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<ConsoleSink>(console)};
  spdlog::sink_ptr in_file;
  if (!file.empty()) {
    try {
      in_file = file_sink(file);
      sinks.push_back(in_file);
    } catch (const spdlog::spdlog_ex& error) {
      throw Failure("cannot write the log: {}", error.what());
    }
  }
  state_ = std::make_shared<State>(
      State{spdlog::logger("longspan", sinks.begin(), sinks.end()), std::move(in_file)});
  state_->logger.set_level(level_of(least));
  state_->logger.flush_on(spdlog::level::trace);
}

bool Log::shows(LogLevel level) const {
  return state_ && state_->logger.should_log(level_of(level));
}

void Log::put(LogLevel level, const std::string& sentence) const {
  state_->logger.log(level_of(level), spdlog::string_view_t(sentence.data(), sentence.size()));
}

void Log::put_in_file(const std::string& sentence) const {
  if (!state_->file) return;
  spdlog::logger logger("longspan", state_->file);
  logger.flush_on(spdlog::level::trace);
  logger.info(spdlog::string_view_t(sentence.data(), sentence.size()));
}

void append_to_log(const std::filesystem::path& file, LogLevel level, const char* sentence) noexcept
    try {
  if (!std::filesystem::exists(file)) return;
  spdlog::logger logger("longspan", file_sink(file));
  logger.set_error_handler([](const std::string&) {});  // the default handler writes to the console
  logger.log(level_of(level), spdlog::string_view_t(sentence));
} catch (...) {
}

}  // namespace longspan
