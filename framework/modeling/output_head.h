// Interface of an output head: maps hidden states to ids of a vocabulary, tags or classes.
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

  // Reads the targets from the fields of the input.
  virtual std::vector<LossTerm> losses(const BackboneOutput& states,
                                       const ModelInput& reading,
                                       const ForwardContext& pass) const = 0;
  // Returns [rows, time, part().count] for this context rank's positions, or [rows, 1,
  // part().count] with ModelInput::only_last. Heads without a time dimension return [rows,
  // part().count].
  virtual Variable scores(const BackboneOutput& states,
                          const ModelInput& reading,
                          const ForwardContext& pass) const = 0;
  // Returns the predicted ids on the host, equal on every rank that shares the rows or the weights.
  // [rows] without a time dimension; for tags [rows, time], with -1 where `targets` are negative.
  // Records no gradient.
  virtual Tensor predictions(const BackboneOutput&,
                             const ModelInput&,
                             const ForwardContext&) const {
    throw Failure("this head does not implement predictions()");
  }
  // This rank's shard of the last axis of the scores.
  virtual const ShardRange& part() const = 0;
};

using OutputHeadFactory = std::function<std::unique_ptr<OutputHead>(
    const Scope&, const Backbone&, const ModelBuildOptions&)>;

}  // namespace longspan
