#include "framework/train/memory_table.h"

#include <fstream>

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

std::string memory_text(const MemoryReport& report) {
  std::string text;
  for (std::size_t i = 0; i < memory_tags; ++i)
    text += fmt::format("{}{} {:.1f} MB",
                        i == 0 ? "" : ", ",
                        name_of(static_cast<MemoryTag>(i)),
                        megabytes(report.by_tag[i].peak));
  return text + fmt::format("; at most {:.1f} MB at once, {:.1f} MB held from the system",
                            megabytes(report.total.peak),
                            megabytes(report.reserved));
}

void log_memory(const Log& log, const Allocator& allocator) {
  log.info("peak memory of this rank: {}; the process {:.1f} MB",
           memory_text(allocator.report()),
           megabytes(process_memory().peak));
}

}  // namespace longspan
