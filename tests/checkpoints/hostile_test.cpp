// Checkpoints with valid hashes and invalid content, which a reader must reject.
#include "tests/checkpoints/hostile_checkpoint.h"

namespace longspan::testing::hostile_test {
namespace {

TEST_F(HostileCheckpoint, AcceptsValidThirdPartyFile) {
  make_file([&](hid_t file) { make_dataset(file, name, H5T_IEEE_F32LE, as_ours); });
  TrainingState read = blank(state_);
  Checkpoint::open(path_).read(read);
  expect_equal(read, state_);
  EXPECT_TRUE(verify_checkpoint(path_).empty());
}

// HDF5 verifies the Fletcher32 checksums that the writer computes.
TEST(RankFile, IsReadableByHDF5AtAnySize) {
  const TemporaryDirectory directory;
  TrainingState state;
  for (const std::int64_t bytes : {1, 2, 63, 64, 65, 16384, 16386, 40001, 1048577, 3000001})
    state.add(fmt::format("{}", bytes),
              random_bits({bytes}, DType::u8, Random(static_cast<std::uint64_t>(bytes))),
              true);
  state.add("zeros", Tensor::zeros({100000}, DType::u8, Device::cpu()), true);
  state.add("ones", Tensor::empty({100000}, DType::u8, Device::cpu()), true);
  std::memset(state.tensors.back().tensor.bytes(), 0xff, 100000);
  const auto path = save_checkpoint(directory.path(), info_of(1), state, {});
  const hid_t file = H5Fopen((path / rank_file_name(0)).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  for (const StateTensor& tensor : state.tensors) {
    const hid_t dataset = H5Dopen2(file, tensor.name.c_str(), H5P_DEFAULT);
    std::string found(tensor.tensor.byte_size(), 'x');
    EXPECT_GE(H5Dread(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data()), 0)
        << tensor.name;
    EXPECT_TRUE(found == bytes_of(tensor.tensor)) << tensor.name;
    H5Dclose(dataset);
  }
  H5Fclose(file);
}

TEST_F(HostileCheckpoint, RejectsSoftLinks) {
  make_file([&](hid_t file) {
    make_dataset(file, "other", H5T_IEEE_F32LE, as_ours);
    H5Lcreate_soft("/other", file, name, H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_EQ(refusal(), "rank-00000.h5: \"other\" is not in the manifest");
  make_file([&](hid_t file) { H5Lcreate_soft("/other", file, name, H5P_DEFAULT, H5P_DEFAULT); });
  EXPECT_EQ(refusal(), "rank-00000.h5: \"weight\" is a soft or external link");
}

TEST_F(HostileCheckpoint, RejectsExternalLinks) {
  std::filesystem::copy_file(path_ / "rank-00000.h5", directory_.path() / "secret.h5");
  make_file([&](hid_t file) {
    H5Lcreate_external("../secret.h5", name, file, name, H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_NE(refusal().find("is a soft or external link"), std::string::npos);
}

TEST_F(HostileCheckpoint, VerifyReportsUnexpectedEntries) {
  make_file([&](hid_t file) {
    make_dataset(file, name, H5T_IEEE_F32LE, as_ours);
    make_dataset(file, "hidden", H5T_IEEE_F32LE, as_ours);
    H5Lcreate_external("../secret.h5", name, file, "outside", H5P_DEFAULT, H5P_DEFAULT);
  });
  const auto problems = verify_checkpoint(path_);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_NE(problems[0].message.find("\"hidden\" is not in the manifest"), std::string::npos);
  EXPECT_NE(problems[1].message.find("\"outside\" is a soft or external link"), std::string::npos);
}

TEST_F(HostileCheckpoint, RejectsUnexpectedEntries) {
  using Maker = std::function<void(hid_t)>;
  const auto group = [](hid_t file, const char* path) {
    H5Gclose(H5Gcreate2(file, path, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  };
  const std::vector<std::pair<Maker, std::string>> table = {
      {[&](hid_t file) { make_dataset(file, "hidden", H5T_IEEE_F32LE, as_ours); },
       "\"hidden\" is not in the manifest"},
      {[&](hid_t file) { H5Lcreate_soft("/weight", file, "soft", H5P_DEFAULT, H5P_DEFAULT); },
       "\"soft\" is a soft or external link"},
      {[&](hid_t file) { group(file, "folder"); }, "\"folder\" is not in the manifest"},
      {[&](hid_t file) { H5Lcreate_hard(file, "/", file, "loop", H5P_DEFAULT, H5P_DEFAULT); },
       "\"loop\" is not in the manifest"},
      {[&](hid_t file) { H5Lcreate_hard(file, name, file, "twin", H5P_DEFAULT, H5P_DEFAULT); },
       "\"twin\" is not in the manifest"},
      {[&](hid_t file) {
         const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
         H5Tcommit2(file, "type", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
         H5Tclose(type);
       },
       "\"type\" is not in the manifest"},
      {[&](hid_t file) {
         hid_t place = H5Gopen2(file, "/", H5P_DEFAULT);
         for (int depth = 0; depth < 900; ++depth) {
           const hid_t next = H5Gcreate2(place, "d", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
           H5Gclose(std::exchange(place, next));
         }
         H5Gclose(place);
       },
       "\"d\" is not in the manifest"},
  };
  for (const auto& [add, expected] : table) {
    make_file([&, &add = add](hid_t file) {
      make_dataset(file, name, H5T_IEEE_F32LE, as_ours);
      add(file);
    });
    EXPECT_NE(refusal().find("rank-00000.h5: " + expected), std::string::npos)
        << refusal() << "\n  instead of " << expected;
  }
}

TEST_F(HostileCheckpoint, RejectsGroupWithTwoNames) {
  state_.tensors.clear();
  for (const char* tensor : {"a/weight", "b/weight"})
    state_.add(tensor, random_bits({6, 4}, DType::f32, Random(5)), true);
  path_ = save_checkpoint(directory_.path(), info_of(2), state_, {});
  manifest_ = read_manifest(path_);
  make_file([&](hid_t file) {
    H5Gclose(H5Gcreate2(file, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    make_dataset(file, "a/weight", H5T_IEEE_F32LE, as_ours);
    H5Lcreate_hard(file, "a", file, "b", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_EQ(refusal(), "rank-00000.h5: \"a\" has several names");
}

// Damaged files with matching hashes reach the HDF5 parser.
TEST_F(HostileCheckpoint, SurvivesRandomDamageWithValidHashes) {
  state_ = small_state();
  path_ = save_checkpoint(directory_.path(), info_of(3), state_, {});
  manifest_ = read_manifest(path_);
  const std::string original = read_bytes(path_ / rank_file_name(0));
  int refused = 0;
  for (std::uint64_t round = 0; round < 200; ++round) {
    const Random random = Random(31).child(round);
    std::string bytes = original;
    const auto word = [&](std::uint64_t index) { return std::size_t{random.word(index)}; };
    // Every third round changes runs of bytes. Odd rounds change only the first 256 bytes.
    const std::size_t length = round % 3 == 0 ? 1 + word(0) % 64 : 1;
    for (std::uint64_t change = 0; change < 1 + word(1) % 6; ++change) {
      const std::size_t within = round % 2 == 0 ? bytes.size() : 256;
      const std::size_t at = word(10 + change) % within;
      for (std::size_t i = at; i < std::min(at + length, bytes.size()); ++i)
        bytes[i] = static_cast<char>(word(1000 + i));
    }
    if (round % 5 == 4) bytes.resize(word(2) % bytes.size());
    write_bytes(path_ / rank_file_name(0), bytes);
    manifest_.files[0].content = {static_cast<std::int64_t>(bytes.size()), hash_of(bytes)};
    write_bytes(path_ / manifest_name, manifest_text(manifest_));
    TrainingState read = blank(state_);
    try {
      Checkpoint::open(path_).read(read);
      expect_equal(read, state_);
    } catch (const DataError&) {
      ++refused;
    }
    verify_checkpoint(path_);
  }
  EXPECT_GT(refused, 150);
}

TEST_F(HostileCheckpoint, TruncatesListOfUnexpectedTensors) {
  make_file([&](hid_t file) {
    make_dataset(file, name, H5T_IEEE_F32LE, as_ours);
    for (int i = 0; i < 500; ++i)
      H5Lcreate_soft("/", file, fmt::format("link{}", i).c_str(), H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_EQ(verify_checkpoint(path_).size(), 20u);
}

TEST_F(HostileCheckpoint, RejectsVirtualDatasets) {
  std::filesystem::copy_file(path_ / "rank-00000.h5", path_ / "other.h5");
  make_file([&](hid_t file) {
    make_dataset(file, name, H5T_IEEE_F32LE, [](hid_t layout) {
      const hsize_t extents[] = {6, 4};
      const hid_t space = H5Screate_simple(2, extents, nullptr);
      H5Pset_virtual(layout, space, "other.h5", name, space);
      H5Sclose(space);
    });
  });
  EXPECT_EQ(refusal(),
            "rank-00000.h5: tensor \"weight\": expected a chunked layout, found virtual");
}

TEST_F(HostileCheckpoint, RejectsExternalStorage) {
  const std::string raw = (directory_.path() / "raw").string();
  make_file([&](hid_t file) {
    make_dataset(file, name, H5T_IEEE_F32LE, [&](hid_t layout) {
      H5Pset_external(layout, raw.c_str(), 0, 96);
    });
  });
  EXPECT_NE(refusal().find("found contiguous or external"), std::string::npos);
}

TEST_F(HostileCheckpoint, RejectsCompactLayout) {
  make_file([&](hid_t file) {
    make_dataset(
        file, name, H5T_IEEE_F32LE, [](hid_t layout) { H5Pset_layout(layout, H5D_COMPACT); });
  });
  EXPECT_NE(refusal().find("found compact"), std::string::npos);
}

TEST_F(HostileCheckpoint, RejectsOtherFilters) {
  make_file([&](hid_t file) {
    make_dataset(file, name, H5T_IEEE_F32LE, [](hid_t layout) {
      as_ours(layout);
      H5Pset_shuffle(layout);
    });
  });
  EXPECT_NE(refusal().find("expected Fletcher32 as the only filter"), std::string::npos);
  make_file([&](hid_t file) {
    make_dataset(file, name, H5T_IEEE_F32LE, [](hid_t layout) {
      const hsize_t chunk[] = {6, 4};
      H5Pset_chunk(layout, 2, chunk);
    });
  });
  EXPECT_NE(refusal().find("expected Fletcher32 as the only filter"), std::string::npos);
}

TEST_F(HostileCheckpoint, RejectsOtherTypesAndShapes) {
  make_file([&](hid_t file) { make_dataset(file, name, H5T_IEEE_F32BE, as_ours); });
  EXPECT_NE(refusal().find("expected the storage type of f32"), std::string::npos);
  make_file([&](hid_t file) { make_dataset(file, name, H5T_IEEE_F32LE, as_ours); });
  manifest_.tensors.at(name).shape = Shape{4, 6};
  manifest_.tensors.at(name).pieces[0].box.shape = Shape{4, 6};
  seal();
  state_.tensors[0].global_shape = Shape{4, 6};
  state_.tensors[0].tensor = state_.tensors[0].tensor.reshape({4, 6});
  EXPECT_NE(refusal().find("expected shape [4, 6]"), std::string::npos);
}

TEST_F(HostileCheckpoint, DetectsChangedElement) {
  state_.tensors[0].tensor.data<float>()[7] = 1;
  make_file([&](hid_t file) { make_dataset(file, name, H5T_IEEE_F32LE, as_ours); });
  EXPECT_NE(refusal().find("hash differs from the manifest"), std::string::npos);
}

TEST_F(HostileCheckpoint, ReportsMissingDataset) {
  make_file([](hid_t) {});
  EXPECT_NE(refusal().find("rank-00000.h5: tensor \"weight\": cannot find the link"),
            std::string::npos);
}

TEST_F(HostileCheckpoint, RejectsInvalidManifests) {
  const std::vector<std::array<std::string, 3>> table = {
      {"\"format\": \"longspan checkpoint\"", "\"format\": \"other\"", "not a manifest of"},
      {"\"version\": 1", "\"version\": 2", "expected format version 1, found 2"},
      {"\"step\": 1", "\"step\": -1", "step: expected an integer from 0 to 999999999, found -1"},
      {"\"step\": 1", "\"step\": 1.0", "expected an integer from 0 to 999999999, found 1.0"},
      {"\"step\": 1", "\"step\": 18446744073709551615", "found 18446744073709551615"},
      {"\"step\": 1", "\"steps\": 1", "missing \"step\""},
      {"\"step\": 1", "\"step\": 1,", "invalid JSON"},
      {"\"data\": 1", "\"data\": 2", "expected one for each of 2 ranks, found 1"},
      {"\"data\": 1, \"context\": 1", "\"data\": 99999, \"context\": 99999", "at most 99999 ranks"},
      {"\"name\":\"rank-00000.h5\"",
       "\"name\":\"../secret.h5\"",
       "expected \"rank-00000.h5\", found \"../secret.h5\""},
      {"\"name\":\"view.h5\"", "\"name\":\"/etc/passwd\"", "found \"/etc/passwd\""},
      {"\"weight\": {", "\"../weight\": {", "invalid name component \"..\""},
      {"\"weight\": {", "\"a//weight\": {", "invalid name component \"\""},
      {"\"weight\": {", "\"we ight\": {", "letters, digits"},
      {"\"dataset\":\"weight\"", "\"dataset\":\"/weight\"", "unexpected dataset"},
      {"\"dataset\":\"weight\"", "\"dataset\":\"weight@01\"", "unexpected dataset"},
      {"\"file\":0", "\"file\":1", "expected an integer from 0 to 0, found 1"},
      {"\"offset\":[0,0]", "\"offset\":[1,0]", "is not within [6, 4]"},
      {"\"offset\":[0,0]", "\"offset\":[0]", "is not within [6, 4]"},
      {"\"offset\":[0,0]",
       "\"offset\":[0,\"0\"]",
       "expected an integer from 0 to 72057594037927936, found \"0\""},
      {"\"shape\":[6,4]}],", "\"shape\":[5,4]}],", "no piece covers 4 of its 24 elements"},
      {"\"shape\":[6,4]}],\"shape\":[6,4]",
       "\"shape\":[72057594037927936,1]}],\"shape\":[72057594037927936,1]",
       "pieces exceed rank-00000.h5"},
      {"\"shape\":[6,4]}],\"shape\":[6,4]",
       "\"shape\":[6,4]}],\"shape\":[4294967296,4294967296]",
       "at most 2^56 elements"},
      {"\"shape\":[6,4]}],\"shape\":[6,4]",
       "\"shape\":[6,4]}],\"shape\":[1,1,1,1,1,6,4]",
       "at most 6 dimensions"},
      {"\"dtype\":\"f32\"", "\"dtype\":\"f31\"", "tensor \"weight\": unknown dtype \"f31\""},
      {"\"pieces\":[{", "\"pieces\":[[],{", "expected an object, found an array"},
      {"\"tensors\": {", "\"tensors\": [{", "invalid JSON"},
      {"\"scalars\": {}",
       "\"scalars\": {\"x\": null}",
       "scalar \"x\": expected an integer from -9223372036854775808 to 9223372036854775807, found "
       "null"},
      {"\"scalars\": {}", "\"scalars\": {\"x\": {\"f64\": \"3FF\"}}", "16 hexadecimal digits"},
  };
  for (const auto& [from, to, expected] : table) {
    edit(from, to);
    const std::string found = refusal();
    EXPECT_NE(found.find(expected), std::string::npos) << to << "\n  gave: " << found;
    EXPECT_TRUE(found.starts_with("manifest.json: ")) << found;
  }
}

TEST_F(HostileCheckpoint, RejectsOverlappingPieces) {
  auto& pieces = manifest_.tensors.at(name).pieces;
  pieces.push_back(pieces[0]);
  pieces[1].dataset = "weight@1";
  pieces[1].box = {Shape{1, 4}, {5, 0}};
  seal();
  EXPECT_EQ(refusal(),
            "manifest.json: tensor \"weight\": pieces [6, 4] at [0, 0] and [1, 4] at [5, 0] "
            "overlap");
  pieces[0].box = {Shape{5, 4}, {0, 0}};
  pieces[1].dataset = "weight";
  seal();
  EXPECT_NE(refusal().find("duplicate dataset \"weight\" of rank-00000.h5"), std::string::npos);
}

TEST_F(HostileCheckpoint, SuppressesHDF5Output) {
  ::testing::internal::CaptureStderr();
  make_file([](hid_t) {});
  refusal();
  write_bytes(path_ / "rank-00000.h5", std::string(4096, 'x'));
  seal();
  EXPECT_NE(refusal().find("cannot open the file"), std::string::npos);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace longspan::testing::hostile_test
