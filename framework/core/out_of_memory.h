// What an allocator throws when the system has no memory left.
#pragma once

#include "framework/core/error.h"

namespace longspan {

class OutOfMemory : public Failure {
 public:
  // `held`: bytes that the allocator had when it was refused more.
  OutOfMemory(const std::string& sentence, double held) : Failure("{}", sentence), held_(held) {}
  double held() const { return held_; }

 private:
  double held_;
};

}  // namespace longspan
