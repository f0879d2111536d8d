// Hosts of training with restarts: which mpirun's options name, which respond, and which layout
// fits there. Also a temporary folder for their list.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/cli/configuration_text.h"
#include "launch/cli/launch.h"

namespace longspan {

// Hosts named by mpirun's options, and which of them respond.

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

// Created under TMPDIR, or /tmp, and removed on destruction.
class TemporaryFolder {
 public:
  // Throws Failure if it cannot be created.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Result of probing the hosts.
struct UnreachableHosts {
  std::vector<std::string> hosts;  // that do not respond
  std::string doubt = {};          // why no host counts as unreachable; reported once
  bool was_asked = false;          // to stop, by a signal received meanwhile
};

// A command line for the hosts that respond.
struct PlacedCommand {
  LaunchCommandLine line;
  std::string describe = {};  // hosts and layout, to append to "on 4 ranks"
  std::string trouble = {};   // why nothing fits there
};

// Returns, for example, "one, two do not answer within 10 s".
std::string silence_of(const std::vector<std::string>& hosts);

// Hosts named by mpirun's options. `line` and `source` must outlive it.
class RetryHosts {
 public:
  RetryHosts(const LaunchCommandLine& line, const ConfigurationText& source);

  // Probes the hosts. If no other machine has ever responded, this process may be unable to reach
  // any: then none counts as unreachable.
  UnreachableHosts ask();

  // Returns whether these are all named hosts.
  bool are_all(const std::vector<std::string>& silent) const;

  // Returns the line without these hosts, with a layout of fewer ranks if the others have fewer
  // slots. `line` must be that of the constructor, with at most additional settings.
  PlacedCommand place_command(LaunchCommandLine line, const std::vector<std::string>& silent) const;

 private:
  void leave_out(const std::vector<std::string>& silent, PlacedCommand& found) const;
  std::optional<std::int64_t> usual_ranks() const;
  std::optional<std::int64_t> ranks_left(const std::vector<NamedHost>& left) const;

  const LaunchCommandLine& line_;
  const ConfigurationText& source_;
  std::vector<NamedHost> hosts_;
  TemporaryFolder folder_;
  std::vector<std::string> here_;  // names of this machine
  bool has_answered_ = false;      // another machine responded
  bool has_reported_doubt_ = false;
};

}  // namespace longspan
