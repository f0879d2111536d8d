// Random damage: reading a damaged checkpoint returns the original values or throws.
#include <sys/stat.h>

#include <map>

#include "checkpoints/manifest.h"
#include "tests/checkpoints/checkpoint_testing.h"

namespace longspan::testing::damage_test {
namespace {

class DamagedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    ranks_ = divided(state_, 3);
    path_ = save_as_ranks(directory_.path(), 1, ranks_);
    other_ = save_as_ranks(directory_.path(), 2, divided(small_state(2), 3));
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      original_[entry.path().filename().string()] = read_bytes(entry.path());
  }

  // Returns true if reading throws a DataError, false if it returns the original values. Anything
  // else fails the test.
  bool refused(const std::string& what) {
    TrainingState read = blank(ranks_[1]);
    try {
      Checkpoint::open(path_).read(read);
      TrainingState all = blank(state_);
      Checkpoint::open(path_).read(all);
      EXPECT_TRUE(same(read, ranks_[1]) && same(all, state_)) << what << " was read silently";
      EXPECT_EQ(all.scalars.get<double>("learning_rate"), 0.1 + 0.2) << what;
      return false;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(directory_.path().string()), std::string::npos)
          << what << " gave no place: " << error.what();
      return true;
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << " ended in another error: " << error.what();
      return true;
    }
  }

  static bool same(const TrainingState& a, const TrainingState& b) {
    for (std::size_t i = 0; i < a.tensors.size(); ++i)
      if (bytes_of(a.tensors[i].tensor) != bytes_of(b.tensors[i].tensor)) return false;
    return true;
  }

  // Returns a random file, weighted by size, and the position of a byte in it.
  std::pair<std::string, std::size_t> position(const Random& random) const {
    std::size_t total = 0;
    for (const auto& [name, bytes] : original_) total += bytes.size();
    std::size_t at = (std::uint64_t{random.word(0)} << 32 | random.word(1)) % total;
    for (const auto& [name, bytes] : original_) {
      if (at < bytes.size()) return {name, at};
      at -= bytes.size();
    }
    return {};
  }

  TemporaryDirectory directory_;
  TrainingState state_ = small_state();
  std::vector<TrainingState> ranks_;
  std::filesystem::path path_, other_;
  std::map<std::string, std::string> original_;
};

TEST_F(DamagedCheckpoint, DetectsFlippedBits) {
  const Random random(11);
  for (std::uint64_t flip = 0; flip < 500; ++flip) {
    const Random here = random.child(flip);
    // Every fifth flip is in the manifest, which is small.
    auto [name, at] = position(here);
    if (flip % 5 == 0) name = "manifest.json", at = here.word(3) % original_[name].size();
    const auto bit = here.word(2) % 8;
    flip_bit(path_ / name, at, bit);
    const std::string what = fmt::format("bit {} of byte {} of {}", bit, at, name);
    // Reads do not open the view.
    EXPECT_EQ(refused(what), name != "view.h5") << what;
    if (flip % 10 == 0) {
      EXPECT_FALSE(verify_checkpoint(path_).empty()) << what;
    }
    flip_bit(path_ / name, at, bit);
  }
  EXPECT_FALSE(refused("no damage"));
}

TEST_F(DamagedCheckpoint, DetectsTruncation) {
  const Random random(12);
  for (std::uint64_t cut = 0; cut < 60; ++cut) {
    const auto [name, at] = position(random.child(cut));
    write_bytes(path_ / name, original_[name].substr(0, at));
    const std::string what = fmt::format("{} cut to {} bytes", name, at);
    EXPECT_EQ(refused(what), name != "view.h5") << what;
    EXPECT_FALSE(verify_checkpoint(path_).empty()) << what;
    write_bytes(path_ / name, original_[name]);
  }
}

TEST_F(DamagedCheckpoint, DetectsAppendedBytes) {
  for (const auto& [name, bytes] : original_) {
    write_bytes(path_ / name, bytes + '\n');
    EXPECT_EQ(refused(name), name != "view.h5") << name;
    EXPECT_FALSE(verify_checkpoint(path_).empty()) << name;
    write_bytes(path_ / name, bytes);
  }
}

TEST_F(DamagedCheckpoint, DetectsSwappedFiles) {
  for (const auto& [name, bytes] : original_) {
    // Files of this checkpoint, then of another with equal shapes.
    for (const auto& [other, content] : original_)
      if (other != name) {
        write_bytes(path_ / name, content);
        EXPECT_EQ(refused(name), name != "view.h5") << name << " replaced by " << other;
        EXPECT_FALSE(verify_checkpoint(path_).empty()) << name << " replaced by " << other;
      }
    write_bytes(path_ / name, read_bytes(other_ / name));
    EXPECT_EQ(refused(name), name != "view.h5") << name;
    // Views of equal layouts differ only in the step that they contain.
    EXPECT_FALSE(verify_checkpoint(path_).empty()) << name;
    write_bytes(path_ / name, bytes);
  }
}

