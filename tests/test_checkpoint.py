"""Checkpoints: every name and layout read right, every damage refused by name."""

import dataclasses
import json
import shutil
import struct
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from labkit import checkpoint, trained
from labkit.checkpoint import find_tensors, load, load_tokenizer, read_config, read_header, read_tensor, stop_tokens
from labkit.model import ModelConfig, forward, named_tensors
from labkit.tokenizer import Tokenizer

GPT2 = {"model_type": "gpt2", "vocab_size": 37, "n_embd": 20, "n_layer": 2, "n_head": 4, "n_inner": 44}
GPT2 |= {"n_positions": 41, "layer_norm_epsilon": 1e-3, "activation_function": "gelu_new"}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 37, "hidden_size": 20}
LLAMA |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6}
LLAMA |= {"intermediate_size": 44, "max_position_embeddings": 41, "rms_norm_eps": 1e-3, "rope_theta": 500.0}
MISTRAL = LLAMA | {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 5}
QWEN2 = LLAMA | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "use_sliding_window": False}
QWEN3 = LLAMA | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
TOKENS = np.random.default_rng(3).integers(0, 37, (2, 13))


def gpt2_tensors(rng):
    """Return a GPT-2's tensors under their published names, all of them away from their defaults."""
    shapes = {"wte.weight": (37, 20), "wpe.weight": (41, 20), "ln_f.weight": (20,), "ln_f.bias": (20,)}
    for layer in range(2):
        parts = {"ln_1.weight": (20,), "ln_1.bias": (20,), "attn.c_attn.weight": (20, 60), "attn.c_attn.bias": (60,)}
        parts |= {"attn.c_proj.weight": (20, 20), "attn.c_proj.bias": (20,), "ln_2.weight": (20,), "ln_2.bias": (20,)}
        parts |= {"mlp.c_fc.weight": (20, 44), "mlp.c_fc.bias": (44,)}
        parts |= {"mlp.c_proj.weight": (44, 20), "mlp.c_proj.bias": (20,)}
        shapes |= {f"h.{layer}.{name}": shape for name, shape in parts.items()}
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def llama_tensors(rng, biases="", qk_norm=False, tied=False):
    """Return the tensors of a Llama, or of a relative, under their published names."""
    shapes = {"model.embed_tokens.weight": (37, 20), "model.norm.weight": (20,)}
    shapes |= {} if tied else {"lm_head.weight": (37, 20)}
    for layer in range(2):
        parts = {"input_layernorm.weight": (20,), "post_attention_layernorm.weight": (20,)}
        wide = {"q": (24, 20), "k": (12, 20), "v": (12, 20), "o": (20, 24)}
        parts |= {f"self_attn.{which}_proj.weight": shape for which, shape in wide.items()}
        parts |= {f"self_attn.{which}_proj.bias": wide[which][:1] for which in biases}
        parts |= {f"self_attn.{which}_norm.weight": (6,) for which in ("qk" if qk_norm else "")}
        parts |= {"mlp.gate_proj.weight": (44, 20), "mlp.up_proj.weight": (44, 20), "mlp.down_proj.weight": (20, 44)}
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in parts.items()}
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def write(folder, config, tensors, dtype=np.float32):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: array.astype(dtype) for name, array in tensors.items()}, folder / "model.safetensors")
    return folder


