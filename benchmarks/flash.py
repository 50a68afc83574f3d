"""Attention in tiles against attention that writes all scores down: memory and time of one causal head."""

import numpy as np

from benchmarks import THREADS, naive
from benchmarks.measure import Result, Row, agree, alternate, floats, peak_bytes
from labkit.flash import flash_attention

D_HEAD = 64


def run(smoke=False):
    lengths, tile = ((32, 64), (16, 16)) if smoke else ((1024, 2048, 4096, 8192, 16_384), (256, 512))
    names = ("T", "peak memory / naive", "time / naive", "time / torch")
    series = {name: [] for name in names}
    for T in lengths:
        for name, value in zip(names, (T, *_one_length(T, tile)), strict=True):
            series[name].append(value)
    rows = []
    for T, _, slower, torch in zip(*series.values(), strict=True):
        work = f"one causal head, d = {D_HEAD}, T = {T}"
        if T >= 4096 or smoke:
            rows.append(Row("flash", work, "of naive NumPy's time", slower, at_most=0.45))
            rows.append(Row("flash", work, "× torch SDPA's time", torch, at_most=2.5))
    memory = series["peak memory / naive"][-1]
    rows.append(Row("flash", work, "of naive NumPy's peak memory", memory, at_most=0.02))
    return Result(rows, series)


def _one_length(T, tile):
    """Return labkit's peak memory and time over naive NumPy's, and its time over torch's."""
    import torch

    torch.set_num_threads(THREADS)
    q, k, v = floats(3, T, D_HEAD)
    theirs = [torch.from_numpy(each)[None, None] for each in (q, k, v)]
    mask = np.tril(np.ones((T, T), dtype=bool))

    def tiled():
        return flash_attention(q, k, v, causal=True, block_q=tile[0], block_k=tile[1])

    def plain():
        return naive.attention(q, k, v, mask)

    def fused():
        return torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=True)

    agree(tiled(), plain())
    agree(tiled(), fused()[0, 0])
    memory = peak_bytes(tiled) / peak_bytes(plain)
    seconds = alternate({"tiled": tiled, "plain": plain, "fused": fused}, rounds=5)
    return memory, seconds["tiled"] / seconds["plain"], seconds["tiled"] / seconds["fused"]