TEST_F(DamagedCheckpoint, ReportsMissingFiles) {
  for (const auto& [name, bytes] : original_) {
    std::filesystem::remove(path_ / name);
    const auto problems = verify_checkpoint(path_);
    ASSERT_EQ(problems.size(), 1u) << name;
    EXPECT_EQ(problems[0].message, (path_ / name).string() + ": no such file");
    EXPECT_EQ(problems[0].prevents_reading, name != "view.h5");
    EXPECT_EQ(refused(name), name != "view.h5") << name;
    write_bytes(path_ / name, bytes);
  }
}

TEST_F(DamagedCheckpoint, RejectsNonRegularFiles) {
  for (const auto& [name, bytes] : original_) {
    if (name == "view.h5") continue;
    std::filesystem::remove(path_ / name);
    std::filesystem::create_symlink(other_ / name, path_ / name);
    EXPECT_TRUE(refused(name + " as a symbolic link"));
    std::filesystem::remove(path_ / name);
    std::filesystem::create_directory(path_ / name);
    EXPECT_TRUE(refused(name + " as a directory"));
    std::filesystem::remove(path_ / name);
    ASSERT_EQ(mkfifo((path_ / name).c_str(), 0600), 0);
    EXPECT_TRUE(refused(name + " as a pipe"));
    std::filesystem::remove(path_ / name);
    write_bytes(path_ / name, bytes);
  }
}

TEST_F(DamagedCheckpoint, VerifyReportsEveryCorruptOrUnexpectedFile) {
  for (const char* name : {"rank-00000.h5", "rank-00002.h5", "view.h5"}) {
    std::string bytes = original_[name];
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_bytes(path_ / name, bytes);
  }
  write_bytes(path_ / "rank-00003.h5", "something");
  const auto problems = verify_checkpoint(path_);
  ASSERT_EQ(problems.size(), 4u);
  EXPECT_NE(problems[0].message.find("rank-00000.h5"), std::string::npos);
  EXPECT_NE(problems[1].message.find("rank-00002.h5"), std::string::npos);
  EXPECT_NE(problems[2].message.find("view.h5"), std::string::npos);
  EXPECT_EQ(problems[3].message,
            (path_ / "rank-00003.h5").string() + ": unexpected file in the checkpoint");
  EXPECT_TRUE(problems[0].prevents_reading && problems[1].prevents_reading);
  EXPECT_FALSE(problems[2].prevents_reading || problems[3].prevents_reading);
}

TEST_F(DamagedCheckpoint, ReportsReadProgressAndStopsOnRequest) {
  std::int64_t read = 0;
  EXPECT_TRUE(verify_checkpoint(path_, {}, {}, [&](std::int64_t bytes) { read += bytes; }).empty());
  std::int64_t expected = 0;
  for (const auto& [name, bytes] : original_)
    if (name.starts_with("rank-")) expected += static_cast<std::int64_t>(bytes.size());
  for (const StateTensor& tensor : state_.tensors)
    expected += static_cast<std::int64_t>(tensor.tensor.byte_size());
  EXPECT_EQ(read, expected);
  const ReadProgress stopping = [](std::int64_t) {
    throw Error(ExitCode::stopped, "asked to stop");
  };
  EXPECT_EQ(message_of<Error>([&] { verify_checkpoint(path_, {}, {}, stopping); }),
            "asked to stop");
  EXPECT_EQ(
      message_of<Error>([&] { latest_valid_checkpoint(directory_.path(), {}, {}, stopping); }),
      "asked to stop");
}

TEST_F(DamagedCheckpoint, DetectsRenamedStep) {
  std::filesystem::rename(path_, directory_.path() / "step-000000009");
  EXPECT_EQ(verify_checkpoint(directory_.path() / "step-000000009").size(), 1u);
  // Names that are not step names are valid.
  std::filesystem::rename(directory_.path() / "step-000000009", directory_.path() / "best");
  EXPECT_TRUE(verify_checkpoint(directory_.path() / "best").empty());
  EXPECT_TRUE(verify_checkpoint(directory_.path() / "best/").empty());
}

TEST_F(DamagedCheckpoint, ReportsMissingDirectory) {
  EXPECT_EQ(message_of<DataError>([&] { Checkpoint::open(directory_.path() / "none"); }),
            (directory_.path() / "none").string() + ": no such directory");
  EXPECT_EQ(verify_checkpoint(directory_.path() / "none").size(), 1u);
}

}  // namespace
}  // namespace longspan::testing::damage_test
