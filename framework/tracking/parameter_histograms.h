// Histograms of a model's weights and gradients, each of the full tensor however it is sharded.
#pragma once

#include <string>
#include <vector>

#include "framework/nn/parameters.h"
#include "framework/tracking/metrics_record.h"

namespace longspan {

// This rank's histograms of the trained parameters, before all_reduce_histograms.
// Returns those of the master weights, as "weights/NAME".
std::vector<NamedHistogram> own_weight_histograms(const Parameters& parameters);
// Returns those of the reduced gradients divided by `scale`, as "gradients/NAME". Call it before
// the update, which consumes the gradients.
std::vector<NamedHistogram> own_gradient_histograms(const Parameters& parameters, double scale);

// Collective. Sums over all ranks, counting each element once; identical on every rank. The counts,
// the smallest and the largest element are independent of the layout; sums are up to rounding.
std::vector<NamedHistogram> all_reduce_histograms(std::vector<NamedHistogram> own,
                                                  const Communicator& world);

}  // namespace longspan
