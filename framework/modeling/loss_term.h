// What is learned from a pass, and what it is watched by.
#pragma once

#include <string>
#include <vector>

#include "framework/autograd/variable.h"

namespace longspan {

// A part of the loss: weight x the sum of `values` over all ranks / the batch's count of that name
// over all ranks.
struct LossTerm {
  std::string name;
  Variable values;    // accumulator dtype, of what this context rank has; any shape
  std::string count;  // of the batch: "tokens"; empty: `values` are the same on every rank and in
                      // every part of a batch, and count once
  double weight = 1;
};

// A number of each position that is no loss, such as the steps that it took: of what this context
// rank has, the same on its tensor ranks. Its mean is over the batch's count of that name.
struct AuxiliaryMetric {
  std::string name;
  double sum = 0;
  double largest = 0;
  std::string count;
  // Where it is known of each position of the sequence, in a pass without training: the sum over
  // the rows that reach there, and how many do.
  struct At {
    double sum = 0;
    double rows = 0;
  };
  std::vector<At> at = {};
};

}  // namespace longspan
