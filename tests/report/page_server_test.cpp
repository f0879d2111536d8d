#include <gtest/gtest.h>

#include "framework/report/report_page.h"

namespace longspan::page_server_test {
namespace {

TEST(PageServer, AcceptsOnlyLocalNamesWithItsPort) {
  EXPECT_TRUE(is_local_host("127.0.0.1:8080", 8080));
  EXPECT_TRUE(is_local_host("localhost:8080", 8080));
  for (const char* const host : {"127.0.0.1",
                                 "localhost",
                                 "",
                                 "127.0.0.1:80",
                                 "evil.example:8080",
                                 "localhost:8080.example"})
    EXPECT_FALSE(is_local_host(host, 8080)) << host;
}

TEST(PageServer, AcceptsNamesWithoutPortOnPort80) {
  for (const char* const host : {"127.0.0.1", "localhost", "127.0.0.1:80", "localhost:80"})
    EXPECT_TRUE(is_local_host(host, 80)) << host;
  for (const char* const host : {"", "evil.example", "evil.example:80", "localhost:8080"})
    EXPECT_FALSE(is_local_host(host, 80)) << host;
}

}  // namespace
}  // namespace longspan::page_server_test
