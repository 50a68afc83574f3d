"""Attention against PyTorch's scaled_dot_product_attention, always with explicit masks.

PyTorch's own `is_causal` aligns the mask top-left when T and S differ, which is not what a cache needs.
"""

import importlib

import numpy as np
import pytest

from labkit.attention import scaled_dot_product_attention
from labkit.heads import multi_head_attention
from labkit.kv_cache import grouped_query_attention
from labkit.mask import causal_mask, sliding_window_mask

pytestmark = pytest.mark.oracle

DTYPES = {"float64": 1e-14, "float32": 2e-6, "float16": 1e-3}


@pytest.fixture(scope="module")
def torch():
    return importlib.import_module("torch")


def draw(*shape, seed, dtype="float64"):
    return np.random.default_rng(seed).normal(0, 1.5, shape).astype(dtype)


def masks(T, S):
    rng = np.random.default_rng(9)
    random = rng.random((T, S)) < 0.5
    random[:, 0] = True  # PyTorch's answer to a fully masked row depends on the backend; labkit's tests cover it
    return {
        "no mask": None,
        "causal, bottom-right": causal_mask(T, S),
        "sliding window": sliding_window_mask(T, 3, S),
        "random, Boolean": random,
        "random, float": np.where(random, rng.normal(0, 2, (T, S)), -np.inf),
        "a mask for each sequence": np.stack([random, causal_mask(T, S)])[:, None],
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("T", "S"), [(7, 7), (5, 11), (1, 9)])
def test_scaled_dot_product_attention(torch, agree, dtype, T, S):
    q, k, v = draw(2, 3, T, 8, seed=0), draw(2, 3, S, 8, seed=1), draw(2, 3, S, 5, seed=2)
    for name, mask in masks(T, S).items():
        theirs_mask = None if mask is None else torch.from_numpy(mask)
        for scale in (None, 0.37):
            ours = scaled_dot_product_attention(*(x.astype(dtype) for x in (q, k, v)), mask, scale)
            theirs = torch.nn.functional.scaled_dot_product_attention(
                *(torch.from_numpy(x.astype(dtype).astype(np.float64)) for x in (q, k, v)), theirs_mask, scale=scale
            )
            assert ours.dtype == dtype
            agree(f"attention, {name}", ours, theirs.numpy(), DTYPES[dtype])


@pytest.mark.parametrize("n_kv_heads", [1, 2, 3, 6])
def test_grouped_query_attention(torch, agree, n_kv_heads):
    T, S = 5, 11
    q, k, v = draw(2, 6, T, 8, seed=0), draw(2, n_kv_heads, S, 8, seed=1), draw(2, n_kv_heads, S, 4, seed=2)
    for name, mask in masks(T, S).items():
        theirs_mask = None if mask is None else torch.from_numpy(mask)
        theirs = torch.nn.functional.scaled_dot_product_attention(
            *map(torch.from_numpy, (q, k, v)), theirs_mask, enable_gqa=True
        )
        ours = grouped_query_attention(q, k, v, mask)
        agree(f"grouped-query attention H=6 G={n_kv_heads}, {name}", ours, theirs.numpy(), 1e-14)


def test_multi_head_attention(torch, agree):
    d_model, n_heads, T, S = 12, 3, 5, 7
    module = torch.nn.MultiheadAttention(
        d_model, n_heads, bias=False, kdim=10, vdim=10, batch_first=True, dtype=torch.float64
    )
    weights = [draw(d_model, d_model, seed=3), draw(d_model, 10, seed=4), draw(d_model, 10, seed=5)]
    w_o = draw(d_model, d_model, seed=6)
    with torch.no_grad():
        for name, w in zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights, strict=True):
            getattr(module, name).copy_(torch.from_numpy(w))
        module.out_proj.weight.copy_(torch.from_numpy(w_o))
        x, context, mask = draw(2, T, d_model, seed=7), draw(2, S, 10, seed=8), causal_mask(T, S)
        theirs, theirs_weights = module(
            torch.from_numpy(x),
            torch.from_numpy(context),
            torch.from_numpy(context),
            attn_mask=torch.from_numpy(~mask),  # here True = may not attend
            average_attn_weights=False,
        )
    ours, ours_weights = multi_head_attention(
        x, *(w.T for w in weights), w_o.T, n_heads, mask, context=context, return_weights=True
    )
    agree("multi-head cross-attention: output", ours, theirs.numpy(), 1e-14)
    agree("multi-head cross-attention: weights", ours_weights, theirs_weights.numpy(), 1e-14)
