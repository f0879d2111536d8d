// The hosts that words for mpirun name, and which of them answer.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace longspan {

struct NamedHost {
  std::string name;               // as it is written: it may have a user, "user@host"
  std::optional<int> slots = {};  // ranks that are started there; nothing: one for each core
  std::string user = {};          // that a file names for it; "" where it names none
};

// Of --host and --hostfile and what they are called else, each host once; what mpirun alone
// understands, such as "+n0", is none. Where a file names hosts its slots count. Without a
// --hostfile that names hosts --default-hostfile counts as one. Nothing for a file that cannot be
// read, which mpirun tells.
std::vector<NamedHost> named_hosts(const std::vector<std::string>& options);

// The same words without those hosts. Files that name them are written anew into `folder`. Throws
// Failure where that cannot be.
std::vector<std::string> without_hosts(const std::vector<std::string>& options,
                                       const std::vector<std::string>& gone,
                                       const std::filesystem::path& folder);

// The words by which mpirun starts something on another host, as its parameters plm_rsh_agent, else
// "ssh" or "rsh", and plm_rsh_args say in `options` or in the environment. Empty where there is no
// such program.
std::vector<std::string> host_agent(const std::vector<std::string>& options);

struct HostProbe {
  std::vector<std::string> unreachable;
  std::vector<std::string> here;   // what names this machine; the rest answers by the agent
  std::optional<int> signal = {};  // that came meanwhile, of those that wait_for_signal waits for
};
// Starts `true` on each host, all at a time. Silent is one where that does not end well in time.
// This host answers.
HostProbe probe_hosts(const std::vector<NamedHost>& hosts,
                      const std::vector<std::string>& agent,
                      std::chrono::seconds limit);

}  // namespace longspan
