// Histograms of the weights of a model and of their gradients, each of the whole tensor however it
// is divided.
#pragma once

#include <string>
#include <vector>

#include "framework/nn/parameters.h"
#include "framework/tracking/metrics_record.h"

namespace longspan {

// What this rank counts of what is trained. It must be `summed` over all ranks.
// The masters, as "weights/NAME".
std::vector<NamedHistogram> own_weight_histograms(const Parameters& parameters);
// The reduced gradients, each divided by `scale`, as "gradients/NAME": before an update, which uses
// them up.
std::vector<NamedHistogram> own_gradient_histograms(const Parameters& parameters, double scale);

// Collective. Counts over all ranks: each element once, on every rank alike. The counts, the
// smallest and the largest do not know the layout, sums do to rounding.
std::vector<NamedHistogram> all_reduce_histograms(std::vector<NamedHistogram> own,
                                                  const Communicator& world);

}  // namespace longspan
