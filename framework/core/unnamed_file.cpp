#include "framework/core/unnamed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace longspan {

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

}  // namespace longspan
