import numpy as np
import pytest

from labkit.flash import flash_attention, online_softmax
from labkit.kv_cache import KVCache, cached_attention
from labkit.mask import causal_mask, sliding_window_mask

pytestmark = pytest.mark.oracle

# what: H, G, T, S, d, and how the scores are masked
CASES = {
    "no mask": (4, 4, 37, 53, 8, {}),
    "causal, T = S": (4, 4, 50, 50, 8, {"causal": True}),
    "causal, T < S": (4, 2, 37, 53, 8, {"causal": True}),
    "causal, T > S": (4, 2, 53, 37, 8, {"causal": True}),
    "sliding window": (6, 2, 45, 53, 8, {"window": 11}),
    "multi-query": (6, 1, 20, 53, 8, {"causal": True}),
    "Boolean mask": (4, 2, 37, 53, 8, {"mask": "bool"}),
    "float mask": (4, 2, 37, 53, 8, {"mask": "float"}),
    "float mask, causal": (4, 4, 37, 53, 8, {"mask": "float", "causal": True}),
}


def whole_mask(rng, T, S, mask=None, causal=False, window=None):
    """Return what to hand to flash_attention as its mask, and the float mask that stands for all rules together."""
    may_attend = np.ones((T, S), dtype=bool) if not causal else causal_mask(T, S)
    may_attend = may_attend if window is None else sliding_window_mask(T, window, S)
    given = {None: None, "bool": rng.random((2, 1, T, S)) < 0.4, "float": 2 * rng.normal(size=(T, S))}[mask]
    added = 0.0 if given is None else np.where(given, 0, -np.inf) if given.dtype == bool else given
    return given, np.where(may_attend, added, -np.inf)


def inputs(name, dtype, seed=3):
    H, G, T, S, d, options = CASES[name]
    rng = np.random.default_rng(seed)
    q, k, v = (3 * rng.normal(size=(2, h, n, d)) for h, n in ((H, T), (G, S), (G, S)))
    given, added = whole_mask(rng, T, S, **options)
    arrays = [each.astype(dtype) for each in (q, k, v)]
    return arrays, given, added, {name: value for name, value in options.items() if name != "mask"}


@pytest.mark.parametrize("blocks", [(16, 16), (7, 11), (64, 5), (1, 64)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_flash_equals_torch(agree, name, dtype, blocks):
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    (q, k, v), given, added, options = inputs(name, dtype)
    block_q, block_k = blocks
    out, lse = flash_attention(q, k, v, given, block_q=block_q, block_k=block_k, return_lse=True, **options)
    tensors = [torch.from_numpy(each) for each in (q, k, v)]
    bias = torch.from_numpy(np.broadcast_to(added, (2, q.shape[1], *added.shape[-2:])).astype(dtype))
    seen = torch.isfinite(bias).any(-1)
    expected = scaled_dot_product_attention(*tensors, attn_mask=bias, enable_gqa=True)
    expected = torch.where(seen[..., None], expected, 0)  # torch gives NaN or 0 for a query that sees nothing
    tolerance = 5e-6 if dtype == np.float32 else 1e-12
    agree(f"flash_attention, {name} (SDPA)", out, expected.numpy(), tolerance)
    repeated = tensors[1].repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = tensors[0] @ repeated.mT / q.shape[-1] ** 0.5 + bias
    seen = seen.numpy()
    agree("log-sum-exp (torch.logsumexp)", lse[seen], torch.logsumexp(scores, -1).numpy()[seen], tolerance)
    assert np.all(lse[~seen] == -np.inf)
    assert not out[~seen].any()


def test_flash_equals_the_flash_kernel_of_torch(agree):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 4, 200, 16)).astype(np.float32) for _ in range(3))
    for causal in (False, True):
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            tensors = [torch.from_numpy(each) for each in (q, k, v)]
            theirs = scaled_dot_product_attention(*tensors, is_causal=causal).numpy()  # T = S: both alignments agree
        ours = flash_attention(q, k, v, causal=causal, block_q=32, block_k=48)
        agree("flash_attention (torch's own flash kernel)", ours, theirs, 5e-6)


def test_the_oracle_can_fail(agree):
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    (q, k, v), _, _, _ = inputs("causal, T < S", np.float64)
    tensors = [torch.from_numpy(each) for each in (q, k, v)]
    wrong = {
        "top-left": scaled_dot_product_attention(*tensors, is_causal=True, enable_gqa=True),
        "not causal": scaled_dot_product_attention(*tensors, enable_gqa=True),
        "tiled heads": scaled_dot_product_attention(
            tensors[0],
            *(each.repeat(1, 2, 1, 1) for each in tensors[1:]),
            attn_mask=torch.from_numpy(causal_mask(37, 53)),
        ),
        "no scale": scaled_dot_product_attention(
            *tensors, attn_mask=torch.from_numpy(causal_mask(37, 53)), enable_gqa=True, scale=1.0
        ),
    }
    ours = flash_attention(q, k, v, causal=True)
    for name, theirs in wrong.items():
        assert np.abs(ours - theirs.numpy()).max() > 0.1, name


def test_online_softmax_equals_torch(agree):
    import torch

    x = 20 * np.random.default_rng(1).normal(size=(5, 301))
    x[x > 30] = -np.inf
    for block in (1, 7, 64, 400):
        agree(
            "online_softmax (torch.softmax)", online_softmax(x, block), torch.from_numpy(x).softmax(-1).numpy(), 1e-12
        )


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("chunks", [[1] * 20, [12] + [1] * 8, [5, 9, 6], [20]], ids=str)
def test_a_cache_equals_one_pass_of_torch(agree, window, chunks):
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    rng = np.random.default_rng(2)
    q, k, v = (2 * rng.normal(size=(3, h, 20, 8)) for h in (6, 2, 2))
    cache, outs, start = KVCache(1, 3, 2, 20, 8, np.float64, window), [], 0
    for T in chunks:
        outs.append(cached_attention(*(each[:, :, start : start + T] for each in (q, k, v)), cache))
        start += T
    mask = causal_mask(20) if window is None else sliding_window_mask(20, window)
    tensors = [torch.from_numpy(each) for each in (q, k, v)]
    theirs = scaled_dot_product_attention(*tensors, attn_mask=torch.from_numpy(mask), enable_gqa=True).numpy()
    what = "decoding with a cache" if window is None else "decoding with a cache and a window"
    agree(f"{what} (SDPA, one pass)", np.concatenate(outs, axis=2), theirs, 1e-12)
