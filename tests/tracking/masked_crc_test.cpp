#include <gtest/gtest.h>

#include <string>

#include "framework/tracking/event_file.h"

namespace longspan::masked_crc_test {
namespace {

// Vectors: RFC 3720, appendix B.4.
TEST(MaskedCrc, MatchesRfc3720Vectors) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string up;
  for (char byte = 0; byte < 32; ++byte) up += byte;
  EXPECT_EQ(crc32c(up), 0x46dd794eU);
  EXPECT_EQ(crc32c(std::string(up.rbegin(), up.rend())), 0x113fdb5cU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(MaskedCrc, RotatesAndAddsConstant) {
  // 0xe3069283 rotated right by 15 bits is 0x2507c60d.
  EXPECT_EQ(masked_crc32c("123456789"), 0x2507c60dU + 0xa282ead8U);
  EXPECT_NE(masked_crc32c("12345678"), masked_crc32c("123456789"));
}

}  // namespace
}  // namespace longspan::masked_crc_test
