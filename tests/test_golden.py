"""What torch and transformers answered, frozen (tests/oracle/freeze.py), against labkit: runs without either."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from labkit.ffn import gelu, silu
from labkit.kv_cache import grouped_query_attention
from labkit.model import ModelConfig, assemble, forward, new_cache
from labkit.norm import layer_norm, rms_norm

GOLDEN = Path(__file__).parent / "golden"
MODELS = sorted(path.stem for path in GOLDEN.glob("model-*.npz"))
TOLERANCE = 1e-5


def load(name):
    with np.load(GOLDEN / f"{name}.npz") as file:
        return {key: file[key] for key in file.files}


def load_model(name):
    arrays = load(name)
    description = json.loads(str(arrays["description"]))
    config, shapes = ModelConfig(**description["config"]), description["weights"]
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    pieces = np.split((arrays["weights"] / 64).astype(np.float32), ends[:-1])
    tensors = {key: piece.reshape(shapes[key]) for key, piece in zip(shapes, pieces, strict=True)}
    return config, tensors, arrays["token_ids"].astype(int), arrays["logits"]


def distance(ours, theirs):
    assert ours.shape == theirs.shape
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


def test_there_are_models():
    families = {name.split("-")[1] for name in MODELS}
    assert families == {"gpt1", "gpt2", "llama", "mistral", "qwen2", "qwen3"}
    assert len(MODELS) >= 15


@pytest.mark.parametrize("name", MODELS)
def test_logits(name):
    config, tensors, ids, logits = load_model(name)
    assert config.n_layers >= 2
    assert logits.std() >= 1
    params = assemble(config, tensors)
    assert distance(forward(params, config, ids), logits) <= TOLERANCE
    if config.rope_scaling is None or config.rope_scaling.kind != "dynamic":
        cache = new_cache(params, config, batch=len(ids), max_len=ids.shape[1])
        cached = [forward(params, config, chunk, cache) for chunk in np.split(ids, [9, 10, 11, 16], axis=1)]
        assert distance(np.concatenate(cached, axis=1), logits) <= TOLERANCE


@pytest.mark.parametrize("name", MODELS)
def test_every_tensor_and_the_mask_matter(name):
    config, tensors, ids, logits = load_model(name)
    rng = np.random.default_rng(5)
    for tensor, array in tensors.items():
        # Without RoPE a bias of the keys adds the same q·b to every score of a row, which softmax cancels.
        if not (tensor.endswith("b_k") and config.positions != "rope"):
            changed = array + rng.normal(0, 0.01, array.shape).astype(np.float32)
            assert distance(forward(assemble(config, tensors | {tensor: changed}), config, ids), logits) > 3 * TOLERANCE
    everything = np.ones((ids.shape[1], ids.shape[1]), dtype=bool)
    assert distance(forward(assemble(config, tensors), config, ids, mask=everything), logits) > 100 * TOLERANCE


@pytest.mark.parametrize("mask", ["causal", "window", "float"])
def test_attention(mask):
    golden = load("functions")
    q, k, v = (golden[f"attention/{name}"] for name in "qkv")
    out = grouped_query_attention(q, k, v, golden[f"attention/mask/{mask}"])
    np.testing.assert_allclose(out, golden[f"attention/out/{mask}"], rtol=0, atol=1e-13)


def test_norms():
    golden = load("functions")
    x, weight, bias = golden["norm/x"], golden["norm/weight"], golden["norm/bias"]
    np.testing.assert_allclose(layer_norm(x, weight, bias), golden["norm/layer_norm"], rtol=0, atol=1e-13)
    np.testing.assert_allclose(rms_norm(x, weight), golden["norm/rms_norm"], rtol=0, atol=1e-13)


def test_activations():
    golden = load("functions")
    for kind, other in (("tanh", "none"), ("none", "tanh")):
        theirs = golden[f"ffn/gelu/{kind}"]
        np.testing.assert_allclose(gelu(golden["ffn/x"], kind), theirs, rtol=0, atol=1e-14)
        assert np.abs(gelu(golden["ffn/x"], other) - theirs).max() > 1e-4
    np.testing.assert_allclose(silu(golden["ffn/x"]), golden["ffn/silu"], rtol=0, atol=1e-14)
