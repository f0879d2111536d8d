// Hosts named by mpirun's options, and which of them respond.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace longspan {

struct NamedHost {
  std::string name;               // as written: it may include a user, "user@host"
  std::optional<int> slots = {};  // ranks started there; empty: one per core
  std::string user = {};          // user named in a host file, or ""
};

// Returns the hosts of --host, --hostfile and their synonyms, each host once. Names that only
// mpirun understands, such as "+n0", are left out. If a file names hosts, its slots count. Without
// a --hostfile that names hosts, --default-hostfile is used. A file that cannot be read names none:
// mpirun reports it.
std::vector<NamedHost> listed_hosts(const std::vector<std::string>& options);

// Returns the options without those hosts, rewriting the files that name them into `folder`. Throws
// Failure if that fails.
std::vector<std::string> without_hosts(const std::vector<std::string>& options,
                                       const std::vector<std::string>& gone,
                                       const std::filesystem::path& folder);

// Returns the command by which mpirun starts programs on another host. It is set by mpirun's
// parameters plm_rsh_agent (default "ssh" or "rsh") and plm_rsh_args, in `options` or the
// environment. Empty if there is no such program.
std::vector<std::string> host_agent(const std::vector<std::string>& options);

struct HostProbe {
  std::vector<std::string> unreachable;
  std::vector<std::string> here;   // hosts that are this machine; others use the agent
  std::optional<int> signal = {};  // received meanwhile, one of those of wait_for_signal
};
// Runs `true` on all hosts in parallel. A host is unreachable if this fails or exceeds `limit`.
// This host always responds.
HostProbe probe_hosts(const std::vector<NamedHost>& hosts,
                      const std::vector<std::string>& agent,
                      std::chrono::seconds limit);

}  // namespace longspan
