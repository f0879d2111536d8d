#include "framework/core/cuda_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/quote.h"

namespace longspan {

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
