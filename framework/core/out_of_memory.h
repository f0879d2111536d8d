// Errors of an allocator when the system is out of memory or addresses.
#pragma once

#include "framework/core/allocator.h"
#include "framework/core/error.h"

namespace longspan {

class OutOfMemory : public Failure {
 public:
  // `backing`: of the allocator, which held `held` bytes when the request failed.
  OutOfMemory(const std::string& sentence, AllocatorKind backing, double held)
      : Failure("{}", sentence), backing_(backing), held_(held) {}
  AllocatorKind backing() const { return backing_; }
  double held() const { return held_; }

 private:
  AllocatorKind backing_;
  double held_;
};

// Thrown by a plan, which uses addresses but no memory: the run exceeds the address space of a
// process, whatever the machine's memory.
class OutOfAddressSpace : public ConfigurationError {
 public:
  // `report`: all bytes of the plan so far, including the failed request.
  OutOfAddressSpace(const std::string& sentence, const MemoryReport& report)
      : ConfigurationError("{}", sentence), report_(report) {}
  const MemoryReport& report() const { return report_; }

 private:
  MemoryReport report_;
};

}  // namespace longspan
