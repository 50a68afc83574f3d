"""The small parts one by one: softmax, norms, RoPE and SwiGLU against torch, and against the machine's limits."""

import numpy as np

from benchmarks import THREADS
from benchmarks.limits import limits
from benchmarks.measure import Result, Row, agree, alternate, floats
from labkit.ffn import swiglu
from labkit.norm import layer_norm, rms_norm
from labkit.rope import frequencies, rotate
from labkit.softmax import softmax


def run(smoke=False):
    B, T, d_model, d_ff, d_head = (2, 4, 8, 12, 4) if smoke else (8, 1024, 768, 2048, 64)
    gemm, stream = limits(smoke)
    rows = []
    for name, (ours, theirs) in _contestants(B, T, d_model, d_ff, d_head).items():
        agree(ours(), theirs())
        seconds = alternate({"labkit": ours, "torch": theirs, "gemm": gemm, "stream": stream}, rounds=5, calls=3)
        work = f"[{B}, {T}, {d_model}] float32"
        rows.append(Row(name, work, "× torch's time", seconds["labkit"] / seconds["torch"]))
        if name == "SwiGLU":
            rate = 6 * B * T * d_model * d_ff / seconds["labkit"]
            rows.append(Row(name, work, "of the GEMM rate", rate / (gemm.flops / seconds["gemm"])))
        else:
            rate = 2 * 4 * B * T * d_model / seconds["labkit"]  # read once, written once
            rows.append(Row(name, work, "of the streaming rate", rate / (stream.nbytes / seconds["stream"])))
    return Result(rows)


def _contestants(B, T, d_model, d_ff, d_head):
    """Return for each part a call of labkit's and one of torch's."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(THREADS)
    x, weight, bias = floats(B, T, d_model), 1 + floats(d_model), floats(d_model, seed=1)
    heads = floats(B, d_model // d_head, T, d_head)
    up, gate, down = floats(d_model, d_ff), floats(d_model, d_ff, seed=1), floats(d_ff, d_model)
    freqs, at = frequencies(d_head), np.arange(T)
    angles = torch.from_numpy(at[:, None] * np.tile(freqs, 2))
    cos, sin = angles.cos().float(), angles.sin().float()
    their_x, their_weight, their_bias, their_heads, their_up, their_gate, their_down = map(
        torch.from_numpy, (x, weight, bias, heads, up, gate, down)
    )

    def their_rope():
        a, b = their_heads.chunk(2, dim=-1)
        return their_heads * cos + torch.cat((-b, a), dim=-1) * sin

    def their_swiglu():
        return (functional.silu(their_x @ their_gate) * (their_x @ their_up)) @ their_down

    shape = (d_model,)
    return {
        "softmax": (lambda: softmax(x), lambda: their_x.softmax(dim=-1)),
        "LayerNorm": (
            lambda: layer_norm(x, weight, bias),
            lambda: functional.layer_norm(their_x, shape, their_weight, their_bias),
        ),
        "RMSNorm": (lambda: rms_norm(x, weight), lambda: functional.rms_norm(their_x, shape, their_weight, eps=1e-5)),
        "RoPE": (lambda: rotate(heads, at, freqs), their_rope),
        "SwiGLU": (lambda: swiglu(x, gate, up, down), their_swiglu),
    }
