#!/usr/bin/env python3
"""Import and export of decoders with recurrent layers: Qwen 3.5 and Mamba-2.

    tests/launch/import_hybrid_test.py build/launch/longspan

tests/launch/import_test.py compares losses with the package transformers.
"""

import array
import json
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import jobs
from import_test import ImportTestCase, narrow, random_weights, read_safetensors, write_safetensors

# A linear layer with 2 key heads of 4 features and 4 value heads of 3, then a full layer with 4 heads of 4 features.
TEXT = {"model_type": "qwen3_5_text", "vocab_size": 40, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "max_position_embeddings": 64, "layer_types": ["linear_attention", "full_attention"], "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 4, "linear_value_head_dim": 3, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "attention_bias": False, "attn_output_gate": True, "tie_word_embeddings": False, "eos_token_id": 39,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                            "mrope_section": [1, 0, 0], "mrope_interleaved": True}}
IDS = [3, 39, 0, 7, 7, 21, 30, 2, 11]


def text_shapes():
    """Returns {name: shape} of the tensors of such a model in export order."""
    found = {"model.embed_tokens.weight": [40, 8]}
    layers = ({"linear_attn.in_proj_qkv.weight": [28, 8], "linear_attn.in_proj_z.weight": [12, 8], "linear_attn.in_proj_b.weight": [4, 8],
               "linear_attn.in_proj_a.weight": [4, 8], "linear_attn.conv1d.weight": [28, 1, 4], "linear_attn.dt_bias": [4],
               "linear_attn.A_log": [4], "linear_attn.norm.weight": [3], "linear_attn.out_proj.weight": [8, 12]},
              {"self_attn.q_proj.weight": [64, 8], "self_attn.k_proj.weight": [16, 8], "self_attn.v_proj.weight": [16, 8],
               "self_attn.o_proj.weight": [8, 32], "self_attn.q_norm.weight": [8], "self_attn.k_norm.weight": [8]})
    for number, attention in enumerate(layers):
        for name, shape in {"input_layernorm.weight": [8], **attention, "post_attention_layernorm.weight": [8],
                            "mlp.gate_proj.weight": [12, 8], "mlp.up_proj.weight": [12, 8], "mlp.down_proj.weight": [8, 12]}.items():
            found[f"model.layers.{number}.{name}"] = shape
    return {**found, "model.norm.weight": [8], "lm_head.weight": [40, 8]}


class HybridTestCase(ImportTestCase):
    def fine_tune_on_layouts(self):
        """Generates with the imported model, and fine-tunes it to the same loss on each layout."""
        self.longspan("generate", "taken", "--prompt", "17 4", "--max-new-tokens", 5)
        (self.directory / "train.bin").write_bytes(array.array("H", IDS * 20).tobytes())
        settings = {"data.train": "train.bin", "training.init_from.path": "taken", "training.max_steps": 2,
                    "training.lr_scheduler.warmup_steps": 0, "run.num_threads": 1, "data.seq_length": 8, "data.global_batch_size": 2}
        losses = []
        for layout in {}, {"parallel.tensor_parallel_size": 2}, {"parallel.context_parallel_size": 2}:
            name = f"tuned-{len(losses)}"
            self.longspan("train", "taken/config.yaml", *jobs.flat({**settings, **layout, "run.output_dir": name}), ranks=2 if layout else 1)
            losses.append(self.loss(IDS, name))
        for loss in losses[1:]:
            self.assertLess(abs(loss - losses[0]), 1e-5)
        self.assertNotEqual(losses[0], self.loss(IDS))


class ImportHybrids(HybridTestCase):
    def setUp(self):
        super().setUp()
        shapes = text_shapes()
        self.text = {name: ("F32", shapes[name], data) for name, data in random_weights(shapes).items()}

    def write(self, name, config, tensors):
        path = self.directory / name
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        write_safetensors(path / "model.safetensors", tensors)

    def test_round_trip_is_exact(self):
        self.write("model", TEXT, self.text)
        result = self.take()
        self.assertIn("taken: Qwen 3.5, 2 layers, ", result.output)
        self.give()
        self.assertEqual(self.given(), self.text)
        self.assertEqual(list(self.given()), list(self.text))
        config = json.loads((self.directory / "given" / "config.json").read_text())
        self.assertEqual(config["architectures"], ["Qwen3_5ForCausalLM"])
        for key, value in TEXT.items():
            if key not in ("attn_output_gate", "rope_parameters"):
                self.assertEqual(config[key], value, key)
        self.assertEqual(config["rope_parameters"], {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25})
        self.take("given", "again")
        self.assertEqual(self.loss(IDS, "again"), self.loss(IDS))

    def test_small_gains_are_exact_in_bfloat16(self):
        """1 + weight would round weights far below 1."""
        tensors = {name: ("BF16", shape, narrow(data)) for name, (_, shape, data) in self.text.items()}
        small = struct.pack("<8f", *(2.0 ** -power * 1.0078125 for power in range(20, 36, 2)))
        tensors["model.norm.weight"] = ("BF16", [8], narrow(small))
        self.write("model", TEXT, tensors)
        self.take()
        self.give("--dtype", "bfloat16")
        self.assertEqual(self.given(), tensors)

    def test_imports_text_part_of_multimodal_model(self):
        self.write("text", TEXT, self.text)
        self.take("text", "text-taken")
        other = {"model.visual.patch_embed.proj.weight": ("F32", [2, 3], bytes(24)), "mtp.fc.weight": ("F32", [1, 2], bytes(8))}
        inside = {name.replace("model.", "model.language_model.", 1): tensor for name, tensor in self.text.items()}
        self.write("model", {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 5,
                             "tie_word_embeddings": False, "vision_config": {"depth": 1},
                             "text_config": {**TEXT, "mtp_num_hidden_layers": 1, "mamba_ssm_dtype": "float32"}}, {**inside, **other})
        result = self.take()
        self.assertIn("not imported and not exported: model.visual.patch_embed.proj.weight, mtp.fc.weight (unsupported)", result.errors)
        self.assertEqual(self.loss(IDS), self.loss(IDS, "text-taken"))
        self.give()
        self.assertEqual(self.given(), self.text)
        config = json.loads((self.directory / "given" / "config.json").read_text())
        self.assertEqual((config["model_type"], config["eos_token_id"]), ("qwen3_5_text", 39))

    def test_interval_defines_layer_types(self):
        config = {**TEXT, "layer_types": None, "full_attention_interval": 2}
        self.write("model", config, self.text)
        self.take()
        self.write("text", TEXT, self.text)
        self.take("text", "text-taken")
        self.assertEqual(self.loss(IDS), self.loss(IDS, "text-taken"))

    def test_fine_tunes_and_generates(self):
        self.write("model", TEXT, self.text)
        self.take()
        self.fine_tune_on_layouts()
        self.give(run="tuned-1")
        self.assertEqual([(name, shape) for name, (_, shape, _) in self.given().items()],
                         [(name, shape) for name, (_, shape, _) in self.text.items()])

    def test_adapters_join_queries_and_gates_by_head(self):
        self.write("model", TEXT, self.text)
        self.take()
        (self.directory / "train.bin").write_bytes(array.array("H", IDS * 20).tobytes())
        settings = {"data.train": "train.bin", "training.init_from.path": "taken", "training.max_steps": 2, "run.output_dir": "tuned",
                    "training.lr_scheduler.warmup_steps": 0, "run.num_threads": 1, "data.seq_length": 8, "training.learning_rate": 0.1,
                    "training.lora.rank": 2, "training.lora.alpha": 6,
                    "training.lora.target_modules": "[attention/query, attention/output_gate]"}
        self.longspan("train", "taken/config.yaml", *jobs.flat(settings))
        self.give(run="tuned", folder="merged")
        self.give("--adapter-only", "--base-model", "model", run="tuned", folder="adapters")
        adapters = read_safetensors(self.directory / "adapters" / "adapter_model.safetensors")
        name = "model.layers.1.self_attn.q_proj"
        down, up = (array.array("f", adapters[f"base_model.model.{name}.lora_{part}.weight"][2]) for part in "AB")
        base, merged = (array.array("f", tensors[name + ".weight"][2]) for tensors in (self.text, self.given("merged")))
        # A is [4, 8]: two ranks for queries and two for gates; B is [64, 4].
        change = [3 * sum(up[row * 4 + rank] * down[rank * 8 + column] for rank in range(4)) for row in range(64) for column in range(8)]
        self.assertGreater(max(map(abs, change)), 0.01)
        for expected, before, after in zip(change, base, merged):
            self.assertLess(abs(after - before - expected), 1e-5)

    def test_exports_trained_model_with_default_sizes(self):
        """The heads of gated_delta_net are those of attention if no key sets them."""
        (self.directory / "train.bin").write_bytes(array.array("H", IDS * 20).tobytes())
        settings = {"run.output_dir": "mine", "run.num_threads": 1, "data.train": "train.bin", "data.format": "tokens",
                    "data.tokenizer.type": "none", "data.tokenizer.vocab_size": 40, "data.seq_length": 8, "data.global_batch_size": 1,
                    "training.max_steps": 2, "training.lr_scheduler.warmup_steps": 0, "model.family": "decoder",
                    "model.num_hidden_layers": 2, "model.hidden_size": 8, "model.num_attention_heads": 2, "model.intermediate_size": 12,
                    "model.activation": "swiglu", "model.mlp_bias": False, "model.norm.type": "rmsnorm", "model.norm.position": "pre",
                    "model.norm.eps": 1e-6, "model.norm.zero_centered": True, "model.position_embedding_type": "rope",
                    "model.rope.partial_rotary_factor": 0.5, "model.attention.layer_types": "[gated_delta_net, full]",
                    "model.attention.qk_norm": True, "model.attention.output_gate": True, "model.attention.bias": "[]"}
        (self.directory / "mine.yaml").write_text("{}")
        self.longspan("train", "mine.yaml", *jobs.flat(settings))
        self.give(run="mine")
        config = json.loads((self.directory / "given" / "config.json").read_text())
        self.assertEqual([config[f"linear_{key}"] for key in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")],
                         [2, 2, 4, 4])
        self.take("given", "again")
        self.assertEqual(self.loss(IDS, "again"), self.loss(IDS, "mine"))

    def test_rejects_unsupported_configs(self):
        for number, (change, part) in enumerate((
                ({"attention_bias": True}, '"attention_bias": expected false, found true'),
                ({"attn_output_gate": False}, '"attn_output_gate": expected true, found false'),
                ({"hidden_act": "gelu"}, '"hidden_act": expected silu'),
                ({"layer_types": ["linear_attention", "sliding_attention"]}, '"layer_types": expected linear_attention or full_attention'),
                ({"layer_types": ["linear_attention"]}, '"layer_types": expected one for each of 2 layers, found 1'),
                ({"linear_num_key_heads": 3}, '"linear_num_key_heads": expected a divisor of linear_num_value_heads (4), found 3'),
                ({"model_type": "qwen3_next"}, "the mixture-of-experts layers of qwen3_next are not supported; import a dense model"),
                ({"model_type": "qwen3_5_moe"}, "the mixture-of-experts layers of qwen3_5_moe are not supported"))):
            with self.subTest(part):
                self.write(f"model-{number}", {**TEXT, **change}, self.text)
                self.assert_one_sentence(self.take(f"model-{number}", "no", code=3), f"model-{number}/config.json: ", part)


# 6 heads of 8 features in 2 groups.
MAMBA = {"model_type": "mamba2", "vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 2, "num_heads": 6, "head_dim": 8,
         "state_size": 5, "n_groups": 2, "conv_kernel": 4, "expand": 2, "use_bias": False, "use_conv_bias": True, "hidden_act": "silu",
         "layer_norm_epsilon": 1e-5, "tie_word_embeddings": False}


def mamba_shapes():
    """Returns {name: shape} of the tensors of such a model in export order."""
    found = {"backbone.embeddings.weight": [40, 24]}
    for layer in range(2):
        mixer = {"dt_bias": [6], "A_log": [6], "D": [6], "conv1d.weight": [68, 1, 4], "conv1d.bias": [68], "in_proj.weight": [122, 24],
                 "norm.weight": [48], "out_proj.weight": [24, 48]}
        found[f"backbone.layers.{layer}.norm.weight"] = [24]
        found.update({f"backbone.layers.{layer}.mixer.{name}": shape for name, shape in mixer.items()})
    return {**found, "backbone.norm_f.weight": [24], "lm_head.weight": [40, 24]}


class ImportMamba(HybridTestCase):
    def setUp(self):
        super().setUp()
        shapes = mamba_shapes()
        self.tensors = {name: ("F32", shapes[name], data) for name, data in random_weights(shapes).items()}

    def write(self, name, config):
        path = self.directory / name
        path.mkdir()
        (path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
        write_safetensors(path / "model.safetensors", self.tensors)

    def test_round_trip_is_exact(self):
        # As transformers 4 and 5 write it: JSON has no Infinity.
        self.write("model", json.dumps({**MAMBA, "time_step_limit": [0.0, float("inf")]}))
        self.write("model-5", {**MAMBA, "time_step_limit": [0.0, {"__float__": "Infinity"}]})
        self.take("model-5", "taken-5")
        self.assertIn("taken: Mamba-2, 2 layers, ", self.take().output)
        self.give()
        self.assertEqual(self.given(), self.tensors)
        config = json.loads((self.directory / "given" / "config.json").read_text())
        self.assertEqual(config["architectures"], ["Mamba2ForCausalLM"])
        for key, value in MAMBA.items():
            self.assertEqual(config[key], value, key)
        self.take("given", "again")
        self.assertEqual(self.loss(IDS, "again"), self.loss(IDS))

    def test_exports_trained_model_with_default_sizes(self):
        (self.directory / "train.bin").write_bytes(array.array("H", IDS * 20).tobytes())
        settings = {"run.output_dir": "mine", "run.num_threads": 1, "data.train": "train.bin", "data.format": "tokens",
                    "data.tokenizer.type": "none", "data.tokenizer.vocab_size": 40, "data.seq_length": 8, "data.global_batch_size": 1,
                    "training.max_steps": 2, "training.lr_scheduler.warmup_steps": 0, "model.family": "decoder",
                    "model.num_hidden_layers": 2, "model.hidden_size": 32, "model.num_attention_heads": 2, "model.intermediate_size": 0,
                    "model.norm.type": "rmsnorm", "model.norm.position": "pre", "model.position_embedding_type": "rope",
                    "model.attention.layer_types": "[mamba2]", "model.attention.bias": "[]"}
        (self.directory / "mine.yaml").write_text("{}")
        self.longspan("train", "mine.yaml", *jobs.flat(settings))
        self.give(run="mine")
        config = json.loads((self.directory / "given" / "config.json").read_text())
        self.assertEqual([config[key] for key in ("num_heads", "head_dim", "state_size", "n_groups", "expand")], [1, 64, 128, 1, 2])
        self.take("given", "again")
        self.assertEqual(self.loss(IDS, "again"), self.loss(IDS, "mine"))

    def test_step_limits_change_the_model(self):
        self.write("model", {**MAMBA, "time_step_limit": [0.6, 0.65]})
        self.take()
        self.give()
        config = json.loads((self.directory / "given" / "config.json").read_text())
        self.assertEqual(config["time_step_limit"], [0.6, 0.65])
        self.write("without", MAMBA)
        self.take("without", "other")
        self.assertNotEqual(self.loss(IDS, "other"), self.loss(IDS))

    def test_fine_tunes_and_generates(self):
        self.write("model", MAMBA)
        self.take()
        self.fine_tune_on_layouts()

    def test_rejects_unsupported_configs(self):
        for number, (change, part) in enumerate((
                ({"use_bias": True}, '"use_bias": expected false, found true'),
                ({"hidden_act": "gelu"}, '"hidden_act": expected silu'),
                ({"num_heads": 5}, '"num_heads": expected hidden_size * expand = 48 divided by head_dim = 8, found 5'),
                ({"time_step_limit": [2, 1]}, '"time_step_limit": expected [least, most]'))):
            with self.subTest(part):
                self.write(f"model-{number}", {**MAMBA, **change})
                self.assert_one_sentence(self.take(f"model-{number}", "no", code=3), f"model-{number}/config.json: ", part)


if __name__ == "__main__":
    jobs.main()
