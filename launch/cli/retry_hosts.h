// Hosts of training with restarts: which respond, and which layout fits there; and a temporary
// folder for their list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/cli/configuration_text.h"
#include "launch/cli/host_list.h"
#include "launch/cli/launch.h"

namespace longspan {

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
