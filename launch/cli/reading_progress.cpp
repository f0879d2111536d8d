#include "launch/cli/reading_progress.h"

#include <cstdio>

#include "framework/core/format.h"
#include "framework/core/stopwatch.h"

namespace longspan {

ReadProgress reading_progress(const std::string& name, const Session& session) {
  constexpr double seconds_between = 5;
  if (session.world().rank() != 0) return {};
  return
      [name, since = Stopwatch(), read = std::int64_t{0}, told = 0.0](std::int64_t bytes) mutable {
        read += bytes;
        if (since.seconds() < told + seconds_between) return;
        told = since.seconds();
        std::fprintf(stderr,
                     "longspan: %s: rank 0 has read %s\n",
                     name.c_str(),
                     format_bytes(static_cast<double>(read)).c_str());
      };
}

}  // namespace longspan
