// What mpirun says beside the ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// Standard error of an mpirun, without what it adds when a rank ends with a code other than 0: to
// mpirun that is an aborted job, and the code has said what it is.
class MpirunStderrFilter {
 public:
  // The exit code with which a rank has ended the job (end_words of
  // framework/distributed/launcher.h): from then on mpirun ends it.
  std::optional<int> end_code() const { return end_code_; }
  // Whether mpirun has lost another machine, or could not reach it.
  bool tell_of_a_lost_machine() const { return tell_of_a_lost_machine_; }
  // Whether mpirun has ended since it was to pass something on, such as a signal, before it had
  // started all of its daemons. Its exit code is 0 then.
  bool tell_of_a_missing_daemon() const { return tell_of_a_missing_daemon_; }
  // Takes what came, and returns what is to be shown of it now.
  std::string push(std::string_view text);
  // All that is held back: nothing more came for a while, or ever will.
  std::string flush();

 private:
  std::string push_line(std::string line);
  std::string push_block();

  std::string line_;                // that is not whole
  std::vector<std::string> block_;  // lines since a line of dashes, that one too
  std::optional<int> end_code_;
  bool tell_of_a_lost_machine_ = false;
  bool tell_of_a_missing_daemon_ = false;
};

}  // namespace longspan
