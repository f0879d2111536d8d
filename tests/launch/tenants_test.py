#!/usr/bin/env python3
"""Every family and kind of layer, stopped and resumed: bit for bit on the same layout, to 1e-9 on another.

    tests/launch/tenants_test.py build/launch/longspan
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from jobs import Layout

ATTENTION = "model.attention"
FAMILY = "model.family"


# Layouts on which a run of two data ranks goes on.
TENSOR = Layout(1, 2)
TIME = Layout(1, 1, context=2)
BOTH = Layout(1, 2, context=2, sequence=True)


class Tenants(jobs.TestCase):
    sections = {
        **jobs.TestCase.sections,
        "model": {"family": "decoder", "layers": 2, "width": 16, "heads": 4, "dropout": 0.1, "norm": "pre",
                  # The gradient of a bias of keys is rounding alone, of which Adam makes steps.
                  "initial_deviation": 0.1},
        "data": {"train": "text.txt", "batch": 4, "segment": 16},
        "training": {"steps": 6, "learning_rate": 0.003, "warmup": 2, "schedule": "constant"},
        "precision": {"compute": "float64"},
        "checkpoint": {"every": 3, "keep": 3},
    }
    tenants = {
        "routing": ({ATTENTION: "routing", "model.routing_clusters": 2}, TENSOR),
        "strict routing": ({ATTENTION: "[routing, local]", "model.routing_strict": True, "model.routing_clusters": 2,
                            "model.routing_width": 4, "model.attention_window": 3}, TIME),
        "sinkhorn": ({ATTENTION: "sinkhorn", "model.sinkhorn_block": 4, "model.sinkhorn_top": 1}, BOTH),
        "synthesizer": ({ATTENTION: "synthesizer", "model.synthesizer": "[dense, random]"}, BOTH),
        "compressed": ({ATTENTION: "compressed", "model.compressed_width": 2}, TENSOR),
        "lsh": ({ATTENTION: "lsh", "model.lsh_chunk": 4, "model.residual": "reversible"}, TENSOR),
        "linear": ({ATTENTION: "linear"}, TIME),
        # Drawn anew before and after the checkpoint.
        "performer": ({ATTENTION: "performer", "model.performer_redraw": 2}, BOTH),
        "random features": ({ATTENTION: "random_features", "model.random_features_gate": True}, TIME),
        "adaptive span": ({"model.span": "adaptive", "model.span_limit": 12, "model.span_ramp": 4}, TIME),
        "dynamic span": ({"model.span": "dynamic", "model.span_limit": 12, "model.span_ramp": 4}, TENSOR),
        # What its optimizer keeps is held to the range too: else the weights that training reads would change when it resumes.
        "adaptive span without a schedule": ({"model.span": "adaptive", "model.span_limit": 12, "model.span_ramp": 4,
                                              "model.span_penalty": 1.0, "training.learning_rate": 0.1,
                                              "training.optimizer.kind": "schedule_free"}, TENSOR),
        "span and memory": ({FAMILY: "transformer_xl", "model.memory": 12, "model.span": "adaptive",
                             "model.span_limit": 12, "model.span_ramp": 4}, BOTH),
        "gates": ({FAMILY: "transformer_xl", "model.memory": 8, "model.residual": "gated",
                   "memory.recompute": "layer"}, BOTH),
        "slopes": ({"model.positions": "alibi", "model.norm_kind": "rms"}, TIME),
        "relative keys": ({"model.positions": "relative_key_query", "model.relative_reach": 4}, BOTH),
        # The warm-up ends behind the checkpoint.
        "power norms": ({"model.norm_kind": "power", "model.power_warmup": 4, ATTENTION: "additive"}, BOTH),
        "universal": ({FAMILY: "universal_transformer", "model.layers": 1, "model.steps": 3}, BOTH),
        "adaptive universal": ({FAMILY: "universal_transformer", "model.layers": 1, "model.steps": 4,
                                "model.halting": "adaptive", "memory.recompute": "layer"}, TIME),
    }

    def test_go_on_as_if_they_had_not_stopped(self):
        for name, (settings, other) in self.tenants.items():
            with self.subTest(tenant=name, other=str(other)):
                directory = name.replace(" ", "-")
                layout = Layout(2, 1)
                settings = {**settings, "parallel.zero": 1}
                said = self.train(directory, layout, settings)
                self.assertNotIn("is set, but", said.output + said.errors)
                run = self.run_at(directory)
                resumed = {"checkpoint.resume": run.checkpoint(3), "checkpoint.every": 0}
                self.train(f"{directory}-same", layout, {**settings, "checkpoint.resume": run.checkpoint(3)})
                same = self.run_at(f"{directory}-same")
                self.assertEqual(same.metrics_bytes().splitlines(), run.metrics_bytes().splitlines()[3:])
                self.assertEqual(same.state(6), run.state(6))
                self.train(f"{directory}-other", other, {**settings, **resumed})
                lines = self.run_at(f"{directory}-other").metrics()
                for line, reference in zip(lines, run.metrics()[3:], strict=True):
                    for key in "loss", "gradient_norm":
                        self.assertAlmostEqual(line[key], reference[key], delta=1e-9 * abs(reference[key]))


if __name__ == "__main__":
    jobs.main()
