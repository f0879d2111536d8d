// JSON line formats of a record.
#pragma once

#include <string>

#include "framework/tracking/jsonl_file.h"

namespace longspan {

// metrics.jsonl: one object per logged step. Numbers read back to the same bits. A non-finite
// number becomes null, followed by its reason: "loss": null, "loss_reason": "nan" (or "inf",
// "-inf").
JsonlFormat metrics_lines();
// Returns a metrics line, without its newline.
std::string json_line(const MetricsRecord& record);

// samples.jsonl: one object per sample, {"step": 100, "sample": 0, "input": "...", "output": "...",
// "reference": "..."}. Invalid UTF-8 becomes U+FFFD.
JsonlFormat samples_lines();

// One object per logged step in the history format of Weights & Biases: flat, with "_step",
// "_timestamp" in seconds, and tags as keys. A non-finite number is a string that Python's float()
// accepts: "NaN", "Infinity", "-Infinity".
JsonlFormat wandb_lines();

// One object per number in MLflow's log format: "key", "value", "timestamp" in milliseconds,
// "step". Keys are made valid for MLflow: disallowed characters become "_", non-ASCII bytes are
// escaped ("_c3"). Paths have no empty, "." and ".." components. In keys of more than 250
// characters the middle is replaced by "_".
JsonlFormat mlflow_lines();

}  // namespace longspan
