#include "framework/data/corpus/decompressed_file.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <new>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/text_input.h"

namespace longspan {

// A decompressor. `unpack` removes the consumed prefixes of input and output.
class DecompressedFile::Unpacker {
 public:
  Unpacker() = default;
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;
  virtual ~Unpacker() = default;
  // Returns an error or "". If neither span shrinks, it requires more input.
  virtual std::string unpack(std::string_view& in, std::span<char>& out) = 0;
  // Returns whether the file may end here.
  virtual bool is_between() const = 0;
};

namespace {

constexpr unsigned char gzip_begin = 0x1f;
const std::string trailing_data_problem = "trailing data is not compressed";

class Gzip : public DecompressedFile::Unpacker {
 public:
  Gzip() {
    constexpr int gzip_alone = 16 + MAX_WBITS;
    if (::inflateInit2(&stream_, gzip_alone) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { ::inflateEnd(&stream_); }

  std::string unpack(std::string_view& in, std::span<char>& out) override {
    if (is_between_) {
      if (in.empty()) return "";
      if (static_cast<unsigned char>(in.front()) != gzip_begin) return trailing_data_problem;
      ::inflateReset(&stream_);
      is_between_ = false;
    }
    // zlib does not write to its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1U << 30));
    const auto room = stream_.avail_out;
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    in.remove_prefix(in.size() - stream_.avail_in);
    out = out.subspan(room - stream_.avail_out);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status == Z_STREAM_END) is_between_ = true;
    if (status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR) return "";
    return stream_.msg != nullptr ? stream_.msg : "requires a dictionary";
  }
  bool is_between() const override { return is_between_; }

 private:
  z_stream stream_{};
  bool is_between_ = false;
};

class Zstd : public DecompressedFile::Unpacker {
 public:
  Zstd() : stream_(::ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }
  ~Zstd() override { ::ZSTD_freeDStream(stream_); }

  std::string unpack(std::string_view& in, std::span<char>& out) override {
    if (is_between_ && in.empty()) return "";
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const std::size_t left = ::ZSTD_decompressStream(stream_, &output, &input);
    in.remove_prefix(input.pos);
    out = out.subspan(output.pos);
    if (::ZSTD_isError(left) != 0) {
      if (::ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      return is_later_ && ::ZSTD_getErrorCode(left) == ZSTD_error_prefix_unknown
                 ? trailing_data_problem
                 : ::ZSTD_getErrorName(left);
    }
    is_between_ = left == 0;
    is_later_ = is_later_ || is_between_;
    return "";
  }
  bool is_between() const override { return is_between_; }

 private:
  ZSTD_DStream* stream_;
  bool is_between_ = false;
  bool is_later_ = false;  // past the first frame
};

std::unique_ptr<DecompressedFile::Unpacker> unpacker_of(Compression packing) {
  switch (packing) {
    case Compression::none:
      return nullptr;
    case Compression::gzip:
      return std::make_unique<Gzip>();
    case Compression::zstd:
      return std::make_unique<Zstd>();
  }
  throw Failure("unknown compression");
}

}  // namespace

Compression detect_compression(const InputFile& file) {
  std::array<char, 4> begin{};
  const auto there = static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 4));
  file.copy(0, std::span(begin).first(there));
  const std::string_view bytes(begin.data(), there);
  Compression packing = Compression::none;
  // Both magics are invalid UTF-8. The third byte of gzip is its only compression method.
  if (bytes.starts_with("\x1f\x8b\x08"))
    packing = Compression::gzip;
  else if (bytes == "\x28\xb5\x2f\xfd" ||
           (bytes.size() == 4 && bytes.substr(1) == "\x2a\x4d\x18" && (bytes[0] & 0xF0) == 0x50))
    packing = Compression::zstd;  // a frame, or a skippable frame
  if (file.is_copy()) return packing;
  const std::string path = lower_case(file.path());
  for (const auto& [end, wanted] :
       {std::pair(".gz", Compression::gzip), std::pair(".zst", Compression::zstd)})
    if (path.ends_with(end) && packing != wanted)
      throw DataError("{}: byte 0: expected {} data, as in its name",
                      file.path(),
                      wanted == Compression::gzip ? "gzip" : "zstd");
  return packing;
}

DecompressedFile::DecompressedFile(std::shared_ptr<const InputFile> file,
                                   std::size_t block,
                                   UnpackedContent content)
    : file_(std::move(file)), block_(block), unpacker_(unpacker_of(detect_compression(*file_))) {
  if (!is_compressed() || content == UnpackedContent::bytes) return;
  std::string beginning(text_format_bytes, '\0');
  beginning.resize(read_packed(beginning));
  beginning.erase(0, byte_order_mark(beginning, path() + ", decompressed"));
  beginning_ = std::move(beginning);
}

DecompressedFile::~DecompressedFile() = default;

std::size_t DecompressedFile::read(std::span<char> out) {
  if (is_compressed()) {
    const std::size_t before = std::min(beginning_.size(), out.size());
    std::copy_n(beginning_.begin(), before, out.begin());
    beginning_.erase(0, before);
    return before + read_packed(out.subspan(before));
  }
  const auto length = std::min<std::int64_t>(std::ssize(out), file_->size() - at_);
  file_->copy(at_, out.first(static_cast<std::size_t>(length)));
  at_ += length;
  return static_cast<std::size_t>(length);
}

std::size_t DecompressedFile::read_packed(std::span<char> out) {
  const std::size_t wanted = out.size();
  while (!out.empty()) {
    if (input_.empty()) refill();
    const std::size_t in_before = input_.size();
    const std::size_t out_before = out.size();
    if (const std::string problem = unpacker_->unpack(input_, out); !problem.empty())
      throw_data_error(problem == trailing_data_problem ? problem : "is corrupt: " + problem);
    if (input_.size() != in_before || out.size() != out_before) continue;
    if (!input_.empty()) throw_data_error("is corrupt: cannot be decompressed");
    if (at_ < file_->size()) continue;
    if (!unpacker_->is_between()) throw_data_error("unexpected end of the compressed data");
    break;
  }
  return wanted - out.size();
}

void DecompressedFile::refill() {
  const auto length =
      std::min<std::int64_t>(static_cast<std::int64_t>(block_), file_->size() - at_);
  buffer_.resize(static_cast<std::size_t>(length));
  file_->copy(at_, buffer_);
  at_ += length;
  input_ = buffer_;
}

void DecompressedFile::skip(std::int64_t bytes) {
  if (!is_compressed()) {
    require(bytes <= file_->size() - at_, "{}: {} bytes are missing", path(), bytes);
    at_ += bytes;
    return;
  }
  std::string unused(static_cast<std::size_t>(std::min<std::int64_t>(bytes, 1 << 20)), '\0');
  while (bytes > 0) {
    const auto part = std::min<std::int64_t>(bytes, std::ssize(unused));
    const std::size_t done = read(std::span(unused).first(static_cast<std::size_t>(part)));
    require(done > 0, "{}: {} decompressed bytes are missing", path(), bytes);
    bytes -= static_cast<std::int64_t>(done);
  }
}

void DecompressedFile::throw_data_error(const std::string& problem) const {
  throw DataError("{}: byte {}: {}", path(), at_ - std::ssize(input_), problem);
}

}  // namespace longspan
