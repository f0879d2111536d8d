#include "framework/core/system_message.h"

#include <system_error>

namespace longspan {

std::string errno_message(int error) { return std::generic_category().message(error); }

}  // namespace longspan
