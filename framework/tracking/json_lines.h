// The kinds of files that have a record as lines of JSON.
#pragma once

#include <string>

#include "framework/tracking/jsonl_file.h"

namespace longspan {

// metrics.jsonl: one object a logged step. Numbers read back to the same bits. What JSON has no
// number for becomes null, with its name beside it: "loss": null, "loss_reason": "nan" (or "inf",
// "-inf").
JsonlFormat metrics_lines();
// A line of it, without its end.
std::string json_line(const MetricsRecord& record);

// samples.jsonl: one object for each text, {"step": 100, "sample": 0, "input": "...", "output":
// "...", "reference": "..."}. What is no UTF-8 becomes U+FFFD.
JsonlFormat samples_lines();

// One object a logged step, as Weights & Biases keeps a run's history: flat, with "_step",
// "_timestamp" in seconds, and the tags of the numbers. What JSON has no number for is a text:
// "NaN", "Infinity", "-Infinity", which Python's float() takes.
JsonlFormat wandb_lines();

// One object a number, as MLflow logs it: "key", "value", "timestamp" in milliseconds, "step". A
// key is one that MLflow takes: what it does not allow there is "_", what is no ASCII its bytes
// ("_c3"), a path has no empty, "." and ".." parts, and of more than 250 characters the middle is
// "_".
JsonlFormat mlflow_lines();

}  // namespace longspan
