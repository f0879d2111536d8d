#include "framework/runs/samples_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "framework/core/error.h"

namespace longspan {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw Failure(
      "{}: {}: {}", path.string(), what, std::error_code(errno, std::generic_category()).message());
}

std::string in_quotes(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The bytes of the whole lines of steps up to the last. A line that a killed run left unfinished
// does not count.
std::int64_t bytes_up_to(std::int64_t last_step, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "cannot be read");
  std::int64_t bytes = 0;
  std::string line;
  for (int number = 1; std::getline(file, line) && !file.eof(); ++number) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    const bool has_step = object.is_object() && object.contains("step") &&
                          object["step"].is_number_integer() && object.contains("output");
    if (!has_step)
      throw DataError(
          "{}:{}: found something else than a sample; move the file away", path.string(), number);
    if (object["step"].get<std::int64_t>() > last_step) break;
    bytes += std::ssize(line) + 1;
  }
  return bytes;
}

}  // namespace

std::string json_line(std::int64_t step, std::size_t number, const TextSample& sample) {
  return fmt::format(R"({{"step": {}, "sample": {}, "input": {}, "output": {}, "reference": {}}})",
                     step,
                     number,
                     in_quotes(sample.input),
                     in_quotes(sample.output),
                     in_quotes(sample.reference));
}

SamplesFile::SamplesFile(const std::filesystem::path& path, std::int64_t last_step)
    : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (!file_.defined()) fail(path_, "cannot be opened");
  const std::int64_t kept = last_step > 0 ? bytes_up_to(last_step, path_) : 0;
  if (::ftruncate(file_.get(), kept) != 0) fail(path_, "cannot be cut");
}

void SamplesFile::write(std::int64_t step, std::span<const TextSample> samples) {
  std::string lines;
  for (std::size_t i = 0; i < samples.size(); ++i) lines += json_line(step, i, samples[i]) + '\n';
  ssize_t count = 0;
  do {
    count = ::write(file_.get(), lines.data(), lines.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail(path_, "cannot be written");
  // What is cut short (the disk is full) would be taken for what a killed run left.
  if (static_cast<std::size_t>(count) != lines.size())
    throw Failure(
        "{}: {} of {} bytes written; is the disk full?", path_.string(), count, lines.size());
}

void SamplesFile::sync() {
  if (::fdatasync(file_.get()) != 0) fail(path_, "cannot be brought to the disk");
}

}  // namespace longspan
