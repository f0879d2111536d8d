// The hosts of a training that is started again and again: which answer, and what fits there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/cli/configuration_text.h"
#include "launch/cli/host_list.h"
#include "launch/cli/run.h"
#include "launch/cli/temporary_folder.h"

namespace longspan {

// What asking them has told.
struct UnreachableHosts {
  std::vector<std::string> hosts;  // that do not answer
  std::string doubt = {};          // a sentence, where none counts as silent and why; told once
  bool was_asked = false;          // to stop, by a signal that came meanwhile
};

// A command line for the hosts that answer.
struct PlacedCommand {
  RunCommandLine line;
  std::string describe = {};  // on which hosts and in what layout, as words behind "on 4 ranks"
  std::string trouble = {};   // why nothing fits there
};

// "one, two do not answer within 10 s"
std::string silence_of(const std::vector<std::string>& hosts);

// Those that mpirun's options name. `line` and `source` outlive it.
class RetryHosts {
 public:
  RetryHosts(const RunCommandLine& line, const ConfigurationText& source);

  // Where no other machine has ever answered there may be no way for this process to reach any:
  // then none of them counts as silent.
  UnreachableHosts ask();

  // Whether these are all that are named.
  bool are_all(const std::vector<std::string>& silent) const;

  // The line without these hosts, and where the others have fewer places on a layout of fewer
  // ranks. `line` is that of the constructor, with settings of its own at most.
  PlacedCommand place_command(RunCommandLine line, const std::vector<std::string>& silent) const;

 private:
  void leave_out(const std::vector<std::string>& silent, PlacedCommand& found) const;
  std::optional<std::int64_t> usual_ranks() const;
  std::optional<std::int64_t> ranks_left(const std::vector<NamedHost>& left) const;

  const RunCommandLine& line_;
  const ConfigurationText& source_;
  std::vector<NamedHost> hosts_;
  TemporaryFolder folder_;
  std::vector<std::string> here_;  // hosts that are this machine
  bool has_answered_ = false;      // another machine
  bool told_of_doubt_ = false;
};

}  // namespace longspan
