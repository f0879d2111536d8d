#include "framework/training_loop/memory_table.h"

#include <fstream>

#include "framework/core/byte_text.h"

namespace longspan {
namespace {

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t* const wanted =
        word == "VmHWM:" ? &memory.peak : (word == "VmRSS:" ? &memory.now : nullptr);
    if (wanted == nullptr) continue;
    status >> *wanted;
    *wanted *= 1024;
  }
  return memory;
}

std::string memory_text(const MemoryUsage& account) {
  const MemoryReport& report = account.report;
  std::string text;
  for (std::size_t i = 0; i < memory_tags; ++i)
    text += fmt::format(
        "{} {:.1f} MB, ", name_of(static_cast<MemoryTag>(i)), megabytes(report.by_tag[i].peak));
  return text + fmt::format("peak {:.1f} MB, cached {:.1f} MB, program {:.1f} MB",
                            megabytes(report.total.peak),
                            megabytes(report.reserved - report.total.peak),
                            megabytes(account.program));
}

void log_memory(const Log& log, const MemoryUsage& account) {
  const std::int64_t peak = process_memory().peak;
  log.info("Peak memory of this rank: {}", format_bytes(static_cast<double>(peak)));
  log.note("Accounted for: {:.1f} MB ({})", megabytes(account.known()), memory_text(account));
}

}  // namespace longspan
