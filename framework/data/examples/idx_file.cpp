#include "framework/data/examples/idx_file.h"

#include <string>

#include "framework/core/error.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/corpus/text_input.h"

namespace longspan {

namespace {

std::int64_t big_endian(std::string_view bytes) {
  std::int64_t value = 0;
  for (const char byte : bytes) value = value * 256 + static_cast<unsigned char>(byte);
  return value;
}

constexpr std::int64_t header_bytes(std::int64_t axes) { return 4 + 4 * axes; }

}  // namespace

IdxFile::IdxFile(const ConfigPath& path, int axes, std::string_view what, const Communicator& all)
    : file_(share(open_decompressed(path), all)) {
  const std::string magic = read_bytes(*file_, 0, std::min<std::int64_t>(4, file_->size()));
  if (magic != std::string{'\0', '\0', '\x08', static_cast<char>(axes)})
    throw DataError("{}: expected an IDX file of {}, which begins with the bytes 0 0 8 {}",
                    path.describe(),
                    what,
                    axes);
  if (file_->size() < header_bytes(axes))
    throw DataError("{}: truncated: {} bytes, but the header requires {}",
                    file_->path(),
                    file_->size(),
                    header_bytes(axes));
  std::int64_t wanted = 1;
  for (int axis = 0; axis < axes; ++axis) {
    axes_.push_back(big_endian(read_bytes(*file_, header_bytes(axis), header_bytes(axis + 1))));
    if (axes_.back() == 0 || wanted > (std::int64_t{1} << 60) / axes_.back())
      throw DataError(
          "{}: invalid size {} along axis {} in the header", file_->path(), axes_.back(), axis);
    wanted *= axes_.back();
  }
  if (wanted != file_->size() - header_bytes(axes))
    throw DataError("{}: {}: expected {} bytes of {}, as in the header, found {}",
                    file_->path(),
                    wanted > file_->size() - header_bytes(axes) ? "truncated" : "too long",
                    wanted,
                    what,
                    file_->size() - header_bytes(axes));
}

std::int64_t IdxFile::elements() const {
  std::int64_t product = 1;
  for (std::size_t axis = 1; axis < axes_.size(); ++axis) product *= axes_[axis];
  return product;
}

void IdxFile::read(std::int64_t entry, std::span<char> out) const {
  file_->copy(header_bytes(std::ssize(axes_)) + entry * elements(), out);
}

}  // namespace longspan
