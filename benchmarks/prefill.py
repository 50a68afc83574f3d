"""Reading a prompt: labkit against transformers, and against the rate of a large product."""

from benchmarks import gpt2
from benchmarks.limits import limits
from benchmarks.measure import Result, Row, agree, alternate
from labkit.accounting import flops
from labkit.model import forward


def run(smoke=False):
    config, params = gpt2.config_and_params(smoke)
    model, (gemm, _) = gpt2.transformers_model(config, params), limits(smoke)
    rows, series = [], {"T": [], "against transformers": [], "of the GEMM limit": []}
    for T in (4, 8, 16) if smoke else (128, 512, 1024):
        speed, share = _one_length(config, params, model, gemm, T)
        rows.append(Row("prefill", f"GPT-2 small, B = 1, T = {T}", "× transformers' tokens/s", speed, at_least=1.0))
        if T in (8, 512):
            rows.append(Row("prefill", f"GPT-2 small, B = 1, T = {T}", "of the GEMM rate", share, at_least=0.65))
        for name, value in zip(series, (T, speed, share), strict=True):
            series[name].append(value)
    return Result(rows, series)


def _one_length(config, params, model, gemm, T):
    """Return labkit's speed as a multiple of transformers', and as a share of the GEMM rate."""
    import torch

    ids = gpt2.token_ids(config, T)
    theirs = torch.from_numpy(ids)
    with gpt2.quiet():
        agree(forward(params, config, ids), model(theirs, use_cache=False).logits)
        contestants = {
            "labkit": lambda: forward(params, config, ids),
            "transformers": lambda: model(theirs, use_cache=False),
            "gemm": gemm,
        }
        seconds = alternate(contestants)
    rate = flops(config, "prefill", T) / seconds["labkit"]
    return seconds["transformers"] / seconds["labkit"], rate / (gemm.flops / seconds["gemm"])
