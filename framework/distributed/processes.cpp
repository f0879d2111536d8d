#include "framework/distributed/processes.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

namespace longspan {

std::vector<pid_t> descendants_of(pid_t process) {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    // The program name, in parentheses, may contain any characters.
    const auto after = text.rfind(')');
    if (after == std::string::npos) continue;
    char state = 0;
    pid_t parent = 0;
    if (std::sscanf(text.c_str() + after + 1, " %c %d", &state, &parent) == 2 && state != 'Z')
      children.emplace(parent, std::stoi(name));
  }
  std::vector<pid_t> found = {process};
  for (std::size_t i = 0; i < found.size(); ++i)
    for (auto [child, end] = children.equal_range(found[i]); child != end; ++child)
      found.push_back(child->second);
  found.erase(found.begin());
  return found;
}

}  // namespace longspan
