// A small checkpoint that tests rewrite with valid hashes and other content.
#pragma once

#include <hdf5.h>

#include <functional>
#include <string>

#include "checkpoints/manifest.h"
#include "tests/checkpoints/checkpoint_testing.h"

namespace longspan::testing {

inline constexpr const char* name = "weight";

class HostileCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    state_.add(name, random_bits({6, 4}, DType::f32, Random(5)), true);
    path_ = save_checkpoint(directory_.path(), info_of(1), state_, {});
    manifest_ = read_manifest(path_);
  }

  // Rewrites the manifest with the current hash of the rank file.
  void seal() {
    const auto file = path_ / rank_file_name(0);
    manifest_.files[0].content = hash_file(open_regular(file), file);
    std::filesystem::remove(path_ / manifest_name);
    write_text_file(path_ / manifest_name, manifest_text(manifest_));
  }
  // Replaces text of the manifest and updates its hash.
  void edit(const std::string& from, const std::string& to) {
    std::string text = manifest_text(manifest_);
    text.resize(text.rfind(",\n\"manifest_hash\""));
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    write_bytes(path_ / manifest_name, with_manifest_hash(text));
  }
  // Replaces the contents of the rank file by those that f writes, then seals it.
  void make_file(const std::function<void(hid_t)>& f) {
    const auto path = path_ / rank_file_name(0);
    std::filesystem::remove(path);
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    f(file);
    ASSERT_GE(H5Fclose(file), 0);
    seal();
  }
  // Creates a dataset [6, 4] of f32 with the tensor's values. f sets its layout properties.
  void make_dataset(hid_t place,
                    const char* dataset_name,
                    hid_t type,
                    const std::function<void(hid_t)>& f) {
    const hsize_t extents[] = {6, 4};
    const hid_t space = H5Screate_simple(2, extents, nullptr);
    const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
    f(layout);
    const hid_t dataset =
        H5Dcreate2(place, dataset_name, type, space, H5P_DEFAULT, layout, H5P_DEFAULT);
    ASSERT_GE(dataset, 0);
    add_dtype(dataset, "f32");
    H5Dwrite(
        dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, state_.tensors[0].tensor.bytes());
    H5Dclose(dataset), H5Pclose(layout), H5Sclose(space);
  }
  static void add_dtype(hid_t dataset, const char* dtype) {
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, std::strlen(dtype));
    H5Tset_strpad(text, H5T_STR_NULLPAD);
    const hid_t scalar = H5Screate(H5S_SCALAR);
    const hid_t attribute = H5Acreate2(dataset, "dtype", text, scalar, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, text, dtype);
    H5Aclose(attribute), H5Sclose(scalar), H5Tclose(text);
  }
  static void as_ours(hid_t layout) {
    const hsize_t chunk[] = {6, 4};
    H5Pset_chunk(layout, 2, chunk);
    H5Pset_fletcher32(layout);
  }

  // Returns the error message of a read without the checkpoint's path.
  std::string refusal() {
    TrainingState read = blank(state_);
    const std::string text = message_of<DataError>([&] { Checkpoint::open(path_).read(read); });
    EXPECT_FALSE(verify_checkpoint(path_).empty());
    EXPECT_LT(text.size(), 400u) << "a message grows with the file";
    const std::string prefix = path_.string() + "/";
    return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  }

  TemporaryDirectory directory_;
  TrainingState state_;
  std::filesystem::path path_;
  Manifest manifest_;
};

}  // namespace longspan::testing
