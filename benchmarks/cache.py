"""What a cache saves: the next token from labkit's cache against a textbook GPT that runs over the whole text again."""

import numpy as np

from benchmarks import gpt2, naive
from benchmarks.measure import Result, Row, agree, alternate
from labkit.model import forward, new_cache


def run(smoke=False):
    config, params = gpt2.config_and_params(smoke)
    weights = naive.weights_of(params, config)
    lengths = (8, 16, 32) if smoke else (16, 32, 64, 128, 256, 512, 1024)
    seconds = [_one_length(config, params, weights, T) for T in lengths]
    ratio = [each["uncached"] / each["cached"] for each in seconds]
    slopes = {name: slope(lengths, [each[name] for each in seconds]) for name in ("uncached", "cached")}
    shortest = [each["cached"] / seconds[0]["cached"] for each in seconds]
    series = {"T": list(lengths), "ratio": ratio, "slopes": slopes, "cached, relative to the shortest": shortest}
    rows = [Row("cached against uncached", f"GPT-2 small, token number {lengths[-1]}", "× naive NumPy", ratio[-1])]
    for name, fitted in slopes.items():
        work = f"GPT-2 small, T = {lengths[len(lengths) // 2]} … {lengths[-1]}"
        rows.append(Row("cached against uncached", work, f"slope of time in log–log, {name}", fitted))
    return Result(rows, series)


def slope(lengths, seconds):
    """Fit log seconds = slope · log T + constant to the longer half of the lengths."""
    half = len(lengths) // 2
    return float(np.polyfit(np.log(lengths[half:]), np.log(seconds[half:]), 1)[0])


def _one_length(config, params, weights, T, rounds=5):
    """Return the seconds that one more token costs. The cached one has T tokens behind it after the last round."""
    ids = gpt2.token_ids(config, T)
    cache = new_cache(params, config)
    start = T - rounds - 1
    forward(params, config, ids[:, :start], cache)

    def cached():
        return forward(params, config, ids[:, -1:], cache)

    def uncached():
        return naive.gpt(ids[0], *weights, config.n_heads, config.eps)

    agree(forward(params, config, ids[:, start:], cache.fork())[0, -1], uncached()[-1])
    return alternate({"cached": cached, "uncached": uncached}, rounds)
