// Gates that replace the residual sum in GTrXL (Parisotto et al. 2019, section 3.2).
#pragma once

#include <optional>

#include "framework/autograd/ops.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Notation: x the stream, y the output of a sublayer, s the logistic function.
enum class GateKind : std::uint8_t {
  sum,      // x + y, without parameters: TrXL-I in the paper
  input,    // s(W x) x + y
  output,   // x + s(W x - b) y
  highway,  // s(W x + b) x + (1 - s(W x + b)) y
  sigtanh,  // x + s(W y - b) tanh(U y)
  gru       // (1 - z) x + z tanh(W y + U (r x)), r = s(W y + U x), z = s(W y + U x - b)
};

// Parameters: "weight" (W) and "bias" (b), and for sigtanh "candidate/weight" (U). gru has "bias",
// and "reset", "update" and "candidate", each with "change/weight" (W) and "stream/weight" (U).
// Gates are outside split regions: every tensor rank holds the full parameters and computes its own
// rows. With sequence parallelism these are its share of the rows.
class Gate {
 public:
  struct Options {
    GateKind kind = GateKind::gru;
    std::int64_t width = 0;
    // Initial value of b: larger values let more of x through. None: as in the paper, 2 for gru, 1
    // for the others.
    std::optional<double> bias = {};
    // Adds biases to reset and candidate, which the paper does not have.
    bool biases = false;
  };
  Gate(const Scope& scope, const Options& options);
  // x, y: [..., width], of one dtype.
  Variable operator()(const Variable& x, const Variable& y) const;

 private:
  // Operands of the logits or the candidate; undefined where the kind has none.
  struct Products {
    Weight change;  // W of gru
    Weight stream;  // U of gru, and the only matrix of other kinds
    Weight bias;    // added to the products

    Variable of(const Variable& x) const;
    Variable of(const Variable& change, const Variable& stream) const;
  };
  Variable gru(const Variable& x, const Variable& y) const;

  GateKind kind_;
  Products reset_;
  Products update_;  // also the gate of other kinds
  Products candidate_;
  Weight bias_;  // b
};

}  // namespace longspan
