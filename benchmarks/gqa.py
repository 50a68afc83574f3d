"""Attention alone at Llama-3-8B's size: does a decode step cost what its keys and values weigh?"""

from benchmarks.measure import Result, Row, agree, alternate, floats
from labkit.kv_cache import KVCache, cache_bytes, cached_attention, grouped_query_attention


def run(smoke=False):
    H, d_head, context = (8, 4, 32) if smoke else (32, 128, 8192)
    counts = (H, H // 4, 1)
    steps = {}
    for G in counts:
        steps |= _steps(H, G, d_head, context)
    seconds = alternate(steps, rounds=9, calls=5)
    size = {G: cache_bytes(1, G, d_head, context) for G in counts}
    work = f"Llama-3-8B's attention, one layer, {context} tokens cached"
    unit = f"× faster with {H // 4} key/value heads than with {H}"
    speed = {G: seconds["labkit", H] / seconds["labkit", G] for G in counts}
    against = {G: seconds["torch", G] / seconds["labkit", G] for G in counts}
    rows = [Row("GQA", work, unit, speed[H // 4], at_least=3.0)]
    rows += [Row("GQA", f"{work}, {G} key/value heads", "× torch SDPA's speed", against[G]) for G in counts]
    series = {"n_kv_heads": list(counts), "bytes": [size[H] / size[G] for G in counts], "speed": list(speed.values())}
    return Result(rows, series)


def _steps(H, G, d_head, context):
    """Return a step of labkit with a cache that is full but for a few tokens, and one of torch over the same keys."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from benchmarks import THREADS

    torch.set_num_threads(THREADS)
    k, v = floats(1, G, context, d_head), floats(1, G, context, d_head, seed=1)
    q, new = floats(1, H, 1, d_head), floats(1, G, 1, d_head, seed=2)
    cache = KVCache(n_layers=1, batch=1, n_kv_heads=G, max_len=context + 64, d_head=d_head)
    cache.append(0, k, v)
    theirs = [torch.from_numpy(each) for each in (q, k, v)]
    agree(grouped_query_attention(q, k, v), scaled_dot_product_attention(*theirs, enable_gqa=True))
    return {
        ("labkit", G): lambda: cached_attention(q, new, new, cache),
        ("torch", G): lambda: scaled_dot_product_attention(*theirs, enable_gqa=True),
    }