def write_raw(file, header, data, length=None):
    """Write a file in the safetensors layout with whatever header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def llama(tmp_path, rng):
    tensors = llama_tensors(rng)
    return write(tmp_path / "llama", LLAMA, tensors), tensors


def test_gpt2_by_hand(tmp_path, rng):
    stored = gpt2_tensors(rng)
    params, config = load(write(tmp_path / "gpt2", GPT2, stored))
    ours = named_tensors(params)
    assert config == ModelConfig(
        vocab_size=37,
        d_model=20,
        n_layers=2,
        n_heads=4,
        d_ff=44,
        max_len=41,
        eps=1e-3,
        norm="layer",
        ffn="gelu",
        gelu="tanh",
        positions="learned",
        tied=True,
        attention_bias=True,
        output_bias=True,
        ffn_bias=True,
    )
    c_attn = stored["h.1.attn.c_attn.weight"]  # stored [d_in, d_out]: used as it is
    np.testing.assert_array_equal(ours["blocks.1.attention.w_k"], c_attn[:, 20:40])
    np.testing.assert_array_equal(ours["blocks.1.attention.b_v"], stored["h.1.attn.c_attn.bias"][40:])
    np.testing.assert_array_equal(ours["blocks.0.ffn.w_up"], stored["h.0.mlp.c_fc.weight"])
    np.testing.assert_array_equal(ours["blocks.0.attention.b_o"], stored["h.0.attn.c_proj.bias"])
    np.testing.assert_array_equal(ours["positions"], stored["wpe.weight"])
    assert sum(array.size for array in ours.values()) == sum(array.size for array in stored.values())
    x = np.zeros(20, np.float32)
    x[0] = 1
    np.testing.assert_array_equal(x @ ours["blocks.0.attention.w_q"], stored["h.0.attn.c_attn.weight"][0, :20])


def test_llama_by_hand(llama):
    folder, stored = llama
    params, config = load(folder)
    ours = named_tensors(params)
    assert config == ModelConfig(
        vocab_size=37,
        d_model=20,
        n_layers=2,
        n_heads=4,
        n_kv_heads=2,
        d_head=6,
        d_ff=44,
        max_len=41,
        eps=1e-3,
        base=500.0,
    )
    np.testing.assert_array_equal(ours["blocks.1.attention.w_k"], stored["model.layers.1.self_attn.k_proj.weight"].T)
    np.testing.assert_array_equal(ours["blocks.0.ffn.w_gate"], stored["model.layers.0.mlp.gate_proj.weight"].T)
    np.testing.assert_array_equal(ours["blocks.0.ffn.w_up"], stored["model.layers.0.mlp.up_proj.weight"].T)
    np.testing.assert_array_equal(
        ours["blocks.1.ffn_norm.weight"], stored["model.layers.1.post_attention_layernorm.weight"]
    )
    np.testing.assert_array_equal(ours["head"], stored["lm_head.weight"])
    assert sum(array.size for array in ours.values()) == sum(array.size for array in stored.values())
    assert forward(params, config, TOKENS).dtype == np.float32


RELATIVES = {
    "llama with biases": (
        LLAMA | {"attention_bias": True},
        {"biases": "qkvo"},
        {"attention_bias": True, "output_bias": True},
    ),
    "llama tied": (LLAMA | {"tie_word_embeddings": True}, {"tied": True}, {"tied": True}),
    "mistral": (MISTRAL, {}, {"window": 5}),
    "mistral without a window": (MISTRAL | {"sliding_window": None}, {}, {"window": None}),
    "qwen2": (QWEN2, {"biases": "qkv"}, {"attention_bias": True, "output_bias": False, "window": None}),
    "qwen2 window unused": (QWEN2 | {"sliding_window": 7}, {"biases": "qkv"}, {"window": None}),
    "qwen2 window from layer 28": (
        QWEN2 | {"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 28},
        {"biases": "qkv"},
        {"window": None},
    ),
    "qwen2 window everywhere": (
        QWEN2 | {"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 0},
        {"biases": "qkv"},
        {"window": 7},
    ),
    "qwen3": (QWEN3, {"qk_norm": True}, {"qk_norm": True, "attention_bias": False, "d_head": 6}),
    "qwen3 layer types": (QWEN3 | {"layer_types": ["full_attention"] * 2}, {"qk_norm": True}, {"window": None}),
    "swish": (LLAMA | {"hidden_act": "swish"}, {}, {"ffn": "swiglu"}),
    "no architectures": ({k: v for k, v in LLAMA.items() if k != "architectures"}, {}, {"positions": "rope"}),
    "no model_type": ({k: v for k, v in LLAMA.items() if k != "model_type"}, {}, {"positions": "rope"}),
}


@pytest.mark.parametrize(("raw", "kind", "wanted"), RELATIVES.values(), ids=RELATIVES)
def test_relatives(tmp_path, rng, raw, kind, wanted):
    stored = llama_tensors(rng, **kind)
    params, config = load(write(tmp_path / "model", raw, stored))
    assert {name: getattr(config, name) for name in wanted} == wanted
    ours = named_tensors(params)
    assert sum(array.size for array in ours.values()) == sum(array.size for array in stored.values())
    if "biases" in kind:
        stored_bias = stored["model.layers.1.self_attn.k_proj.bias"]
        np.testing.assert_array_equal(ours["blocks.1.attention.b_k"], stored_bias)
    if "qk_norm" in kind:
        np.testing.assert_array_equal(
            ours["blocks.1.attention.q_norm"], stored["model.layers.1.self_attn.q_norm.weight"]
        )
    assert np.isfinite(forward(params, config, TOKENS)).all()


ROPES = {
    "none": ({}, 500.0, None),
    "newer default": ({"rope_parameters": {"rope_type": "default", "rope_theta": 700.0}}, 700.0, None),
    "linear, older": ({"rope_scaling": {"type": "linear", "factor": 3.0}}, 500.0, {"kind": "linear", "factor": 3.0}),
    "dynamic, older": (
        {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
        500.0,
        {"kind": "dynamic", "factor": 2.0, "original_max_len": 41},
    ),
    "yarn, older": (
        {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "finetuned": True}},
        500.0,
        {"kind": "yarn", "factor": 4.0, "original_max_len": 16},
    ),
    "yarn, newer, every setting": (
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 900.0,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "beta_fast": 8.0,
                "beta_slow": 2.0,
                "mscale": 0.7,
                "mscale_all_dim": 0.9,
                "truncate": False,
                "attention_factor": None,
            }
        },
        900.0,
        {
            "kind": "yarn",
            "factor": 4.0,
            "original_max_len": 16,
            "beta_fast": 8.0,
            "beta_slow": 2.0,
            "mscale": 0.7,
            "mscale_all_dim": 0.9,
            "truncate": False,
        },
    ),
    "yarn without a factor": (
        {"rope_parameters": {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 16}},
        500.0,
        {"kind": "yarn", "factor": 41 / 16, "original_max_len": 16},
    ),
    "llama3": (
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.5,
                "high_freq_factor": 4.5,
                "original_max_position_embeddings": 20,
            }
        },
        500.0,
        {"kind": "llama3", "factor": 8.0, "low_freq_factor": 1.5, "high_freq_factor": 4.5, "original_max_len": 20},
    ),
}


@pytest.mark.parametrize(("change", "base", "scaling"), ROPES.values(), ids=ROPES)
def test_rope_settings(llama, change, base, scaling):
    folder, _ = llama
    (folder / "config.json").write_text(json.dumps(LLAMA | change))
    config = read_config(folder)
    assert config.base == base
    expected = dataclasses.replace(config, rope_scaling=scaling)
    assert config.rope_scaling == expected.rope_scaling
    assert (config.rope_scaling is None) == (scaling is None)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"activation_function": "gelu"}, {"gelu": "none"}),
        ({"activation_function": "gelu_pytorch_tanh"}, {"gelu": "tanh"}),
        ({"n_inner": None}, {"d_ff": 80}),
        ({"tie_word_embeddings": False}, {"tied": False}),
    ],
)
def test_gpt2_settings(tmp_path, rng, change, wanted):
    folder = write(tmp_path / "gpt2", GPT2 | change, gpt2_tensors(rng))
    config = read_config(folder)
    assert {name: getattr(config, name) for name in wanted} == wanted


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_gpt2_prefix_buffers_and_second_head(tmp_path, rng, prefix):
    stored = gpt2_tensors(rng)
    expected = load(write(tmp_path / "plain", GPT2, stored))
    more = {f"{prefix}{name}": array for name, array in stored.items()}
    more[f"{prefix}h.0.attn.bias"] = np.tril(np.ones((1, 1, 41, 41), np.float32))  # a mask, not a bias
    more[f"{prefix}h.1.attn.masked_bias"] = np.array(-1e4, np.float32)
    more["lm_head.weight"] = stored["wte.weight"].copy()
    params, config = load(write(tmp_path / "more", GPT2, more))
    np.testing.assert_array_equal(forward(params, config, TOKENS), forward(*expected, TOKENS))
    assert params.head is None


def test_a_mask_buffer_may_be_of_any_dtype(tmp_path, rng):
    folder = write(tmp_path / "gpt2", GPT2, gpt2_tensors(rng))
    stored = load_file(folder / "model.safetensors") | {"h.0.attn.bias": np.ones((1, 1, 41, 41), np.uint8)}
    save_file(stored, folder / "model.safetensors")
    assert load(folder)[1].n_layers == 2


def test_llama_without_prefix_and_with_old_frequencies(llama):
    folder, stored = llama
    expected = forward(*load(folder), TOKENS)
    bare = {name.removeprefix("model."): array for name, array in stored.items()}
    bare["layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(3, np.float32)
    np.testing.assert_array_equal(forward(*load(write(folder, LLAMA, bare)), TOKENS), expected)


def test_float16_is_widened_exactly(llama):
    folder, stored = llama
    params, _ = load(write(folder, LLAMA, stored, np.float16))
    widened = stored["lm_head.weight"].astype(np.float16).astype(np.float32)
    assert params.head.dtype == np.float32
    np.testing.assert_array_equal(params.head, widened)
    assert not np.array_equal(params.head, stored["lm_head.weight"])


def test_bfloat16_by_hand(tmp_path):
    file = tmp_path / "x.safetensors"
    bits = np.array([0x3F80, 0xC020, 0x0001, 0x7F7F, 0x8000, 0x3DCD], "<u2")  # 1, −2.5, tiny, huge, −0, 0.1 or so
    write_raw(file, {"x": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}, bits.tobytes())
    values = read_tensor(read_header(file)["x"])
    assert values.dtype == np.float32
    expected = [[1, -2.5, 2.0**-133], [255 * 2.0**120, -0.0, 0.1000976562]]
    np.testing.assert_allclose(values, expected, rtol=1e-7)
    assert np.signbit(values[1, 1])


def test_chunks_join(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_CHUNK", 7)
    array = np.random.default_rng(0).normal(size=(5, 11)).astype(np.float32)
    save_file({"x": array, "y": array[:1] * 2}, tmp_path / "x.safetensors")
    tensors = read_header(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(read_tensor(tensors["x"]), array)
    np.testing.assert_array_equal(read_tensor(tensors["y"]), array[:1] * 2)


def test_the_header_is_read_as_the_safetensors_package_reads_it(llama):
    folder, stored = llama
    tensors, theirs = find_tensors(folder), load_file(folder / "model.safetensors")
    assert tensors.keys() == theirs.keys() == stored.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(read_tensor(tensor), theirs[name])


def shard(folder, stored):
    """Split a checkpoint into two files and an index."""
    names = sorted(stored)
    files = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, held in files.items():
        save_file({name: stored[name] for name in held}, folder / file)
    places = {name: file for file, held in files.items() for name in held}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "model.safetensors").unlink()
    return places


def test_sharded(llama):
    folder, stored = llama
    expected = forward(*load(folder), TOKENS)
    shard(folder, stored)
    np.testing.assert_array_equal(forward(*load(folder), TOKENS), expected)


SHARDS = {
    "a file outside": (
        lambda p, f: p.update({"lm_head.weight": "../model.safetensors"}),
        "expected a .safetensors file beside",
    ),
    "an absolute path": (
        lambda p, f: p.update({"lm_head.weight": "/etc/passwd"}),
        "expected a .safetensors file beside",
    ),
    "a pickle": (lambda p, f: p.update({"lm_head.weight": "pytorch_model.bin"}), "expected a .safetensors file beside"),
    "a number": (lambda p, f: p.update({"lm_head.weight": 3}), "expected a .safetensors file beside"),
    "a missing file": (lambda p, f: p.update(ghost="a.safetensors"), r"a.safetensors is missing"),
    "not listed": (lambda p, f: p.pop("lm_head.weight"), "'lm_head.weight', but model.safetensors.index.json does not"),
    "nowhere": (lambda p, f: p.update({"ghost": "model-00001-of-00002.safetensors"}), "'ghost'.*does not hold it"),
    "elsewhere": (
        lambda p, f: p.update({"lm_head.weight": "model-00002-of-00002.safetensors"}),
        r"places it in model-00002-of-00002",
    ),
    "empty": (lambda p, f: p.clear(), "no weight_map"),
}


@pytest.mark.parametrize(("change", "said"), SHARDS.values(), ids=SHARDS)
def test_hostile_indexes(llama, change, said):
    folder, stored = llama
    places = shard(folder, stored)
    change(places, folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ValueError, match=said):
        load(folder)


TENSORS = {
    "missing": (
        lambda t: t.pop("model.layers.1.mlp.up_proj.weight"),
        r"'model.layers.1.mlp.up_proj.weight' is missing, expected in shape \(44, 20\)",
    ),
    "no head": (lambda t: t.pop("lm_head.weight"), r"'lm_head.weight' is missing.*does not tie"),
    "extra": (lambda t: t.update(score=np.ones(3, np.float32)), "'score' is unexpected"),
    "an extra layer": (
        lambda t: t.update({"model.layers.2.input_layernorm.weight": np.ones(20, np.float32)}),
        "'model.layers.2.input_layernorm.weight' is unexpected",
    ),
    "a bias": (
        lambda t: t.update({"model.layers.0.self_attn.q_proj.bias": np.ones(24, np.float32)}),
        "q_proj.bias' is unexpected",
    ),
    "a mask in a Llama": (lambda t: t.update({"model.layers.0.attn.bias": np.ones(2, np.float32)}), "is unexpected"),
    "transposed": (
        lambda t: t.update({"model.layers.0.mlp.up_proj.weight": np.ones((20, 44), np.float32)}),
        r"has shape \(20, 44\), expected \(44, 20\)",
    ),
    "flat": (
        lambda t: t.update({"model.norm.weight": np.ones((1, 20), np.float32)}),
        r"'model.norm.weight' has shape \(1, 20\), expected \(20,\)",
    ),
    "padded": (
        lambda t: t.update({"model.embed_tokens.weight": np.ones((40, 20), np.float32)}),
        r"has shape \(40, 20\), expected \(37, 20\)",
    ),
    "NaN": (lambda t: t["lm_head.weight"].__setitem__((36, 19), np.nan), "lm_head.weight holds NaN or infinity"),
    "infinity": (lambda t: t["model.norm.weight"].__setitem__(0, -np.inf), "model.norm.weight holds NaN or infinity"),
    "float64": (
        lambda t: t.update({"model.norm.weight": np.ones(20)}),
        "model.norm.weight is stored as F64, expected one of F32, F16, BF16",
    ),
    "integers": (lambda t: t.update({"model.norm.weight": np.ones(20, np.int8)}), "model.norm.weight is stored as I8"),
}


@pytest.mark.parametrize(("change", "said"), TENSORS.values(), ids=TENSORS)
def test_wrong_tensors(tmp_path, rng, change, said):
    stored = llama_tensors(rng)
    change(stored)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    save_file(stored, folder / "model.safetensors")
    with pytest.raises(ValueError, match=said):
        load(folder)


def test_a_tied_head_that_differs(tmp_path, rng):
    with pytest.raises(ValueError, match=r"'lm_head.weight' differs from the embedding"):
        load(write(tmp_path / "m", LLAMA | {"tie_word_embeddings": True}, llama_tensors(rng)))


CONFIGS = {
    "architecture": ({"model_type": "bert"}, "model_type must be one of 'gpt2', .*, got 'bert'"),
    "no architecture": ({"model_type": None, "architectures": []}, "model_type must be one of"),
    "activation": ({"hidden_act": "relu"}, "hidden_act must be one of 'silu', 'swish', got 'relu'"),
    "scaling": ({"rope_scaling": {"type": "longrope", "factor": 2.0}}, "rope_type must be one of .*, got 'longrope'"),
    "scaling without factor": ({"rope_scaling": {"type": "linear"}}, "factor must be a finite number"),
    "scaling unknown": ({"rope_scaling": {"rope_type": "default", "mrope_section": [2]}}, "has 'mrope_section'"),
    "scaling list": ({"rope_scaling": [1]}, "rope_parameters must be an object"),
    "partial rotary": ({"partial_rotary_factor": 0.5}, "partial_rotary_factor must be 1, got 0.5"),
    "partial rotary, newer": ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor must be 1"),
    "base": ({"rope_theta": 0.5}, "base must be"),
    "base text": ({"rope_theta": "1e4"}, "base must be"),
    "heads": ({"num_attention_heads": 0}, "n_heads must be an integer of at least 1, got 0"),
    "group": ({"num_key_value_heads": 3}, "n_heads must be divisible by n_kv_heads"),
    "fraction": ({"hidden_size": 20.0}, "d_model must be an integer"),
    "text": ({"hidden_size": "20"}, "d_model must be an integer"),
    "odd head": ({"head_dim": 5}, "d_head"),
    "negative": ({"vocab_size": -1}, "vocab_size must be an integer of at least 1"),
    "eps": ({"rms_norm_eps": -1e-5}, "eps must be a finite number of at least 0"),
    "eps infinite": ({"rms_norm_eps": float("inf")}, "eps must be a finite number"),
    "ffn bias": ({"mlp_bias": True}, "mlp_bias must be False, got True"),
    "bias text": ({"attention_bias": "yes"}, "attention_bias must be one of True, False"),
    "quantised": ({"quantization_config": {"bits": 4}}, "quantised"),
    "many layers": ({"num_hidden_layers": 10**9}, "n_layers = 1000000000, but there are only 21 tensors"),
    "more layers": ({"num_hidden_layers": 3}, "'model.layers.2.input_layernorm.weight' is missing"),
    "fewer layers": ({"num_hidden_layers": 1}, r"'model.layers.1.\S+' is unexpected"),
    "window of Llama": ({"sliding_window": 4}, "sliding_window must be None, got 4"),
}


@pytest.mark.parametrize(("change", "said"), CONFIGS.values(), ids=CONFIGS)
def test_wrong_configs(llama, change, said):
    folder, _ = llama
    (folder / "config.json").write_text(json.dumps(LLAMA | change))
    with pytest.raises(ValueError, match=said):
        load(folder)


OTHER_CONFIGS = {
    "mixed windows": (QWEN3 | {"layer_types": ["full_attention", "sliding_attention"]}, "the same for all layers"),
    "some windows": (
        QWEN2 | {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
        "layer_types must be the same for all layers, got full_attention, sliding_attention",
    ),
    "linear attention": (QWEN3 | {"layer_types": ["linear_attention"] * 2}, "got linear_attention"),
    "mistral heads": (
        {k: v for k, v in MISTRAL.items() if k != "num_key_value_heads"},
        "num_key_value_heads is missing",
    ),
    "window 0": (MISTRAL | {"sliding_window": 0}, "window must be an integer of at least 1"),
    "gpt2 activation": (GPT2 | {"activation_function": "relu"}, "activation_function must be one of"),
    "gpt2 scores": (GPT2 | {"scale_attn_weights": False}, "scale_attn_weights must be True, got False"),
    "gpt2 scores by layer": (GPT2 | {"scale_attn_by_inverse_layer_idx": True}, "must be False, got True"),
    "gpt2 width": (GPT2 | {"n_embd": None}, "n_embd must be an integer"),
}


@pytest.mark.parametrize(("raw", "said"), OTHER_CONFIGS.values(), ids=OTHER_CONFIGS)
def test_wrong_configs_of_the_others(tmp_path, raw, said):
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=said):
        read_config(tmp_path)


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"])
def test_a_size_is_never_guessed(llama, key):
    folder, _ = llama
    (folder / "config.json").write_text(json.dumps({k: v for k, v in LLAMA.items() if k != key}))
    with pytest.raises(ValueError, match=f"config.json: {key} is missing"):
        load(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "config.json is not JSON"),
        (b"{", "config.json is not JSON"),
        (b"[]", "config.json must be a JSON object, got list"),
        (b"[" * 100_000, "config.json is not JSON"),
        (b"\xff\xfe{}", "config.json is not JSON"),
        (b'{"model_type": "llama", "model_type": "gpt2"}', "'model_type' is there twice"),
    ],
)
def test_a_damaged_config(llama, content, said):
    folder, _ = llama
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        load(folder)


X = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
FILES = {
    "empty": (b"", "truncated or no safetensors"),
    "short": (b"\x10\0\0", "truncated or no safetensors"),
    "length past the end": ((X, bytes(24), 10**6), "its header claims 1000000"),
    "enormous length": ((X, bytes(24), 2**63), "its header claims 9223372036854775808"),
    "no JSON": ((b"{'x': 1}", b""), "is not JSON"),
    "not UTF-8": ((b'{"\xff": 1}', b""), "is not JSON"),
    "deep": ((b"[" * 100_000, b""), "is not JSON"),
    "a list": (([X], bytes(24)), "must be a JSON object, got list"),
    "twice": ((b'{"x": 1, "x": 2}', b""), "'x' is there twice"),
    "no object": (({"x": 3}, b""), r"needs data_offsets \[first, last\], got None"),
    "one offset": (({"x": X | {"data_offsets": [0]}}, bytes(24)), r"needs data_offsets \[first, last\], got \[0\]"),
    "negative offset": (({"x": X | {"data_offsets": [-24, 0]}}, bytes(24)), "needs data_offsets"),
    "fraction": (({"x": X | {"data_offsets": [0, 24.0]}}, bytes(24)), "needs data_offsets"),
    "a true offset": (({"x": X | {"data_offsets": [False, 24]}}, bytes(24)), "needs data_offsets"),
    "backwards": (({"x": X | {"data_offsets": [24, 0]}}, bytes(24)), "should take bytes 0 to 24"),
    "too few bytes": (({"x": X | {"data_offsets": [0, 20]}}, bytes(20)), "should take bytes 0 to 24, .* 0 to 20"),
    "a gap": (({"x": X | {"data_offsets": [4, 28]}}, bytes(28)), "should take bytes 0 to 24"),
    "an overlap": (({"x": X, "y": X | {"data_offsets": [12, 36]}}, bytes(36)), "'y' should take bytes 24 to 48"),
    "the same bytes": (({"x": X, "y": X}, bytes(24)), "should take bytes 24 to 48"),
    "truncated": (({"x": X}, bytes(23)), "should have 97 bytes by its header, it has 9[68]"),
    "padded": (({"x": X}, bytes(25)), "should have 97 bytes by its header, it has 9[68]"),
    "negative shape": (({"x": X | {"shape": [-2, -3]}}, bytes(24)), "needs a shape of whole numbers"),
    "shape of text": (({"x": X | {"shape": "23"}}, bytes(24)), "needs a shape of whole numbers"),
    "huge shape": (({"x": X | {"shape": [2**40, 2**40]}}, bytes(24)), "should take bytes 0 to"),
    "unknown dtype": (({"x": X | {"dtype": "F33"}}, bytes(24)), "has dtype 'F33', expected one of F32, F16, BF16"),
    "dtype list": (({"x": X | {"dtype": ["F32"]}}, bytes(24)), "has dtype"),
    "pickle": (b"\x80\x04\x95\x10\0\0\0\0\0\0\0", "is pickled, not safetensors"),
    "zipped pickle": (b"PK\x03\x04\0\0\x08\x08" + bytes(90), "is pickled, not safetensors"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
}


@pytest.mark.parametrize(("content", "said"), FILES.values(), ids=FILES)
def test_hostile_files(llama, content, said):
    folder, _ = llama
    file = folder / "model.safetensors"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        write_raw(file, *content)
    with pytest.raises(ValueError, match=said):
        load(folder)


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9, 0.999])
def test_truncated_anywhere(llama, kept):
    folder, _ = llama
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(ValueError, match=r"model.safetensors (is truncated|should have)"):
        load(folder)


def test_pickles_are_named_and_not_read(llama):
    folder, _ = llama
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"pytorch_model.bin is pickled, and unpickling runs code, so it is not read"):
        load(folder)


def test_missing_parts(llama, tmp_path):
    folder, _ = llama
    with pytest.raises(ValueError, match="nowhere is not a directory"):
        load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is not a directory"):
        load(folder / "config.json")
    with pytest.raises(ValueError, match=r"has no tokenizer\.json"):
        load_tokenizer(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"neither model.safetensors nor model.safetensors.index.json"):
        load(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"has no config.json"):
        load(folder)


@pytest.mark.parametrize(
    ("named", "generation", "expected"),
    [
        (None, None, ()),
        (2, None, (2,)),
        ([2, 5], None, (2, 5)),
        (2, {"eos_token_id": [7]}, (7,)),
        (2, {}, (2,)),
        (0, None, (0,)),
    ],
)
def test_stop_tokens(llama, named, generation, expected):
    folder, _ = llama
    (folder / "config.json").write_text(json.dumps(LLAMA | {"eos_token_id": named}))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    assert stop_tokens(folder) == expected


@pytest.mark.parametrize("named", [37, -1, "2", [2, None], True, {"a": 1}])
def test_stop_tokens_that_are_none(llama, named):
    folder, _ = llama
    (folder / "config.json").write_text(json.dumps(LLAMA | {"eos_token_id": named}))
    with pytest.raises(ValueError, match="eos_token_id must be an integer"):
        stop_tokens(folder)


def test_our_tokenizer_needs_no_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert isinstance(load_tokenizer(trained.path("novel")), Tokenizer)
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "WordPiece"}}')
    with pytest.raises(ValueError, match="needs the package tokenizers"):
        load_tokenizer(tmp_path)


def test_progress_is_told(llama, capsys):
    folder, stored = llama
    told = []
    load(folder, progress=lambda done, total: told.append((done, total)))
    total = sum(array.size for array in stored.values())
    assert told[-1] == (total, total)
    assert len(told) == len(stored)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    load(folder)  # quick: no bar
    assert capsys.readouterr().err == ""


def test_the_bar_of_a_long_load(llama, capsys, monkeypatch):
    folder, stored = llama
    clock = iter(range(1000))
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: next(clock))
    load(folder)
    shown = capsys.readouterr().err
    assert shown.endswith(f"|{'█' * 40}| 100 %\n")
    assert 1 < shown.count("\r") <= len(stored)


def test_the_files_are_not_held_open(llama):
    folder, _ = llama
    params, _ = load(folder)
    before = params.head.copy()
    shutil.rmtree(folder)
    np.testing.assert_array_equal(params.head, before)


PEAK = """
import sys
from labkit import checkpoint

