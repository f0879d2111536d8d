// What this machine is called.
#pragma once

#include <string>

namespace longspan {

// As its system says; empty where that says nothing. Several machines may have one name.
std::string host_name();

}  // namespace longspan
