// What an allocator throws when the system has no memory left.
#pragma once

#include "framework/core/allocator.h"
#include "framework/core/error.h"

namespace longspan {

class OutOfMemory : public Failure {
 public:
  // `backing`: of the allocator, which held that many bytes when it was refused more.
  OutOfMemory(const std::string& sentence, Backing backing, double held)
      : Failure("{}", sentence), backing_(backing), held_(held) {}
  Backing backing() const { return backing_; }
  double held() const { return held_; }

 private:
  Backing backing_;
  double held_;
};

}  // namespace longspan
