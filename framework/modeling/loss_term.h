// Loss terms and auxiliary metrics of a forward pass.
#pragma once

#include <string>
#include <vector>

#include "framework/autograd/variable.h"

namespace longspan {

// A loss term: weight x the sum of `values` over all ranks, divided by the batch's count of that
// name over all ranks.
struct LossTerm {
  std::string name;
  Variable values;    // accumulator dtype, on this context rank; any shape
  std::string count;  // name of a batch count: "tokens"; empty: `values` are equal on every rank
                      // and in every microbatch, and count once
  double weight = 1;
};

// A per-position metric that is not a loss, such as the number of steps. The sum covers this
// context rank and is equal on its tensor ranks. The mean divides by the batch's count of that
// name.
struct AuxiliaryMetric {
  std::string name;
  double sum = 0;
  double largest = 0;
  std::string count;
  // Sum over the rows that reach a position, and their number. Available per position of the
  // sequence in passes without training.
  struct At {
    double sum = 0;
    double rows = 0;
  };
  std::vector<At> at = {};
};

}  // namespace longspan
