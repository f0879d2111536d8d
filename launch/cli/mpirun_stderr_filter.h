// Filters mpirun's own messages.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// Filters the standard error of mpirun: removes its messages about a rank with a nonzero exit code.
// mpirun considers that an aborted job, but the code already describes it.
class MpirunStderrFilter {
 public:
  // The exit code with which a rank ended the job (end_words of framework/distributed/launcher.h).
  // mpirun then ends the job.
  std::optional<int> end_code() const { return end_code_; }
  // Whether mpirun has lost another machine, or could not reach it.
  bool reports_lost_machine() const { return reports_lost_machine_; }
  // Whether mpirun ended because it had to forward something, such as a signal, before all of its
  // daemons had started. Its exit code is 0 then.
  bool reports_missing_daemon() const { return reports_missing_daemon_; }
  // Consumes text and returns what to show of it now.
  std::string push(std::string_view text);
  // Returns all buffered text. Call it when no more text has arrived for a while, or at the end.
  std::string flush();

 private:
  std::string push_line(std::string line);
  std::string push_block();

  std::string line_;                // incomplete
  std::vector<std::string> block_;  // lines since a line of dashes, inclusive
  std::optional<int> end_code_;
  bool reports_lost_machine_ = false;
  bool reports_missing_daemon_ = false;
};

}  // namespace longspan
