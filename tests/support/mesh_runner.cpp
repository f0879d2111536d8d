#include "tests/support/mesh_runner.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "framework/distributed/session.h"

namespace longspan::testing {
namespace {

Session* session = nullptr;  // set by main: gtest cannot pass it to a test

constexpr std::chrono::seconds body_limit{60};
// Limit of ranks outside the group, which wait for the full body.
constexpr std::chrono::seconds outer_limit{300};

std::vector<std::string> failures_of(const ::testing::TestResult& result) {
  std::vector<std::string> failures;
  for (int i = 0; i < result.total_part_count(); ++i) {
    const ::testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.failed())
      failures.push_back(fmt::format("{}:{}\n{}",
                                     part.file_name() ? part.file_name() : "unknown",
                                     part.line_number(),
                                     part.message()));
  }
  return failures;
}

// Prints the output of gtest on rank 0. Reports each failure of a test once, with its ranks.
class MeshListener : public ::testing::EmptyTestEventListener {
 public:
  int failed_tests() const { return failed_; }

 private:
  void OnTestStart(const ::testing::TestInfo& test) override {
    print("[ RUN      ] {}.{}\n", test.test_suite_name(), test.name());
  }

  void OnTestEnd(const ::testing::TestInfo& test) override {
    const std::map<std::string, std::string> ranks_of = gather(failures_of(*test.result()));
    for (const auto& [failure, ranks] : ranks_of) print("[rank {}] {}\n", ranks, failure);
    if (!ranks_of.empty()) ++failed_;
    print("[{}] {}.{} ({} ms)\n",
          !ranks_of.empty()          ? "  FAILED  "
          : test.result()->Skipped() ? "  SKIPPED "
                                     : "       OK ",
          test.test_suite_name(),
          test.name(),
          test.result()->elapsed_time());
  }

  void OnTestProgramEnd(const ::testing::UnitTest& program) override {
    print("[==========] {} tests on {} ranks, {} failed\n",
          program.test_to_run_count(),
          world().size(),
          failed_);
  }

  // Maps the failures of all ranks to their ranks, as in "0, 2".
  static std::map<std::string, std::string> gather(const std::vector<std::string>& own) {
    std::string joined;
    for (const std::string& failure : own) joined += failure + '\0';
    std::map<std::string, std::string> ranks_of;
    const std::vector<std::string> all = world().all_gather(joined);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      for (std::size_t begin = 0; begin < all[rank].size();) {
        const std::size_t end = all[rank].find('\0', begin);
        std::string& ranks = ranks_of[all[rank].substr(begin, end - begin)];
        ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
        begin = end + 1;
      }
    }
    return ranks_of;
  }

  template <typename... Arguments>
  static void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (world().rank() != 0) return;
    fmt::print(format, std::forward<Arguments>(arguments)...);
    std::fflush(stdout);
  }

  int failed_ = 0;
};

// A failed rank calls another collective than the ranks that wait in the group, so they fail at
// once. Only the failed rank reports the error.
void meet(const Communicator& group, bool failed) {
  try {
    if (failed)
      static_cast<void>(group.all_reduce(std::int64_t{0}, Reduction::minimum));
    else
      group.barrier();
  } catch (const RankError&) {
  }
}

void run_body(const Communicator& group, const std::function<void(const Communicator&)>& body) {
  bool failed = false;
  try {
    body(group);
  } catch (const std::exception& error) {
    failed = true;
    ADD_FAILURE() << "exception: " << error.what();
  }
  meet(group, failed);
}

}  // namespace

const Communicator& world() { return session->world(); }

void on_ranks(int ranks, const std::function<void(const Communicator&)>& body) {
  if (world().size() < ranks)
    GTEST_SKIP() << "needs " << ranks << " ranks: tests/support/mpirun " << ranks << " ...";
  const bool inside = world().rank() < ranks;
  // A separate group: after its failure the world can run the next test.
  const Communicator group = world().split(inside ? 0 : 1, world().rank(), "test");
  if (inside) {
    session->set_time_limit(body_limit);
    run_body(group, body);
    session->set_time_limit(outer_limit);
  }
  world().barrier();
}

void for_each_layout(const std::vector<MeshShape>& layouts,
                     const std::function<void(const ProcessMesh&)>& body) {
  for (const MeshShape& layout : layouts) {
    SCOPED_TRACE(to_string(layout));
    on_ranks(layout.size(), [&](const Communicator& group) { body(ProcessMesh(group, layout)); });
    if (::testing::Test::IsSkipped()) return;
  }
}

std::vector<MeshShape> data_and_tensor_layouts() {
  return {{.data = 1},
          {.data = 2},
          {.tensor = 2},
          {.data = 2, .tensor = 2},
          {.data = 4},
          {.tensor = 4}};
}

std::vector<MeshShape> time_layouts() {
  return {{.context = 2},
          {.context = 4},
          {.context = 2, .tensor = 2},
          {.data = 2, .context = 2},
          {.tensor = 2, .sequence = true},
          {.tensor = 4, .sequence = true},
          {.data = 2, .tensor = 2, .sequence = true},
          {.context = 2, .tensor = 2, .sequence = true}};
}

std::string to_string(const MeshShape& shape) {
  std::string text;
  const auto add = [&](const char* axis, int size) {
    if (size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis, size);
  };
  add("data", shape.data);
  add("context", shape.context);
  add("tensor", shape.tensor);
  if (shape.sequence) text += " with sequence parallelism";
  return text.empty() ? "one process" : text;
}

// `--messages` selects MPI messages instead of shared memory.
int run_all_tests(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  SessionOptions options{.time_limit = outer_limit, .reply_timeout = std::chrono::seconds(2)};
  if (argc > 1 && std::string_view(argv[1]) == "--messages")
    options.transport = TransportChoice::messages;
  Session own(options);
  session = &own;
  if (world().rank() != 0) ::testing::GTEST_FLAG(output) = "";
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  auto* listener = new MeshListener;  // gtest owns it
  listeners.Append(listener);
  try {
    const int own_failures = RUN_ALL_TESTS();
    return own_failures != 0 || listener->failed_tests() > 0 ? 1 : 0;
  } catch (const std::exception& error) {
    if (own.claim_error_report())
      fmt::print(stderr, "[rank {}] {}\n", world().rank(), error.what());
    own.abort(1);
  }
}

}  // namespace longspan::testing

int main(int argc, char** argv) { return longspan::testing::run_all_tests(argc, argv); }
