#include <gtest/gtest.h>

#include <string>

#include "launch/cli/job.h"

namespace longspan::mpirun_stderr_filter_test {
namespace {

const std::string dashes = std::string(74, '-') + "\n";
const std::string exit_code =
    dashes + "Primary job  terminated normally, but 1 process returned\na non-zero exit code.\n" +
    dashes + dashes +
    "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job "
    "to be terminated. The first process to do so was:\n\n  Exit code:    75\n" +
    dashes;
const std::string killed =
    dashes + "mpirun noticed that process rank 1 exited on signal 9\n" + dashes;

TEST(MpirunStderrFilter, RemovesExitCodeReportsAcrossBlocks) {
  const std::string text =
      "one\n" + exit_code + "mpirun: Forwarding signal 10 to job\ntwo\n" + killed;
  for (const std::size_t cut : {1, 3, 74, 75, 1000}) {
    MpirunStderrFilter words;
    std::string shown;
    for (std::size_t i = 0; i < text.size(); i += cut) shown += words.push(text.substr(i, cut));
    EXPECT_EQ(shown + words.flush(), "one\ntwo\n" + killed) << cut;
  }
}

TEST(MpirunStderrFilter, FlushesPendingText) {
  MpirunStderrFilter words;
  EXPECT_EQ(words.push("a question? "), "");
  EXPECT_EQ(words.flush(), "a question? ");
  EXPECT_EQ(words.push(dashes + "of a rank\n"), "");
  EXPECT_EQ(words.flush(), dashes + "of a rank\n");
  EXPECT_EQ(words.push("next\n"), "next\n");
}

TEST(MpirunStderrFilter, ParsesExitCodeReportedByRank) {
  for (const std::string line :
       {"longspan ends the job: 3\n", "[1,3]<stderr>:longspan ends the job: 3\n"}) {
    MpirunStderrFilter words;
    const std::string sentence = "longspan: the job continues after a message\n";
    EXPECT_EQ(words.push(sentence), sentence);
    EXPECT_FALSE(words.end_code());
    EXPECT_EQ(words.push(line + "longspan ends the job: 5\n"), "");
    EXPECT_EQ(words.end_code(), 3);
    EXPECT_FALSE(words.reports_lost_machine());
  }
}

TEST(MpirunStderrFilter, KeepsLinesSimilarToExitCodeReports) {
  MpirunStderrFilter words;
  const std::string sentence = "longspan ends the job: 3 days ago\n";
  EXPECT_EQ(words.push(sentence), sentence);
  EXPECT_FALSE(words.end_code());
}

TEST(MpirunStderrFilter, DetectsLostMachine) {
  const std::string lost = dashes + "ORTE has lost communication with a remote daemon.\n\n" +
                           "  Remote daemon: [[34974,0],1] on node two\n" + dashes;
  const std::string not_reached =
      dashes + "ORTE was unable to reliably start one or more daemons.\n" + dashes;
  for (const std::string& text : {lost, not_reached}) {
    MpirunStderrFilter words;
    EXPECT_EQ(words.push(exit_code + killed), killed);
    EXPECT_FALSE(words.reports_lost_machine());
    EXPECT_EQ(words.push(text), text);
    EXPECT_TRUE(words.reports_lost_machine());
  }
}

TEST(MpirunStderrFilter, DetectsMissingDaemon) {
  MpirunStderrFilter words;
  words.push(dashes + "ORTE does not know how to route a message to the specified daemon\n" +
             "located on the indicated node:\n" + dashes);
  EXPECT_TRUE(words.reports_missing_daemon());
  EXPECT_FALSE(words.reports_lost_machine());
}

}  // namespace
}  // namespace longspan::mpirun_stderr_filter_test
