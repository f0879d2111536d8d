// Checkpoints crafted to exhaust memory, time or stack of a reader, which must reject them early.
#include <sys/resource.h>

#include <chrono>
#include <ctime>

#include "framework/core/json_bounds.h"
#include "tests/checkpoints/hostile_checkpoint.h"
#include "tests/support/sanitizers.h"

namespace longspan::testing::bounds_test {
namespace {

std::string times(std::int64_t count, const std::string& text) {
  std::string result;
  for (std::int64_t i = 0; i < count; ++i) result += text;
  return result;
}

// Returns the peak resident memory of this process.
std::int64_t peak_bytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * std::int64_t{1024};
}

// Limit of CPU time, since other processes may use the machine.
constexpr std::clock_t quick = (sanitized ? 10 : 2) * CLOCKS_PER_SEC;

class CheckpointLimits : public HostileCheckpoint {
 protected:
  // Returns the error message of a read. Checks its CPU time and memory.
  std::string quick_refusal() {
    const std::int64_t before = peak_bytes();
    const std::clock_t begin = std::clock();
    const std::string text = refusal();
    EXPECT_LT(std::clock() - begin, quick) << text;
    EXPECT_LT(peak_bytes() - before, std::int64_t{100} << 20) << text;
    return text;
  }
};

TEST_F(CheckpointLimits, RejectsDeepNestingWithoutStackOverflow) {
  const std::string deep = times(1'000'000, "[") + times(1'000'000, "]");
  const std::string objects = times(300'000, "{\"a\":") + "1" + times(300'000, "}");
  for (const std::string& value : {deep, objects}) {
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"\"step\": 1", "\"step\": " + value},
             {"\"version\": 1", "\"version\": " + value},
             {"\"scalars\": {}", "\"scalars\": {\"x\": " + value + "}"},
             {"\"offset\":[0,0]", "\"offset\":" + value},
             {"\"format\"", "\"more\": " + value + ", \"format\""}}) {
      edit(from, to);
      EXPECT_NE(quick_refusal().find("values nested more than 32 deep"), std::string::npos);
    }
    write_bytes(path_ / manifest_name, with_manifest_hash(value));
    EXPECT_NE(quick_refusal().find("values nested more than 32 deep"), std::string::npos);
  }
}

TEST_F(CheckpointLimits, TruncatesQuotedValues) {
  const std::string digits = times(5'000'000, "7");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"step\": 1", "\"step\": " + digits},
           {"\"step\": 1", "\"step\": \"" + digits + "\""},
           {"\"step\": 1", "\"step\": tru" + digits},
           {"\"version\": 1", "\"version\": \"" + digits + "\""},
           {"\"run_id\": \"run\"", "\"run_id\": \"" + digits + "\""},
           {"\"name\":\"rank-00000.h5\"", "\"name\":\"" + digits + "\""},
           {"\"name\":\"view.h5\"", "\"name\":\"" + digits + "\""},
           {"\"dataset\":\"weight\"", "\"dataset\":\"" + digits + "\""},
           {"\"dtype\":\"f32\"", "\"dtype\":\"" + digits + "\""},
           {"\"weight\": {", "\"" + digits + "\": {"},
           {"\"weight\": {", "\"a/" + digits + "\": {"},
           {"\"hash\":\"", "\"hash\":\"" + digits},
           {"\"scalars\": {}", "\"scalars\": {\"" + digits + "\": null}"},
           {"\"scalars\": {}", "\"scalars\": {\"x\": {\"f64\": \"" + digits + "\"}}"}}) {
    edit(from, to);
    const std::string found = quick_refusal();
    EXPECT_TRUE(found.starts_with("manifest.json: ")) << found;
    EXPECT_LT(found.size(), 400u) << found.substr(0, 400);
  }
}

TEST_F(CheckpointLimits, RejectsSparseManifest) {
  std::filesystem::resize_file(path_ / manifest_name, std::uintmax_t{1} << 30);
  EXPECT_NE(quick_refusal().find("invalid JSON: byte "), std::string::npos);
  std::filesystem::resize_file(path_ / manifest_name, 0);
  std::filesystem::resize_file(path_ / manifest_name, std::uintmax_t{1} << 30);
  EXPECT_EQ(quick_refusal(), "manifest.json: invalid JSON: byte 1 is 0x00");
  std::filesystem::resize_file(path_ / manifest_name, (std::uintmax_t{1} << 30) + 1);
  EXPECT_NE(quick_refusal().find("expected at most 1073741824 bytes, found 1073741825"),
            std::string::npos);
}

