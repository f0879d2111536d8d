// Reads, writes and rejects safetensors files.
#include <sys/resource.h>

#include <ctime>
#include <limits>

#include "tests/interop/safetensors_file.h"
#include "tests/support/sanitizers.h"

namespace longspan::testing::safetensors_test {
namespace {

class Safetensors : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "model.safetensors"; }
  std::string refusal(const std::string& bytes) const {
    write_bytes(path(), bytes);
    const std::string message = refusal_of([&] { SafetensorsFile file(path()); });
    const std::string prefix = path().string() + ": ";
    EXPECT_TRUE(message.starts_with(prefix)) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_LT(message.size(), prefix.size() + 400);
    return message.substr(std::min(prefix.size(), message.size()));
  }
  std::string refusal_of_header(const std::string& header, std::size_t bytes = 0) const {
    return refusal(file_of(header, std::string(bytes, 'x')));
  }
  std::vector<float> values(const std::string& name) const {
    const Tensor tensor = SafetensorsFile(path()).read(name);
    const auto span = tensor.span<float>();
    return {span.begin(), span.end()};
  }

  TemporaryDirectory directory_;
};

TEST_F(Safetensors, ReadsEveryFloatDType) {
  const std::string header = R"({"__metadata__":{"format":"pt"},)"
                             R"("wide":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
                             R"("plain":{"dtype":"F32","shape":[1,2],"data_offsets":[16,24]},)"
                             R"("brain":{"dtype":"BF16","shape":[2,1],"data_offsets":[24,28]},)"
                             R"("half":{"dtype":"F16","shape":[2],"data_offsets":[28,32]},)"
                             R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[32,32]},)"
                             R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[32,36]},)"
                             R"("mask":{"dtype":"BOOL","shape":[3],"data_offsets":[36,39]}}   )";
  write_bytes(path(),
              file_of(header,
                      bytes_of<double>({0.1, -3}) + bytes_of<float>({0.25F, 1e-40F}) +
                          bytes_of<std::uint16_t>({0x3f80, 0xc040}) +
                          bytes_of<std::uint16_t>({0x3c00, 0x0001}) + bytes_of<float>({7}) +
                          std::string(3, '\1')));
  EXPECT_EQ(values("wide"), (std::vector<float>{0.1F, -3}));
  EXPECT_EQ(values("plain"), (std::vector<float>{0.25F, 1e-40F}));
  EXPECT_EQ(values("brain"), (std::vector<float>{1, -3}));
  EXPECT_EQ(values("half"), (std::vector<float>{1, 0x1p-24F}));
  EXPECT_EQ(values("none"), std::vector<float>{});
  EXPECT_EQ(values("scalar"), std::vector<float>{7});
  const SafetensorsFile file(path());
  EXPECT_EQ(file.read("plain").shape(), (Shape{1, 2}));
  EXPECT_EQ(file.read("none").shape(), (Shape{0, 7}));
  EXPECT_EQ(
      refusal_of([&] { file.read("mask"); }),
      path().string() + ": tensor \"mask\": expected dtype F64, F32, BF16 or F16, found BOOL");
  EXPECT_EQ(refusal_of([&] { file.read("other"); }),
            path().string() + ": no such tensor \"other\"");
}

TEST_F(Safetensors, RejectsValuesBeyondFloat32) {
  write_bytes(path(),
              file_of(R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})",
                      bytes_of<double>({1, 1e300})));
  EXPECT_EQ(refusal_of([&] { values("a"); }),
            path().string() + ": tensor \"a\": 1e+300 is too large for float32");
}

TEST_F(Safetensors, WriterRoundTripsBitwise) {
  const std::vector<float> numbers = {1, -0.0F, 1e-45F, 3.4e38F, 0.1F, 65504};
  const Tensor tensor = Tensor::from<float>(numbers, {2, 3}, Device::cpu());
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::filesystem::remove(path());
    SafetensorsWriter writer(path(), {{"a", {2, 3}}, {"b", {6}}}, dtype);
    writer.write("a", tensor);
    writer.write("b", tensor.reshape({6}));
    writer.finish();
    for (const char* name : {"a", "b"})
      EXPECT_EQ(bytes_of(values(name)), bytes_of(numbers)) << name << name_of(dtype);
    EXPECT_EQ(SafetensorsFile(path()).tensors().at("a").shape, (std::vector<std::int64_t>{2, 3}));
  }
}

