#include <bit>
#include <cmath>
#include <limits>

#include "tests/checkpoints/checkpoint_testing.h"

namespace longspan::testing::round_trip_test {
namespace {

TEST(Checkpoint, KeepsEveryDtypeBitwise) {
  const TemporaryDirectory directory;
  const TrainingState state = small_state();
  const auto path = save_checkpoint(directory.path(), info_of(500), state, {});
  EXPECT_EQ(path, directory.path() / "step-000000500");
  EXPECT_TRUE(verify_checkpoint(path).empty());

  TrainingState read = blank(state);
  Checkpoint::open(path).read(read);
  expect_equal(read, state);
}

TEST(Checkpoint, KeepsSpecialFloats) {
  const TemporaryDirectory directory;
  const std::vector<std::uint64_t> bits = {0x8000000000000000u,
                                           0x7ff0000000000001u,  // signaling NaN
                                           0xfff8dead0000beefu,  // quiet NaN with a payload
                                           0x7ff0000000000000u,
                                           0x0000000000000001u};  // smallest subnormal
  std::vector<double> values;
  for (const auto word : bits) values.push_back(std::bit_cast<double>(word));
  TrainingState state;
  state.add("values", Tensor::from<double>(values, {5}, Device::cpu()), true);
  const auto path = save_checkpoint(directory.path(), info_of(0), state, {});
  TrainingState read = blank(state);
  Checkpoint::open(path).read(read);
  expect_equal(read, state);
}

TEST(Checkpoint, KeepsScalarsBitwise) {
  const TemporaryDirectory directory;
  TrainingState state;
  const std::vector<std::uint64_t> bits = {0x3fd3333333333334u,
                                           0x8000000000000000u,
                                           0x7ff0000000000001u,
                                           0xfff8dead0000beefu,
                                           0xfff0000000000000u,
                                           0x0000000000000001u};
  for (std::size_t i = 0; i < bits.size(); ++i)
    state.scalars.set(fmt::format("number/{}", i), std::bit_cast<double>(bits[i]));
  state.scalars.set("least", std::numeric_limits<std::int64_t>::min());
  state.scalars.set("seed", std::numeric_limits<std::uint64_t>::max());
  state.scalars.set("true", true);
  state.scalars.set("text", "line\n\"quoted\" \\ é");
  state.scalars.set("empty", "");
  const auto path = save_checkpoint(directory.path(), info_of(1), state, {});

  TrainingState read;
  Checkpoint::open(path).read(read);
  for (std::size_t i = 0; i < bits.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint64_t>(read.scalars.get<double>(fmt::format("number/{}", i))),
              bits[i]);
  EXPECT_EQ(read.scalars.get<std::int64_t>("least"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read.scalars.get<std::uint64_t>("seed"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(read.scalars.get<bool>("true"));
  EXPECT_EQ(read.scalars.get<std::string>("text"), "line\n\"quoted\" \\ é");
  EXPECT_EQ(read.scalars.get<std::string>("empty"), "");
  EXPECT_EQ(read.scalars.values().size(), state.scalars.values().size());
}

TEST(Checkpoint, RejectsScalarsWithWrongType) {
  Scalars scalars;
  scalars.set("tokens", 3);
  EXPECT_EQ(message_of<DataError>([&] { scalars.get<double>("tokens"); }),
            "training state: scalar \"tokens\": expected a number, found an integer");
  EXPECT_EQ(message_of<DataError>([&] { scalars.get<bool>("missing"); }),
            "training state: missing scalar \"missing\" (expected a boolean)");
  EXPECT_EQ(scalars.get_or<std::int64_t>("missing", 7), 7);
}

TEST(Checkpoint, ReportsInfoAndTensors) {
  const TemporaryDirectory directory;
  const auto path = save_as_ranks(directory.path(), 7, divided(small_state(), 3));
  const Checkpoint checkpoint = Checkpoint::open(path);
  EXPECT_EQ(checkpoint.info().run_id, "run");
  EXPECT_EQ(checkpoint.info().step, 7);
  EXPECT_EQ(checkpoint.info().layout, (MeshShape{.data = 3}));
  EXPECT_EQ(checkpoint.info().configuration, "model:\n  num_hidden_layers: 2\n");
  EXPECT_EQ(checkpoint.tensors().size(), 10u);
  EXPECT_EQ(checkpoint.tensors().front().name, "data/bytes");
  EXPECT_EQ(checkpoint.shape_of("mems/0"), (Shape{4, 7, 5}));
  EXPECT_EQ(checkpoint.shape_of("mems/1"), (Shape{4, 0, 5}));
  EXPECT_EQ(checkpoint.shape_of("loss_scale"), Shape{});
  EXPECT_EQ(checkpoint.dtype_of("layers/1/attention/query/weight"), DType::bf16);
  EXPECT_FALSE(checkpoint.has("layers/2/attention/query/weight"));
  EXPECT_THROW(checkpoint.shape_of("layers/2/attention/query/weight"), DataError);
  std::int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.path().extension() == ".h5") bytes += static_cast<std::int64_t>(entry.file_size());
  EXPECT_EQ(checkpoint.file_bytes(), bytes);
}

TEST(Checkpoint, KeepsElementOrderAcrossChunks) {
  const TemporaryDirectory directory;
  TrainingState state;
  const Random random(3);
  // Chunks split the middle axis, the last axis, and no axis.
  state.add("middle", random_bits({3, 700, 300}, DType::f32, random.child(0)), true);
  state.add("last", random_bits({2, 3 * 131072 + 1}, DType::f64, random.child(1)), true);
  state.add("first", random_bits({2, 3, 2, 5, 4, 3}, DType::f16, random.child(2)), true);
  const auto path = save_checkpoint(directory.path(), info_of(1), state, {});
  TrainingState read = blank(state);
  Checkpoint::open(path).read(read);
  expect_equal(read, state);
}

TEST(Checkpoint, ReadsAcrossDifferentRankCounts) {
  const TrainingState whole = small_state();
  for (const int writers : {1, 2, 3, 5}) {
    const TemporaryDirectory directory;
    const auto path = save_as_ranks(directory.path(), 1, divided(whole, writers));
    EXPECT_TRUE(verify_checkpoint(path).empty());
    for (const int readers : {1, 2, 4, 7})
      for (const TrainingState& expected : divided(whole, readers)) {
        TrainingState read = blank(expected);
        Checkpoint::open(path).read(read);
        expect_equal(read, expected);
      }
  }
}

TEST(Checkpoint, ReadsBoxesAcrossPieces) {
  const TemporaryDirectory directory;
  TrainingState whole;
  whole.add("grid", random_bits({9, 8, 7}, DType::f32, Random(4)), true);
  // One rank holds four pieces of the tensor, the other two.
  std::vector<TrainingState> ranks(2);
  for (int row = 0; row < 3; ++row) {
    const StateTensor band = part_of(whole.tensors[0], 0, row, 3);
    for (int half = 0; half < 2; ++half) {
      StateTensor piece = band;
      piece.offset[2] = half * 3;
      piece.tensor = Tensor::empty({3, 8, half == 0 ? 3 : 4}, DType::f32, Device::cpu());
      copy_overlap(4,
                   box_in(whole.tensors[0]),
                   whole.tensors[0].tensor.bytes(),
                   box_in(piece),
                   piece.tensor.bytes());
      ranks[row < 2 ? 0 : 1].tensors.push_back(piece);
    }
  }
  const Checkpoint checkpoint = Checkpoint::open(save_as_ranks(directory.path(), 1, ranks));
  for (std::int64_t begin = 0; begin < 5; ++begin) {
    StateTensor box{"grid",
                    Tensor::empty({4, 3, 3}, DType::f32, Device::cpu()),
                    {9, 8, 7},
                    {begin, begin, 2},
                    false};
    checkpoint.read(box);
    const float* all = whole.tensors[0].tensor.data<float>();
    for (std::int64_t i = 0; i < 36; ++i) {
      const auto index = ((begin + i / 9) * 8 + begin + i / 3 % 3) * 7 + 2 + i % 3;
      EXPECT_EQ(std::memcmp(box.tensor.data<float>() + i, all + index, 4), 0);
    }
  }
}

TEST(Checkpoint, ReportsMismatchedTensors) {
  const TemporaryDirectory directory;
  const auto path = save_checkpoint(directory.path(), info_of(1), small_state(), {});
  const Checkpoint checkpoint = Checkpoint::open(path);
  const auto read = [&](const std::string& name, const Shape& shape, DType dtype) {
    TrainingState state;
    state.add(name, Tensor::zeros(shape, dtype, Device::cpu()), true);
    const std::string text = message_of<DataError>([&] { checkpoint.read(state); });
    return text.substr(std::min(text.size(), (path / "manifest.json").string().size()));
  };
  EXPECT_EQ(read("data/cursor", {5}, DType::i64),
            ": tensor \"data/cursor\": expected shape [5], found [4]");
  EXPECT_EQ(read("data/cursor", {4}, DType::f64),
            ": tensor \"data/cursor\": expected dtype f64, found i64");
  EXPECT_EQ(read("data/curser", {4}, DType::i64), ": no such tensor \"data/curser\"");
}

}  // namespace
}  // namespace longspan::testing::round_trip_test
