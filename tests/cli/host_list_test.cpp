#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "framework/core/error.h"
#include "launch/cli/retry_hosts.h"
#include "tests/support/temporary_directory.h"

namespace longspan::host_list_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TemporaryDirectory;

std::vector<std::string> listed(const std::vector<std::string>& options) {
  std::vector<std::string> texts;
  for (const NamedHost& host : listed_hosts(options))
    texts.push_back(host.name + (host.slots ? " " + std::to_string(*host.slots) : ""));
  return texts;
}

class HostFile : public ::testing::Test {
 protected:
  std::string write(const std::string& text) const {
    std::ofstream(file_) << text;
    return file_;
  }
  TemporaryDirectory directory_;
  std::string file_ = directory_.path() / "hosts.txt";
};

TEST(NamedHosts, CountsSlotsInHostLists) {
  EXPECT_THAT(listed({"--host", "a,b:4,a,user@c:*,+n0"}), ElementsAre("a 2", "b 4", "user@c"));
  EXPECT_THAT(listed({"-H", "a", "-n", "2"}), ElementsAre("a 1"));
  EXPECT_THAT(listed({"--host", "a,,b,"}), ElementsAre("a 1", "b 1"));
  EXPECT_THAT(listed({"--bind-to", "none"}), IsEmpty());
}

TEST_F(HostFile, ListsHostsWithSlots) {
  const std::string file =
      write("# machines\n\na slots=4 max_slots=8 # the first\n b slots = 2\nc\n^d\n");
  EXPECT_THAT(listed({"--hostfile", file}), ElementsAre("a 4", "b 2", "c"));
  EXPECT_THAT(listed({"--host", "b", "-machinefile", file}), ElementsAre("b 2"));
  EXPECT_THAT(listed({"--hostfile", file + ".gone"}), IsEmpty());
}

TEST_F(HostFile, UsesDefaultHostfileWithoutOtherHosts) {
  const std::string file = write("a slots=4\nb\n");
  const std::string other = directory_.path() / "others.txt";
  std::ofstream(other) << "c slots=2\n";
  EXPECT_THAT(listed({"--default-hostfile", file}), ElementsAre("a 4", "b"));
  EXPECT_THAT(listed({"-default-hostfile", file, "--hostfile", other}), ElementsAre("c 2"));
  const auto words = without_hosts({"--default-hostfile", file}, {"b"}, directory_.path());
  EXPECT_THAT(listed(words), ElementsAre("a 4"));
}

TEST_F(HostFile, SetsUserNameForProbes) {
  const std::string file =
      write("0.0.0.1 slots=2 username=ann\n0.0.0.2 user_name = bob\ncy@0.0.0.3 user-name=dan\n");
  const std::vector<NamedHost> hosts = listed_hosts({"--hostfile", file});
  const std::string seen = directory_.path() / "seen-";
  EXPECT_THAT(probe_hosts(hosts, {"/bin/sh", "-c", "> " + seen + "$0"}, std::chrono::seconds(60))
                  .unreachable,
              IsEmpty());
  for (const char* address : {"ann@0.0.0.1", "bob@0.0.0.2", "cy@0.0.0.3"})
    EXPECT_TRUE(std::filesystem::exists(seen + address)) << address;
}

TEST_F(HostFile, WritesCopyWithoutRemovedHosts) {
  const std::string file = write("a slots=4\nb slots=2\n");
  const std::vector<std::string> words =
      without_hosts({"--host", "a,b:2", "--hostfile", file, "-x", "b"}, {"b"}, directory_.path());
  EXPECT_EQ(words[1], "a");
  EXPECT_EQ(words[5], "b");
  EXPECT_NE(words[3], file);
  std::stringstream left;
  left << std::ifstream(words[3]).rdbuf();
  EXPECT_EQ(left.str(), "a slots=4\n");
  EXPECT_THROW(without_hosts({"--hostfile", file}, {"b"}, "/nowhere"), Failure);
}

TEST(HostAgent, ReadsOptionsOrEnvironment) {
  ::setenv("OMPI_MCA_plm_rsh_agent", "no-such-program : /bin/sh -c", 1);
  EXPECT_THAT(host_agent({}), ElementsAre("/bin/sh", "-c"));
  EXPECT_THAT(host_agent({"--mca", "plm_rsh_agent", "env -i"}), ElementsAre("env", "-i"));
  EXPECT_THAT(host_agent({"--mca", "plm_rsh_agent", "no-such-program"}), IsEmpty());
  ::unsetenv("OMPI_MCA_plm_rsh_agent");
}

TEST(HostAgent, AppendsAgentArguments) {
  ::setenv("OMPI_MCA_plm_rsh_args", "-p 2222", 1);
  EXPECT_THAT(host_agent({"--mca", "plm_rsh_agent", "env -i"}),
              ElementsAre("env", "-i", "-p", "2222"));
  EXPECT_THAT(host_agent({"-mca", "plm_rsh_args", "-q", "--mca", "plm_rsh_agent", "env"}),
              ElementsAre("env", "-q"));
  ::unsetenv("OMPI_MCA_plm_rsh_args");
}

TEST(ProbeHosts, ReportsHostsThatFailOrTimeOut) {
  const std::vector<NamedHost> hosts = {{"0.0.0.1"}, {"localhost"}, {"0.0.0.2"}};
  // localhost is not probed.
  EXPECT_THAT(probe_hosts(hosts, {"/bin/false"}, std::chrono::seconds(60)).unreachable,
              ElementsAre("0.0.0.1", "0.0.0.2"));
  const HostProbe answers = probe_hosts(hosts, {"/bin/true"}, std::chrono::seconds(60));
  EXPECT_THAT(answers.unreachable, IsEmpty());
  EXPECT_THAT(answers.here, ElementsAre("localhost"));
  EXPECT_THAT(probe_hosts(hosts, {}, std::chrono::seconds(60)).unreachable,
              ElementsAre("0.0.0.1", "0.0.0.2"));
  EXPECT_THAT(probe_hosts({{"0.0.0.1"}}, {"/bin/sh", "-c", "sleep 60"}, std::chrono::seconds(1))
                  .unreachable,
              ElementsAre("0.0.0.1"));
}

}  // namespace
}  // namespace longspan::host_list_test
