// What an allocator throws when the system has no memory or no addresses left.
#pragma once

#include "framework/core/allocator.h"
#include "framework/core/error.h"

namespace longspan {

class OutOfMemory : public Failure {
 public:
  // `backing`: of the allocator, which held that many bytes when it was refused more.
  OutOfMemory(const std::string& sentence, AllocatorKind backing, double held)
      : Failure("{}", sentence), backing_(backing), held_(held) {}
  AllocatorKind backing() const { return backing_; }
  double held() const { return held_; }

 private:
  AllocatorKind backing_;
  double held_;
};

// Of a plan, which takes addresses and no memory: a run needs more than a process has addresses
// for, whatever memory there is.
class OutOfAddressSpace : public ConfigurationError {
 public:
  // `report`: of all that the plan had come to, with what it was refused.
  OutOfAddressSpace(const std::string& sentence, const MemoryReport& report)
      : ConfigurationError("{}", sentence), report_(report) {}
  const MemoryReport& report() const { return report_; }

 private:
  MemoryReport report_;
};

}  // namespace longspan
