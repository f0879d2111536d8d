#include "launch/cli/temporary_folder.h"

#include <cstdlib>
#include <string>
#include <system_error>

#include "framework/core/error.h"
#include "framework/core/system_message.h"

namespace longspan {

TemporaryFolder::TemporaryFolder() {
  const char* const parent = std::getenv("TMPDIR");
  std::string name = std::string(parent ? parent : "/tmp") + "/longspan-run-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    throw Failure("longspan launch: {}: cannot be created: {}", name, errno_message());
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace longspan
