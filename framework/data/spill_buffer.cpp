#include "framework/data/spill_buffer.h"

#include <unistd.h>

#include "framework/core/error.h"
#include "framework/core/system_message.h"
#include "framework/core/unnamed_file.h"

namespace longspan {
namespace {

[[noreturn]] void fail(const std::filesystem::path& folder) {
  throw Failure("{}: a file in it cannot be written: {}", folder.string(), errno_message());
}

}  // namespace

SpillBuffer::~SpillBuffer() {
  if (file_ != nullptr) std::fclose(file_);
}

void SpillBuffer::add(std::uint64_t number) {
  held_.push_back(number);
  if (held_.size() >= max_in_memory_) spill();
}

void SpillBuffer::spill() {
  if (file_ == nullptr) {
    const int descriptor = open_unnamed_file(folder_.string());
    if (descriptor < 0) fail(folder_);
    file_ = ::fdopen(descriptor, "w+b");
    if (file_ == nullptr) {
      ::close(descriptor);
      fail(folder_);
    }
  }
  if (std::fwrite(held_.data(), sizeof(std::uint64_t), held_.size(), file_) != held_.size())
    fail(folder_);
  spilled_ += std::ssize(held_);
  held_.clear();
}

void SpillBuffer::for_each(const std::function<void(std::span<const std::uint64_t>)>& f) {
  if (spilled_ > 0) {
    if (std::fflush(file_) != 0 || std::fseek(file_, 0, SEEK_SET) != 0) fail(folder_);
    std::vector<std::uint64_t> part(max_in_memory_);
    for (std::int64_t done = 0; done < spilled_; done += std::ssize(part)) {
      if (std::fread(part.data(), sizeof(std::uint64_t), part.size(), file_) != part.size())
        fail(folder_);
      f(part);
    }
    if (std::fseek(file_, 0, SEEK_END) != 0) fail(folder_);
  }
  if (!held_.empty()) f(held_);
}

}  // namespace longspan