TEST_F(CheckpointLimits, RejectsManifestWithManyBlanksOrValues) {
  const std::string text = read_bytes(path_ / manifest_name);
  write_bytes(path_ / manifest_name, std::string(20'000'000, ' ') + text);
  EXPECT_NE(quick_refusal().find("of the first 131073 bytes are whitespace"), std::string::npos);
  edit("\"scalars\": {}", "\"scalars\": {}" + std::string(20'000'000, '\n'));
  EXPECT_NE(quick_refusal().find("bytes are whitespace"), std::string::npos);
  edit("\"offset\":[0,0]", "\"offset\":[0" + times(5'000'000, ",0") + "]");
  EXPECT_NE(quick_refusal().find(" values in the first "), std::string::npos);
}

TEST(JsonLimits, AcceptsIndentedText) {
  std::string text = "[";
  for (int i = 0; i < 100'000; ++i) text += "\n    {\"a\": 1, \"file\": \"a text\"},";
  JsonLimits bounds("here");
  EXPECT_NO_THROW(bounds.add(text));
  // Blanks and brackets in a string do not count. An escaped quotation mark does not end it.
  EXPECT_NO_THROW(
      bounds.add("\"" + std::string(1'000'000, ' ') + "\\\"" + std::string(1'000'000, '[') + "\""));
  EXPECT_NO_THROW(bounds.add("12345678901234567890, -1.2345678901234567e-308]"));
}

TEST_F(CheckpointLimits, RejectsFilesMuchLargerThanTheirTensors) {
  for (const char* file : {"rank-00000.h5", "view.h5"}) {
    const std::string name = file;
    const std::uintmax_t size = std::filesystem::file_size(path_ / file);
    std::filesystem::resize_file(path_ / file, std::uintmax_t{40} << 30);
    edit(fmt::format("\"bytes\":{}", size), fmt::format("\"bytes\":{}", std::uintmax_t{40} << 30));
    EXPECT_NE(quick_refusal().find(name + ": expected at most 1114"), std::string::npos);
    std::filesystem::resize_file(path_ / file, size);
  }
}

TEST_F(CheckpointLimits, RejectsHugeTensorsWithoutStoredBytes) {
  constexpr std::int64_t elements = std::int64_t{10} << 30;
  constexpr std::uintmax_t bytes = std::uintmax_t{41} << 30;
  const auto claim = [&] {
    std::filesystem::resize_file(path_ / "rank-00000.h5", bytes);
    manifest_.tensors.at(name).shape = Shape{elements};
    manifest_.tensors.at(name).pieces[0].box = {Shape{elements}, {0}};
    manifest_.files[0].content.bytes = static_cast<std::int64_t>(bytes);
    write_bytes(path_ / manifest_name, manifest_text(manifest_));
  };
  // verify_checkpoint requires no target tensor of that size.
  const auto problem = [&] {
    const auto begin = std::chrono::steady_clock::now();
    const auto problems = verify_checkpoint(path_);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
    return problems.empty() ? "" : problems.front().message;
  };
  claim();
  EXPECT_NE(problem().find("expected shape [10737418240]"), std::string::npos) << problem();
  const auto make_unwritten = [&](hsize_t chunk) {
    make_file([&](hid_t file) {
      const hsize_t extent = elements;
      const hid_t space = H5Screate_simple(1, &extent, nullptr);
      const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
      H5Pset_chunk(layout, 1, &chunk);
      H5Pset_fletcher32(layout);
      const hid_t dataset =
          H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, layout, H5P_DEFAULT);
      add_dtype(dataset, "f32");
      H5Dclose(dataset), H5Pclose(layout), H5Sclose(space);
    });
    claim();
  };
  make_unwritten(1 << 18);
  EXPECT_NE(problem().find("tensor \"weight\": expected 42949836800 stored bytes, found 0"),
            std::string::npos)
      << problem();
  make_unwritten(1);
  EXPECT_NE(problem().find("found 10737418240 chunks in 42949672960 bytes"), std::string::npos)
      << problem();
}

}  // namespace
}  // namespace longspan::testing::bounds_test
