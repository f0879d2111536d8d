// Weights in one file or in shards with an index.
#include "tests/interop/safetensors_file.h"

namespace longspan::testing::weights_folder_test {
namespace {

class WeightsFolderTest : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name = "") const {
    return directory_.path() / name;
  }
  void write_shard(const std::string& name, const std::string& tensor, float value) const {
    write_bytes(path(name),
                file_of("{\"" + tensor + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                        bytes_of<float>({value})));
  }
  void write_index(const std::string& map) const {
    write_bytes(path(index_name), R"({"metadata":{"total_size":8},"weight_map":)" + map + "}");
  }
  // The error for two shards that hold "a" and "b", with this index.
  std::string refusal(const std::string& index) const {
    write_shard("one.safetensors", "a", 1);
    write_shard("two.safetensors", "b", 2);
    write_bytes(path(index_name), index);
    const std::string message = refusal_of([&] { WeightsFolder folder(path()); });
    const std::string prefix = path(index_name).string() + ": ";
    EXPECT_TRUE(message.starts_with(prefix)) << message;
    return message.substr(std::min(prefix.size(), message.size()));
  }

  TemporaryDirectory directory_;
};

TEST_F(WeightsFolderTest, ReadsShardsFromIndex) {
  write_shard("one.safetensors", "a", 1);
  write_shard("two.safetensors", "b", 2);
  write_index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  const WeightsFolder folder(path());
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(folder.read("a").span<float>()[0], 1);
  EXPECT_EQ(folder.read("b").span<float>()[0], 2);
  EXPECT_EQ(folder.find("c"), nullptr);
  // Symbolic links, as in the Hugging Face cache.
  std::filesystem::rename(path("one.safetensors"), path("blob"));
  std::filesystem::create_symlink("blob", path("one.safetensors"));
  EXPECT_EQ(WeightsFolder(path()).read("a").span<float>()[0], 1);
}

TEST_F(WeightsFolderTest, RejectsInvalidIndex) {
  const auto map = [&](const std::string& text) {
    return refusal(R"({"weight_map":)" + text + "}");
  };
  EXPECT_EQ(map(R"({"a":"two.safetensors","b":"two.safetensors"})"),
            "tensor \"a\" is missing in two.safetensors");
  EXPECT_EQ(map(R"({"a":"one.safetensors","a":"two.safetensors"})"), "duplicate tensor \"a\"");
  EXPECT_EQ(map(R"({"a":"../one.safetensors"})"),
            "tensor \"a\": expected the name of a file in this directory, found "
            "\"../one.safetensors\"");
  EXPECT_EQ(map("[]"), "\"weight_map\": expected a file name for each tensor, found a list");
  EXPECT_EQ(map(R"({"a":1})"),
            "\"weight_map\": expected a file name for each tensor, found a number");
  EXPECT_EQ(map(R"({"a":{"b":{}}})"), "objects are nested too deep");
  EXPECT_EQ(refusal("{}"), "missing \"weight_map\"");
  EXPECT_EQ(refusal("3"), "expected an object, found a number");
  EXPECT_EQ(refusal("{"), "invalid JSON at byte 2");
}

TEST_F(WeightsFolderTest, RejectsUnprintableAndLongFileNames) {
  for (const std::string& name :
       {std::string("a\\n"), std::string("\\u001b[2J"), std::string(300, 'a')}) {
    write_index(R"({"a":")" + name + R"("})");
    const std::string message = refusal_of([&] { WeightsFolder folder(path()); });
    EXPECT_NE(message.find("expected the name of a file in this directory"), std::string::npos);
    EXPECT_EQ(message.find_first_of("\n\x1b"), std::string::npos);
    EXPECT_LT(message.size(), path().string().size() + 400);
  }
}

TEST_F(WeightsFolderTest, RejectsTensorsMissingFromIndex) {
  write_bytes(path("one.safetensors"),
              file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                      bytes_of<float>({1, 2})));
  write_index(R"({"a":"one.safetensors"})");
  EXPECT_EQ(refusal_of([&] { WeightsFolder folder(path()); }),
            path(index_name).string() +
                ": tensor \"b\" is in one.safetensors, but the index does not list it");
}

TEST_F(WeightsFolderTest, RequiresExactlyOneWeightsFormat) {
  EXPECT_EQ(refusal_of([&] { WeightsFolder folder(path()); }),
            path().string() + ": expected model.safetensors or model.safetensors.index.json");
  write_bytes(path("pytorch_model.bin"), "x");
  EXPECT_NE(refusal_of([&] {
              WeightsFolder folder(path());
            }).find("found pytorch_model.bin; save the model as safetensors"),
            std::string::npos);
  write_shard("model.safetensors", "a", 1);
  EXPECT_EQ(WeightsFolder(path()).read("a").span<float>()[0], 1);
  write_index("{}");
  EXPECT_EQ(refusal_of([&] { WeightsFolder folder(path()); }),
            path().string() +
                ": expected model.safetensors or model.safetensors.index.json, found both; delete "
                "one");
}

TEST_F(WeightsFolderTest, WriterRespectsMaxShardSize) {
  const SafetensorsWriter::Tensors tensors = {{"a", {2}}, {"b", {1}}, {"c", {5}}, {"d", {1}}};
  for (const auto& [most, files] :
       {std::pair{12, 3}, std::pair{36, 1}, std::pair{35, 2}, std::pair{1, 4}}) {
    const TemporaryDirectory directory;
    WeightsFolderWriter writer(directory.path(), tensors, DType::f32, most);
    for (const auto& [name, shape] : tensors)
      writer.write(name,
                   Tensor::from<float>(std::vector<float>(static_cast<std::size_t>(shape[0]), 3),
                                       {shape[0]},
                                       Device::cpu()));
    writer.finish();
    const WeightsFolder folder(directory.path());
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"a", "b", "c", "d"}));
    EXPECT_EQ(folder.read("c").elements(), 5);
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
      found += entry.path().extension() == ".safetensors" ? 1 : 0;
    EXPECT_EQ(found, files) << most;
  }
}

}  // namespace
}  // namespace longspan::testing::weights_folder_test
