// Text compressed with gzip and zstd.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

namespace longspan {

inline std::string gzip_of(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

// `has_sum`: appends a checksum of the content, as the program zstd does.
inline std::string zstd_of(std::string_view text, bool has_sum = true) {
  ZSTD_CCtx* const context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, has_sum ? 1 : 0);
  std::string packed(::ZSTD_compressBound(text.size()), '\0');
  packed.resize(::ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
  ::ZSTD_freeCCtx(context);
  return packed;
}

}  // namespace longspan
