"""Writing token by token with a cache: labkit against transformers, and against the rate of reading memory."""

from benchmarks import gpt2
from benchmarks.limits import limits
from benchmarks.measure import Result, Row, agree, alternate
from labkit.accounting import bytes_moved
from labkit.model import forward, new_cache


def run(smoke=False):
    config, params = gpt2.config_and_params(smoke)
    model, (_, stream) = gpt2.transformers_model(config, params), limits(smoke)
    lengths, rounds, steps = ((4, 16), 5, 1) if smoke else ((64, 896), 11, 8)
    with gpt2.quiet():
        contestants = {"stream": stream}
        for T in lengths:
            contestants |= _steps(config, params, model, T)
        seconds = alternate(contestants, rounds, steps)
    rate, rows = stream.nbytes / seconds["stream"], []
    read = {T: bytes_moved(config, T + steps * rounds // 2, bytes_per_value=4) for T in lengths}  # in the median round
    for T in lengths:
        ours, work = seconds["labkit", T], f"GPT-2 small, after {T} tokens"
        speed, share = seconds["transformers", T] / ours, read[T] / ours / rate
        rows.append(Row("decode with cache", work, "× transformers' cached steps/s", speed, at_least=1.5))
        rows.append(Row("decode with cache", work, "of the streaming rate", share, at_least=0.7))
    first, last = lengths
    growth = seconds["labkit", last] / seconds["labkit", first] / (read[last] / read[first])
    work = f"GPT-2 small, from {first} to {last} tokens"
    return Result([*rows, Row("decode with cache", work, "growth of time / of bytes", growth, at_most=1.0)])


def _steps(config, params, model, T):
    """Return a step of each contestant after T tokens. Each call adds one token to its own cache."""
    import torch

    ids, token = gpt2.token_ids(config, T), gpt2.token_ids(config, 1)
    cache = new_cache(params, config)
    forward(params, config, ids, cache)
    theirs = model(torch.from_numpy(ids), use_cache=True).cache
    their_token = torch.from_numpy(token)
    agree(forward(params, config, token, cache), model(their_token, cache=theirs, use_cache=True).logits)
    return {
        ("labkit", T): lambda: forward(params, config, token, cache),
        ("transformers", T): lambda: model(their_token, cache=theirs, use_cache=True),
    }
