// Training states of random bits, their shards, and functions that save and compare them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/rank_file.h"
#include "checkpoints/training_state.h"
#include "framework/core/random.h"
#include "tests/support/message_of.h"  // for its users
#include "tests/support/temporary_directory.h"

namespace longspan::testing {

inline std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes()), tensor.byte_size()};
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline void flip_bit(const std::filesystem::path& path, std::size_t byte, unsigned bit) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(byte));
  const int found = file.get();
  file.seekp(static_cast<std::streamoff>(byte));
  file.put(static_cast<char>(found ^ (1 << bit)));
}

// Returns random bits. Floats include NaN payloads, infinities, subnormals and -0.
inline Tensor random_bits(const Shape& shape, DType dtype, const Random& random) {
  Tensor tensor = Tensor::empty(shape, dtype, Device::cpu());
  for (std::size_t i = 0; i < tensor.byte_size(); ++i)
    tensor.bytes()[i] = static_cast<std::byte>(random.word(i));
  return tensor;
}

inline Box box_in(const StateTensor& piece) { return box_of(piece.tensor.shape(), piece.offset); }

// Returns shard `index` of `count` along an axis of a full tensor. The first shards are larger if
// `count` does not divide the extent.
inline StateTensor part_of(const StateTensor& whole, int axis, int index, int count) {
  const std::int64_t extent = whole.global_shape[axis];
  const auto begin_of = [&](int i) {
    return i * (extent / count) + std::min<std::int64_t>(i, extent % count);
  };
  StateTensor part = whole;
  part.offset[static_cast<std::size_t>(axis)] = begin_of(index);
  part.tensor = Tensor::empty(whole.global_shape.with(axis, begin_of(index + 1) - begin_of(index)),
                              whole.tensor.dtype(),
                              whole.tensor.device());
  if (part.tensor.elements() > 0)
    copy_overlap(size_of(whole.tensor.dtype()),
                 box_in(whole),
                 whole.tensor.bytes(),
                 box_in(part),
                 part.tensor.bytes());
  return part;
}

// Returns a state with all dtypes: weights of two layers, optimizer state, memory, a cursor, a
// scalar and an empty tensor.
inline TrainingState small_state(std::uint64_t seed = 1) {
  const Random random(seed);
  TrainingState state;
  const auto add = [&](const std::string& name, const Shape& shape, DType dtype) {
    state.add(name, random_bits(shape, dtype, random.child(name)), true);
  };
  add("layers/0/attention/query/weight", {24, 10}, DType::f32);
  add("layers/1/attention/query/weight", {24, 10}, DType::bf16);
  add("layers/1/attention/query/bias", {10}, DType::f16);
  add("optimizer/exp_avg/layers/0/attention/query/weight", {24, 10}, DType::f64);
  add("mems/0", {4, 7, 5}, DType::f32);
  add("data/cursor", {4}, DType::i64);
  add("data/bytes", {33}, DType::u8);
  add("loss_scale", {}, DType::f32);
  add("mems/1", {4, 0, 5}, DType::f32);
  add("mems/buckets", {9}, DType::i32);
  state.scalars.set("learning_rate", 0.1 + 0.2);
  state.scalars.set("tokens", std::int64_t{1} << 62);
  state.scalars.set("finished", false);
  state.scalars.set("optimizer", "adamw");
  return state;
}

// Returns the states of `ranks` ranks. Each tensor is sharded along one axis, or replicated and
// owned by one rank.
inline std::vector<TrainingState> divided(const TrainingState& whole, int ranks) {
  std::vector<TrainingState> result(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    auto& mine = result[static_cast<std::size_t>(rank)];
    mine.scalars = whole.scalars;
    for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
      const StateTensor& tensor = whole.tensors[i];
      const int dimensions = tensor.global_shape.dimensions();
      if (dimensions == 0 || i % 3 == 2) {
        mine.tensors.push_back(tensor);
        mine.tensors.back().owned = rank == static_cast<int>(i) % ranks;
      } else {
        mine.tensors.push_back(part_of(tensor, static_cast<int>(i) % dimensions, rank, ranks));
      }
    }
  }
  return result;
}

// Returns tensors with equal names and boxes but other elements, as targets of a read.
inline TrainingState blank(const TrainingState& state) {
  TrainingState result;
  for (StateTensor tensor : state.tensors) {
    tensor.tensor = tensor.tensor.empty_like();
    if (tensor.tensor.elements() > 0)
      std::memset(tensor.tensor.bytes(), 0x5a, tensor.tensor.byte_size());
    result.tensors.push_back(tensor);
  }
  return result;
}

inline CheckpointInfo info_of(std::int64_t step, int ranks = 1) {
  return {"run", step, MeshShape{.data = ranks}, "model:\n  num_hidden_layers: 2\n"};
}

// Saves the states of several ranks from one process.
inline std::filesystem::path save_as_ranks(const std::filesystem::path& directory,
                                           std::int64_t step,
                                           const std::vector<TrainingState>& ranks) {
  const auto path = directory / step_name(step);
  std::filesystem::create_directories(path);
  std::vector<RankFileReport> reports;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    reports.push_back(write_rank_file(path, static_cast<int>(rank), ranks[rank]));
  write_manifest(path, info_of(step, static_cast<int>(ranks.size())), reports);
  return path;
}

inline void expect_equal(const TrainingState& found, const TrainingState& expected) {
  ASSERT_EQ(found.tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < found.tensors.size(); ++i) {
    EXPECT_EQ(found.tensors[i].name, expected.tensors[i].name);
    EXPECT_TRUE(bytes_of(found.tensors[i].tensor) == bytes_of(expected.tensors[i].tensor))
        << found.tensors[i].name;
  }
}

}  // namespace longspan::testing
