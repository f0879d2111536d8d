#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "framework/core/error.h"
#include "framework/core/system.h"

namespace longspan::cuda_library_test {
namespace {

constexpr const char* variable = "LONGSPAN_CUDA_LIBRARIES";

// A library with a unique name, in a temporary directory.
class CudaLibrary : public ::testing::Test {
 protected:
  CudaLibrary() {
    Dl_info where;
    if (dladdr(reinterpret_cast<const void*>(&::getenv), &where) == 0) std::abort();
    std::filesystem::create_directories(folder_);
    std::filesystem::create_symlink(std::filesystem::canonical(where.dli_fname),
                                    folder_ / "libthat_is_nowhere_else.so.13");
  }
  ~CudaLibrary() override {
    unsetenv(variable);
    std::filesystem::remove_all(folder_);
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                  ("longspan-cuda-library-" + std::to_string(getpid()));
};

void* open(const std::string& toolkit) {
  return open_cuda_library("libthat_is_nowhere_else.so.13", "tests", toolkit);
}

TEST_F(CudaLibrary, FindsLibraryInEnvironmentDirectories) {
  setenv(variable, ("/nowhere::" + folder_.string() + ":/also/nowhere").c_str(), 1);
  EXPECT_NE(open("/nowhere"), nullptr);
}

TEST_F(CudaLibrary, FindsLibraryInToolkitDirectory) { EXPECT_NE(open(folder_.string()), nullptr); }

TEST_F(CudaLibrary, ReportsMissingLibrary) {
  setenv(variable, "/nowhere", 1);
  try {
    open("/nor/here");
    FAIL() << "it was opened";
  } catch (const Failure& failure) {
    const std::string text = failure.what();
    EXPECT_TRUE(
        text.starts_with("tests require libthat_is_nowhere_else.so.13, which cannot be opened"))
        << text;
    EXPECT_TRUE(text.ends_with("set LONGSPAN_CUDA_LIBRARIES to its directory")) << text;
  }
}

}  // namespace
}  // namespace longspan::cuda_library_test
