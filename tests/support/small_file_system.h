// A small file system.
#pragma once

#include <fmt/format.h>
#include <sys/mount.h>

#include <cstdint>
#include <filesystem>

namespace longspan::testing {

// Mounts a tmpfs of `bytes` on a directory for its lifetime, if mounting is permitted.
class SmallFileSystem {
 public:
  SmallFileSystem(const std::filesystem::path& path, std::int64_t bytes)
      : path_(path),
        mounted_(mount("tmpfs", path.c_str(), "tmpfs", 0, fmt::format("size={}", bytes).c_str()) ==
                 0) {}
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  ~SmallFileSystem() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  std::filesystem::path path_;
  bool mounted_;
};

}  // namespace longspan::testing