TEST_F(Safetensors, RoundsNarrowDTypesOnce) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    std::vector<float> numbers = {1, 1.00390625F, 0.1F, -65504, 0x1p-24F, 0};
    std::vector<std::vector<float>> rounds;
    for (int round = 0; round < 2; ++round) {
      std::filesystem::remove(path());
      SafetensorsWriter writer(path(), {{"a", {6}}}, dtype);
      writer.write("a", Tensor::from<float>(numbers, {6}, Device::cpu()));
      writer.finish();
      EXPECT_EQ(std::filesystem::file_size(path()) % 4, 0U);
      rounds.push_back(numbers = values("a"));
    }
    EXPECT_EQ(rounds[0], rounds[1]);
    EXPECT_EQ(rounds[0][1], dtype == DType::bf16 ? 1 : 1.00390625F);
  }
}

TEST_F(Safetensors, RejectsOverflowInNarrowDTypes) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Tensor large = Tensor::from<float>(std::vector<float>{infinity, 65520}, {2}, Device::cpu());
  SafetensorsWriter writer(path(), {{"a", {2}}}, DType::f16);
  EXPECT_EQ(refusal_of([&] { writer.write("a", large); }),
            "tensor \"a\": element 1 (65520) is too large for F16");
}

TEST_F(Safetensors, RejectsInvalidFiles) {
  EXPECT_EQ(refusal(""), "is empty");
  EXPECT_EQ(refusal("1234567"), "expected a safetensors file, found 7 bytes");
  EXPECT_EQ(refusal(length_text(3) + "{}"),
            "is truncated or not a safetensors file: header of 3 bytes, 2 bytes left in the file");
  EXPECT_EQ(refusal(length_text(UINT64_MAX) + "{}"),
            "is truncated or not a safetensors file: header of 18446744073709551615 bytes, 2 bytes "
            "left in the file");
  EXPECT_EQ(refusal_of_header(""), "invalid JSON in the header at byte 1");
  EXPECT_EQ(refusal_of_header("{}x"), "invalid JSON in the header at byte 3");
  EXPECT_EQ(refusal_of_header("[]"), "header: expected an object, found a list");
  EXPECT_EQ(refusal_of_header("3"), "header: expected an object, found 3");
  EXPECT_EQ(refusal_of_header("{}", 1), "1 unused bytes after the last tensor");
  EXPECT_NE(refusal_of([&] {
              SafetensorsFile file(directory_.path());
            }).find(directory_.path().string() + ": expected a regular file, found a directory"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] {
              SafetensorsFile file(directory_.path() / "no");
            }).find("cannot be opened for reading"),
            std::string::npos);
}

TEST_F(Safetensors, RejectsInvalidEntries) {
  const auto entry = [&](const std::string& text, std::size_t bytes = 4) {
    return refusal_of_header("{\"a\":" + text + "}", bytes);
  };
  EXPECT_EQ(entry("1"), "tensor \"a\": expected an object, found 1");
  EXPECT_EQ(entry("[1]"), "tensor \"a\": expected an object, found a list");
  EXPECT_EQ(entry("{}"), "tensor \"a\": missing \"dtype\", \"shape\" or \"data_offsets\"");
  EXPECT_EQ(entry(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})"),
            "tensor \"a\": unknown dtype \"F33\"");
  EXPECT_EQ(entry(R"({"dtype":32,"shape":[1],"data_offsets":[0,4]})"),
            "tensor \"a\": \"dtype\": expected a dtype name, found 32");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"),
            "tensor \"a\": \"shape\": expected integers of at least 0, found -1");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})"),
            "tensor \"a\": \"shape\": expected integers of at least 0, found 1.5");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[[1]],"data_offsets":[0,4]})"),
            "tensor \"a\": \"shape\": expected integers of at least 0, found a list");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":{"a":1},"data_offsets":[0,4]})"),
            "tensor \"a\": \"shape\": expected integers of at least 0, found an object");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})"),
            "tensor \"a\": \"shape\": expected integers of at least 0, found 1");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})"),
            "tensor \"a\": \"data_offsets\": expected 2 numbers, found 3");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})"),
            "tensor \"a\": expected \"dtype\", \"shape\" and \"data_offsets\", found \"x\"");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]})"),
            "tensor \"a\": duplicate \"shape\"");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"),
            "tensor \"a\": expected 8 bytes for F32 of shape [2], found offsets 0 to 4");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"),
            "tensor \"a\": expected 4 bytes for F32 of shape [1], found offsets 4 to 0");
  // 2^62 elements of 4 bytes: the byte count wraps to 0 in 64 bits.
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[2147483648,2147483648],"data_offsets":[0,0]})", 0),
            "tensor \"a\": shape overflows");
  EXPECT_EQ(entry(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})"),
            "tensor \"a\": \"shape\": expected at most 2^60, found 18446744073709551615");
  EXPECT_EQ(refusal_of_header(R"({"__metadata__":{"format":1}})"),
            "tensor \"__metadata__\": expected a string, found 1");
}