def highest():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

before = highest()
weights = checkpoint.load(sys.argv[1])
print(highest() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
@pytest.mark.parametrize("stored", ["F16", "BF16", "F32"])
def test_peak_memory(tmp_path, stored):
    size, d, ff, table = {"F16": 2, "BF16": 2, "F32": 4}[stored], 512, 2048, (3000, 512)
    config = LLAMA | {"vocab_size": 3000, "hidden_size": d, "intermediate_size": ff, "num_attention_heads": 8}
    config |= {"num_key_value_heads": 4, "head_dim": 64, "num_hidden_layers": 4}
    shapes = {"model.embed_tokens.weight": table, "lm_head.weight": table, "model.norm.weight": (d,)}
    for layer in range(4):
        parts = {"input_layernorm": (d,), "post_attention_layernorm": (d,), "self_attn.q_proj": (d, d)}
        parts |= {"self_attn.k_proj": (256, d), "self_attn.v_proj": (256, d), "self_attn.o_proj": (d, d)}
        parts |= {"mlp.gate_proj": (ff, d), "mlp.up_proj": (ff, d), "mlp.down_proj": (d, ff)}
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in parts.items()}
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + size * int(np.prod(shape))
        header[name] = {"dtype": stored, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    (tmp_path / "config.json").write_text(json.dumps(config))
    write_raw(tmp_path / "model.safetensors", header, bytes(at))
    told = subprocess.run([sys.executable, "-c", PEAK, tmp_path], check=True, capture_output=True, text=True)
    weights = 4 * at // size
    assert weights > 70e6
    assert 0.95 * weights < int(told.stdout) <= 1.1 * weights


def test_no_second_copy_is_traced(llama):
    folder, _ = llama
    load(folder)
    tracemalloc.start()
    params, _ = load(folder)
    size = sum(array.nbytes for array in named_tensors(params).values())
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size <= held < size + 200_000
    assert peak < size + 400_000
