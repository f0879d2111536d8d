// What takes the place of a residual sum in GTrXL (Parisotto et al. 2019, section 3.2).
#pragma once

#include <optional>

#include "framework/autograd/gate.h"
#include "framework/nn/parameters.h"

namespace longspan {

// With x the stream, y its change by a sublayer and s the logistic function:
enum class GateKind : std::uint8_t {
  sum,      // x + y, without parameters: the paper's TrXL-I
  input,    // s(W x) x + y
  output,   // x + s(W x - b) y
  highway,  // s(W x + b) x + (1 - s(W x + b)) y
  sigtanh,  // x + s(W y - b) tanh(U y)
  gru       // (1 - z) x + z tanh(W y + U (r x)), r = s(W y + U x), z = s(W y + U x - b)
};

// The parameters are "weight" (W) and "bias" (b), of sigtanh also "candidate/weight" (U); of gru
// "bias" and "reset", "update" and "candidate", each with "change/weight" (W) and "stream/weight"
// (U). They are outside of regions: every tensor rank holds them whole and makes the rows that it
// has, which with sequence parallelism is its share of them.
class Gate {
 public:
  struct Options {
    GateKind kind = GateKind::gru;
    std::int64_t width = 0;
    // Of b, at first: the larger, the nearer the gate is to letting x through. None: the paper's, 2
    // for gru, 1 for others.
    std::optional<double> bias = {};
    // Biases of the reset and the candidate too, which the paper has not.
    bool biases = false;
  };
  Gate(const Scope& scope, const Options& options);
  // x, y: [..., width], of one dtype.
  Variable operator()(const Variable& x, const Variable& y) const;

 private:
  // What logits or a candidate are made of; undefined where the kind has none.
  struct Products {
    Weight change;  // W of a gru
    Weight stream;  // its U, and the one matrix of other kinds
    Weight bias;    // added with them

    Variable of(const Variable& x) const;
    Variable of(const Variable& change, const Variable& stream) const;
  };
  Variable gru(const Variable& x, const Variable& y) const;

  GateKind kind_;
  Products reset_;
  Products update_;  // or the gate of other kinds
  Products candidate_;
  Weight bias_;  // b
};

}  // namespace longspan
