#include "framework/core/system.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/quote.h"

namespace longspan {

std::string errno_message(int error) { return std::generic_category().message(error); }

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

int open_unnamed_file(const std::string& folder) {
  std::string name = folder + "/longspan.tmp-XXXXXX";
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor >= 0) ::unlink(name.c_str());
  return descriptor;
}

std::string temporary_folder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : folder;
}

void* open_cuda_library(const std::string& name,
                        const std::string& purpose,
                        const std::string& toolkit) {
  std::vector<std::string> places;
  const char* const chosen = std::getenv("LONGSPAN_CUDA_LIBRARIES");
  for (const std::string& folder : split(chosen == nullptr ? "" : chosen, ':'))
    if (!folder.empty()) places.push_back(folder + "/" + name);
  places.push_back(name);
  places.push_back(toolkit + "/" + name);
  places.push_back("/usr/local/cuda/lib64/" + name);
  for (const std::string& place : places)
    if (void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw Failure(
      "{} require {}, which cannot be opened ({}); set LONGSPAN_CUDA_LIBRARIES to its directory",
      purpose,
      name,
      dlerror());
}

}  // namespace longspan