TEST_F(Safetensors, RejectsGapsAndOverlaps) {
  const auto two = [&](const std::string& first, const std::string& second, std::size_t bytes) {
    return refusal_of_header(fmt::format(R"({{"a":{{"dtype":"F32","shape":[1],"data_offsets":{}}},)"
                                         R"("b":{{"dtype":"F32","shape":[1],"data_offsets":{}}}}})",
                                         first,
                                         second),
                             bytes);
  };
  EXPECT_EQ(two("[0,4]", "[0,4]", 4),
            "tensor \"b\": begins at byte 0, within the previous tensor, which ends at 4");
  EXPECT_EQ(two("[2,6]", "[0,4]", 6),
            "tensor \"a\": begins at byte 2, within the previous tensor, which ends at 4");
  EXPECT_EQ(
      two("[0,4]", "[8,12]", 12),
      "tensor \"b\": begins at byte 8, with a gap after the previous tensor, which ends at 4");
  EXPECT_EQ(
      two("[4,8]", "[8,12]", 12),
      "tensor \"a\": begins at byte 4, with a gap after the previous tensor, which ends at 0");
  EXPECT_EQ(two("[0,4]", "[4,8]", 7),
            "tensor \"b\": ends at byte 8, but the file has 7 bytes of elements");
  EXPECT_EQ(two("[0,4]", "[4,8]", 9), "1 unused bytes after the last tensor");
  EXPECT_EQ(refusal_of_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                              8),
            "tensor \"a\": duplicate entry");
}

std::int64_t peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

// Each takes less than a second and little more memory than the bytes read.
TEST_F(Safetensors, RejectsLongHeadersInLittleTimeAndMemory) {
  constexpr std::size_t most = max_header_bytes;
  const auto expect_refusal = [&](const std::string& header, const std::string& refusal) {
    write_bytes(path(), file_of(header));
    const std::int64_t before = peak_megabytes();
    const std::clock_t begin = std::clock();
    EXPECT_EQ(refusal_of([&] { SafetensorsFile file(path()); }), path().string() + ": " + refusal);
    if (sanitized) return;  // slower, and with more memory
    EXPECT_LT(std::clock() - begin, 1 * CLOCKS_PER_SEC) << refusal;
    EXPECT_LT(peak_megabytes() - before, 100) << refusal;
  };
  expect_refusal(std::string(100'000'000, ' '),
                 "expected a header of at most 16777216 bytes, found 100000000");
  expect_refusal(std::string(most, ' '), "invalid JSON in the header at byte 16777217");
  expect_refusal(std::string(most, '['), "header: expected an object, found a list");
  std::string nested;
  for (std::size_t i = 0; i < most / 5; ++i) nested += "{\"a\":";
  expect_refusal(nested,
                 "tensor \"a\": expected \"dtype\", \"shape\" and \"data_offsets\", found \"a\"");
  std::string many = "{";
  for (std::size_t i = 0; many.size() + 70 < most; ++i)
    many += fmt::format(R"("{:x}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}},)", i);
  expect_refusal(many + "\"\":{}}", "header: expected at most 262144 tensors");
}

}  // namespace
}  // namespace longspan::testing::safetensors_test
