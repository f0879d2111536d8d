// RAII wrapper of HDF5's C API, with checked return values. Only hdf5.cpp and hdf5_reader.cpp call
// HDF5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "checkpoints/box.h"
#include "framework/core/dtype.h"

namespace longspan::hdf5 {

// Owns one HDF5 identifier.
class Id {
 public:
  using Identifier = std::int64_t;  // hid_t
  using Closer = int (*)(Identifier);

  Id() = default;
  Id(Identifier id, Closer closer) : id_(id), closer_(closer) {}
  Id(Id&& other) noexcept;
  Id& operator=(Id&& other) noexcept;
  ~Id();

  Identifier get() const { return id_; }
  // Closes the identifier; returns false when HDF5 reports a failure.
  bool close();

 private:
  Identifier id_ = -1;
  Closer closer_ = nullptr;
};

// A dataset of a rank file: chunked, with the Fletcher32 filter only.
class Dataset {
 public:
  const Shape& chunk() const { return chunk_; }
  // Write and read one chunk, a contiguous box of `for_each_chunk`. They bypass HDF5's filter
  // pipeline, which is slower than a disk. Throw Failure and DataError. The result of `read` is
  // valid until the next call.
  void write(const Box& box, const std::byte* elements);
  const std::byte* read(const Box& box);
  // Must follow the last write, because flushing HDF5's cache may fail. Throws Failure.
  void close();

 private:
  friend class Writer;
  friend class Reader;
  Dataset(Id id, std::string place, DType dtype, Shape chunk);

  Id id_;
  std::string place_;
  DType dtype_;
  Shape chunk_;
  std::size_t chunk_bytes_;
  std::vector<std::byte> stored_;  // a chunk and its checksum, as in the file
};

// Part of a virtual dataset in another file.
struct VirtualPart {
  std::string file;
  std::string dataset;
  Box box;
};

// A new HDF5 file of the latest format. All functions throw Failure, with the path, the action and
// the system error.
class Writer {
 public:
  // Requires that the file does not exist.
  explicit Writer(const std::filesystem::path& path);

  // Creates a dataset. Missing groups in the path `name` are created. No extent may be 0.
  Dataset create(const std::string& name, DType dtype, const Shape& shape, const Shape& chunk);
  // Creates a virtual dataset that maps parts of others. Unmapped elements read as 0.
  void create_virtual(const std::string& name,
                      DType dtype,
                      const Shape& shape,
                      const std::vector<VirtualPart>& parts);
  // Writes a text attribute of the root group.
  void describe(const std::string& name, const std::string& text);
  // Flushes and closes the file. Requires that all datasets are destroyed.
  void close();

 private:
  std::filesystem::path path_;
  Id file_;
};

// Reader of an untrusted file. All functions throw DataError.
class Reader {
 public:
  // `descriptor` is the already checked open file, which HDF5 must use.
  Reader(const std::filesystem::path& path, int descriptor);

  // Opens a dataset. Rejects links in the path, another type or shape, layouts other than chunked,
  // external storage, filters other than Fletcher32, and missing chunks.
  Dataset open(const std::string& name, DType dtype, const Shape& shape) const;

  // Throws unless a virtual dataset of this name has this number of parts.
  void require_virtual(const std::string& name, std::size_t parts) const;

  // Returns up to 20 messages about unexpected content: links, loops, other datasets and groups,
  // and objects with several names. Does not descend into unexpected groups.
  std::vector<std::string> unexpected(const std::set<std::string>& wanted) const;

 private:
  std::filesystem::path path_;
  Id file_;
};

}  // namespace longspan::hdf5

namespace longspan {

// The checksum of HDF5's Fletcher32 filter, many times faster than HDF5's.
std::uint32_t fletcher32(const std::byte* bytes, std::size_t size);

}  // namespace longspan
