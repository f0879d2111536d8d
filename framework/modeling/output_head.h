// What hidden states become: the ids of a vocabulary, tags, classes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/modeling/backbone.h"

namespace longspan {

class OutputHead {
 public:
  virtual ~OutputHead() = default;

  // The reading's fields say what was wanted.
  virtual std::vector<LossTerm> losses(const BackboneOutput& states,
                                       const ModelInput& reading,
                                       const ForwardContext& pass) const = 0;
  // [rows, time, part().count] of this context rank's positions, or [rows, 1, part().count] where
  // the reading wants only the last one; of what has no time [rows, part().count].
  virtual Variable scores(const BackboneOutput& states,
                          const ModelInput& reading,
                          const ForwardContext& pass) const = 0;
  // The ids that it finds best of what the reading asks for, for the host, the same on every rank
  // that shares the rows or the weights: [rows] of what has no time; of tags [rows, time], where
  // `targets` are not negative, and -1 elsewhere. Nothing is recorded.
  virtual Tensor predictions(const BackboneOutput&,
                             const ModelInput&,
                             const ForwardContext&) const {
    throw Failure("this readout makes no choices");
  }
  // This rank's part of the scores' last axis.
  virtual const ShardRange& part() const = 0;
};

using OutputHeadFactory = std::function<std::unique_ptr<OutputHead>(
    const Scope&, const Backbone&, const ModelBuildOptions&)>;

}  // namespace longspan
