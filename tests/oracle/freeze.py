"""Freeze what torch and transformers answer into tests/golden, for machines that have neither.

    python tests/oracle/freeze.py

Models are stored as config, weights in steps of 1/64 (one byte each), token ids and logits. Functions are
stored as inputs and outputs in float64. Running it again with the same versions writes the same arrays.
"""

import json
from pathlib import Path

import numpy as np
import oracle_models
from oracle_models import GRID

from labkit.mask import causal_mask, sliding_window_mask
from labkit.model import named_tensors

GOLDEN = Path(__file__).parents[1] / "golden"


def main():
    GOLDEN.mkdir(exist_ok=True)
    for name in oracle_models.CASES:
        save(f"model-{name}", model(name))
    save("functions", functions())


def save(name, arrays):
    path = GOLDEN / f"{name}.npz"
    np.savez_compressed(path, **arrays)
    print(f"{path.name:<32} {path.stat().st_size:>8} bytes")


def model(name):
    """Return a case's config, weights, token ids, and the logits of transformers."""
    import torch

    theirs, config = oracle_models.transformers_model(name), oracle_models.labkit_config(name)
    ids = oracle_models.token_ids(config)
    with torch.no_grad():
        logits = theirs(torch.from_numpy(ids)).logits.numpy()
    assert logits.std() >= 1
    weights = named_tensors(oracle_models.labkit_params(theirs, config))
    flat = np.concatenate([array.ravel() for array in weights.values()]) * GRID
    steps = flat.astype(np.int8)
    np.testing.assert_array_equal(steps, flat)
    description = {"config": oracle_models.settings(config), "weights": {key: a.shape for key, a in weights.items()}}
    return {"description": as_text(description), "weights": steps, "token_ids": ids.astype(np.int8), "logits": logits}


def as_text(value):
    return np.array(json.dumps(value))


def functions():
    """Return inputs and outputs of attention, the norms and the activations."""
    import torch

    f = torch.nn.functional
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(0, 1.5, (2, 6, 5, 8)), rng.normal(0, 1.5, (2, 2, 11, 8)), rng.normal(0, 1.5, (2, 2, 11, 4))
    masks = {"causal": causal_mask(5, 11), "window": sliding_window_mask(5, 3, 11)}
    masks["float"] = np.where(rng.random((5, 11)) < 0.7, rng.normal(0, 2, (5, 11)), -np.inf)
    arrays = {"attention/q": q, "attention/k": k, "attention/v": v}
    for name, mask in masks.items():
        arrays[f"attention/mask/{name}"] = mask
        out = f.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v, mask)), enable_gqa=True)
        arrays[f"attention/out/{name}"] = out.numpy()

    x = np.concatenate([rng.normal(0, 1e-4, (3, 7)), rng.normal(0, 1, (3, 7)), rng.normal(30, 4, (3, 7))])
    weight, bias = rng.normal(1, 0.3, 7), rng.normal(0, 0.3, 7)
    arrays |= {"norm/x": x, "norm/weight": weight, "norm/bias": bias}
    x, weight, bias = map(torch.from_numpy, (x, weight, bias))
    arrays["norm/layer_norm"] = f.layer_norm(x, (7,), weight, bias, 1e-5).numpy()
    arrays["norm/rms_norm"] = f.rms_norm(x, (7,), weight, 1e-5).numpy()

    x = np.linspace(-6, 6, 97)
    arrays["ffn/x"] = x
    x = torch.from_numpy(x)
    arrays |= {"ffn/gelu/tanh": f.gelu(x, approximate="tanh").numpy(), "ffn/gelu/none": f.gelu(x).numpy()}
    arrays["ffn/silu"] = f.silu(x).numpy()
    return arrays


if __name__ == "__main__":
    main()
