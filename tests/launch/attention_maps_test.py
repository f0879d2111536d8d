#!/usr/bin/env python3
"""`longspan attention-maps`: attention weights of heads on a text.

    tests/launch/attention_maps_test.py build/launch/longspan
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs


class AttentionMaps(jobs.TestCase):
    def attention(self, *arguments):
        output = self.longspan("attention-maps", *arguments).output
        return json.loads((self.directory / output.strip()).read_text())

    def assert_causal(self, weights):
        """Checks that each row sums to 1 and attends only to its own and earlier positions."""
        for query, row in enumerate(weights):
            self.assertAlmostEqual(sum(row), 1, delta=1e-4)
            self.assertGreater(min(row[:query + 1]), 0)
            self.assertEqual(row[query + 1:], [0] * (len(row) - query - 1))

    def test_writes_causal_weights_of_selected_heads(self):
        self.train()
        text = (self.directory / "text.txt").read_text()
        found = self.attention("run", "--text", "text.txt", "--heads", "1:3,0:0", "--max-tokens", 13)
        self.assertEqual((found["step"], found["text"]), (8, "text.txt"))
        self.assertEqual(found["tokens"], list(text[:13]))
        self.assertEqual([(one["layer"], one["head"]) for one in found["maps"]], [(0, 0), (1, 3)])
        for one in found["maps"]:
            self.assertEqual(len(one["weights"]), 13)
            self.assert_causal(one["weights"])
        self.assertNotEqual(found["maps"][0]["weights"], found["maps"][1]["weights"])
        self.assertEqual([path.name for path in (self.directory / "run" / "attention").iterdir()], ["step-000000008.json"])

    def test_sliding_window_limits_nonzero_weights(self):
        sections = json.loads((self.directory / "tiny.yaml").read_text())
        del sections["model"]["mem_len"]
        sections["model"].update({"family": "decoder", "attention": {"layer_types": "sliding_window", "sliding_window": 4}})
        (self.directory / "tiny.yaml").write_text(json.dumps(sections))
        self.train()
        [one] = self.attention("run", "--text", "text.txt", "--heads", "0:1", "--max-tokens", 8)["maps"]
        for query, row in enumerate(one["weights"]):
            attended = [key for key, weight in enumerate(row) if weight > 0]
            self.assertEqual(attended[-1], query)
            self.assertLessEqual(len(attended), 4)
            self.assertAlmostEqual(sum(row), 1, delta=1e-4)

    def test_rejects_invalid_heads_and_files(self):
        self.train()
        for heads, *parts in (("2:0", "--heads: expected an attention layer from 0 to 1, found 2:0"),
                              ("0:4", "attention layer 0 has heads 0 to 3, requested head 4"),
                              ("1", "--heads: expected LAYER:HEAD"), ("a:0", "found a:0"), ("0:-1", "found 0:-1")):
            with self.subTest(heads):
                self.assert_one_sentence(self.longspan("attention-maps", "run", "--text", "text.txt", "--heads", heads, code=2), *parts)
        self.assert_one_sentence(self.longspan("attention-maps", "run", "--text", "nowhere.txt", "--heads", "0:0", code=3), "nowhere.txt")
        self.assert_one_sentence(self.longspan("attention-maps", "run", "--text", "text.txt", "--heads", "0:0", ranks=2, code=2), "expected 1 rank, found 2")
        self.assertFalse((self.directory / "run" / "attention").exists())


if __name__ == "__main__":
    jobs.main()
