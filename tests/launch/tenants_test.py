#!/usr/bin/env python3
"""Resuming of every family and layer type: exact on the same layout, to 1e-9 on another.

    tests/launch/tenants_test.py build/launch/longspan
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

ATTENTION = "model.attention.layer_types"
FAMILY = "model.family"


# Layouts that resume a run of two data ranks.
TENSOR = Layout(1, 2)
TIME = Layout(1, 1, context=2)
BOTH = Layout(1, 2, context=2, sequence=True)


class LayerTypes(jobs.TestCase):
    sections = {
        **jobs.TestCase.sections,
        "model": {"family": "decoder", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4,
                  "dropout": 0.1, "norm": {"position": "pre"},
                  # The gradient of a key bias is rounding noise, which Adam scales to full steps.
                  "initializer_range": 0.1},
        "data": {"train": "text.txt", "global_batch_size": 4, "seq_length": 16},
        "training": {"max_steps": 6, "learning_rate": 0.003, "lr_scheduler": {"warmup_steps": 2, "type": "constant"}},
        "precision": {"compute_dtype": "float64"},
        "checkpoint": {"save_interval": 3, "keep_latest": 3},
    }
    variants = {
        "routing": ({ATTENTION: "routing", "model.attention.routing.num_clusters": 2}, TENSOR),
        "strict routing": ({ATTENTION: "[routing, sliding_window]", "model.attention.routing.strictly_causal": True,
                            "model.attention.routing.num_clusters": 2,
                            "model.attention.routing.window_size": 4, "model.attention.sliding_window": 4}, TIME),
        "sinkhorn": ({ATTENTION: "sinkhorn", "model.attention.sinkhorn.block_size": 4, "model.attention.sinkhorn.num_top_blocks": 1}, BOTH),
        "synthesizer": ({ATTENTION: "synthesizer", "model.attention.synthesizer.variants": "[dense, random]"}, BOTH),
        "compressed": ({ATTENTION: "memory_compressed", "model.attention.compression_factor": 2}, TENSOR),
        "lsh": ({ATTENTION: "lsh", "model.attention.lsh.chunk_length": 4, "model.residual.type": "reversible"}, TENSOR),
        "linear": ({ATTENTION: "linear"}, TIME),
        # Redrawn before and after the checkpoint.
        "performer": ({ATTENTION: "performer", "model.attention.random_features.redraw_interval": 2}, BOTH),
        "random features": ({ATTENTION: "rfa", "model.attention.random_features.gated": True}, TIME),
        "adaptive span": ({"model.adaptive_span.type": "adaptive", "model.adaptive_span.max_span": 12,
                           "model.adaptive_span.ramp": 4}, TIME),
        "dynamic span": ({"model.adaptive_span.type": "dynamic", "model.adaptive_span.max_span": 12,
                          "model.adaptive_span.ramp": 4}, TENSOR),
        # The average of the optimizer is clamped, too; otherwise the weights would change on resuming.
        "adaptive span without a schedule": ({"model.adaptive_span.type": "adaptive",
                                              "model.adaptive_span.max_span": 12, "model.adaptive_span.ramp": 4,
                                              "model.adaptive_span.loss_weight": 1.0, "training.learning_rate": 0.1,
                                              "training.optimizer.type": "schedule_free_adamw"}, TENSOR),
        "span and memory": ({FAMILY: "transformer_xl", "model.mem_len": 12, "model.adaptive_span.type": "adaptive",
                             "model.adaptive_span.max_span": 12, "model.adaptive_span.ramp": 4}, BOTH),
        "gates": ({FAMILY: "transformer_xl", "model.mem_len": 8, "model.residual.type": "gated",
                   "memory.recompute_granularity": "full"}, BOTH),
        "slopes": ({"model.position_embedding_type": "alibi", "model.norm.type": "rmsnorm"}, TIME),
        "relative keys": ({"model.position_embedding_type": "relative_key_query", "model.relative_attention_max_distance": 4}, BOTH),
        # The warm-up ends after the checkpoint.
        "power norms": ({"model.norm.type": "powernorm", "model.norm.power_warmup_steps": 4, ATTENTION: "additive"}, BOTH),
        "universal": ({FAMILY: "universal_transformer", "model.num_hidden_layers": 1, "model.recurrence.num_steps": 3}, BOTH),
        "adaptive universal": ({FAMILY: "universal_transformer", "model.num_hidden_layers": 1, "model.recurrence.num_steps": 4,
                                "model.recurrence.type": "act", "memory.recompute_granularity": "full"}, TIME),
    }

    def test_resumed_run_matches_uninterrupted_run(self):
        for name, (settings, other) in self.variants.items():
            with self.subTest(variant=name, other=str(other)):
                directory = name.replace(" ", "-")
                layout = Layout(2, 1)
                settings = {**settings, "parallel.zero_stage": 1}
                result = self.train(directory, layout, settings)
                self.assertNotIn(" is ignored: ", result.output + result.errors)
                run = self.run_at(directory)
                resumed = {"checkpoint.resume_from": run.checkpoint(3), "checkpoint.save_interval": 0}
                self.train(f"{directory}-same", layout, {**settings, "checkpoint.resume_from": run.checkpoint(3)})
                same = self.run_at(f"{directory}-same")
                self.assertEqual(same.metrics_bytes().splitlines(), run.metrics_bytes().splitlines()[3:])
                self.assertEqual(same.state(6), run.state(6))
                self.train(f"{directory}-other", other, {**settings, **resumed})
                lines = self.run_at(f"{directory}-other").metrics()
                for line, reference in zip(lines, run.metrics()[3:], strict=True):
                    for key in "loss", "grad_norm":
                        self.assertAlmostEqual(line[key], reference[key], delta=1e-9 * abs(reference[key]))


if __name__ == "__main__":
    jobs.main()
