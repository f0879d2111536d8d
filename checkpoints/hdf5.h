// HDF5's C interface under RAII, every return checked. Only hdf5.cpp and hdf5_reader.cpp call it.
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

// Owns one identifier of HDF5.
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
  // Closes it; false when HDF5 says that this failed.
  bool close();

 private:
  Identifier id_ = -1;
  Closer closer_ = nullptr;
};

// A dataset of a rank file: chunked, with the Fletcher32 filter and no other.
class Dataset {
 public:
  const Shape& chunk() const { return chunk_; }
  // Write and read one chunk, a box as `for_each_chunk` gives it: a contiguous range of elements.
  // They go around HDF5's own pipeline, which is slower than a disk. Throw Failure and DataError;
  // what `read` returns lasts until the next call.
  void write(const Box& box, const std::byte* elements);
  const std::byte* read(const Box& box);
  // Must end the writing: what is still in HDF5's cache may fail to reach the file. Throws Failure.
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

// A virtual dataset's part that lies in another file.
struct VirtualPart {
  std::string file;
  std::string dataset;
  Box box;
};

// A new HDF5 file of the latest format. Everything throws Failure with the path, what was tried and
// what the system answered.
class Writer {
 public:
  // The file must not be there yet.
  explicit Writer(const std::filesystem::path& path);

  // `name` is a path of folders, made as needed. No extent is 0.
  Dataset create(const std::string& name, DType dtype, const Shape& shape, const Shape& chunk);
  // A dataset that shows parts of others; elements in no part read as 0.
  void create_virtual(const std::string& name,
                      DType dtype,
                      const Shape& shape,
                      const std::vector<VirtualPart>& parts);
  // An attribute of text at the root.
  void describe(const std::string& name, const std::string& text);
  // Flushes and closes. Datasets must be gone by then.
  void close();

 private:
  std::filesystem::path path_;
  Id file_;
};

// A file opened for reading, trusted in nothing: everything throws DataError.
class Reader {
 public:
  // `descriptor` is the same file, already opened and checked: HDF5 must get that one.
  Reader(const std::filesystem::path& path, int descriptor);

  // Refuses links on the way, another type or shape, any layout but chunks, external storage, any
  // filter but Fletcher32, and chunks that are not stored.
  Dataset open(const std::string& name, DType dtype, const Shape& shape) const;

  // Throws unless there is a virtual dataset of that name and number of parts.
  void require_virtual(const std::string& name, std::size_t parts) const;

  // A sentence for what is neither one of the `wanted` datasets nor a folder of one, nor under one
  // name only: links, loops, datasets and folders that do not belong there. At most 20; what is not
  // expected is not entered.
  std::vector<std::string> strangers(const std::set<std::string>& wanted) const;

 private:
  std::filesystem::path path_;
  Id file_;
};

}  // namespace longspan::hdf5
