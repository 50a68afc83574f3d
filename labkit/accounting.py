"""What a model costs, from its config alone: parameters, floating-point operations, bytes, and the roofline."""

import math
from dataclasses import dataclass

import numpy as np

from labkit import _check
from labkit.block import block_shapes
from labkit.kv_cache import cache_bytes
from labkit.model import ModelConfig, count_params

# Sizes as in the configurations that were published with the weights (Mistral 7B: version 0.1).
_GPT2 = {
    "vocab_size": 50257,
    "max_len": 1024,
    "norm": "layer",
    "ffn": "gelu",
    "positions": "learned",
    "attention_bias": True,
    "output_bias": True,
    "ffn_bias": True,
    "tied": True,
}
_LLAMA2 = {"vocab_size": 32_000, "max_len": 4096}
_LLAMA3 = {"vocab_size": 128_256, "max_len": 8192, "base": 500_000.0, "n_kv_heads": 8}

GPT2_SMALL = ModelConfig(d_model=768, n_layers=12, n_heads=12, d_ff=3072, **_GPT2)
GPT2_XL = ModelConfig(d_model=1600, n_layers=48, n_heads=25, d_ff=6400, **_GPT2)
LLAMA2_7B = ModelConfig(d_model=4096, n_layers=32, n_heads=32, d_ff=11_008, **_LLAMA2)
LLAMA2_70B = ModelConfig(d_model=8192, n_layers=80, n_heads=64, n_kv_heads=8, d_ff=28_672, **_LLAMA2)
LLAMA3_8B = ModelConfig(d_model=4096, n_layers=32, n_heads=32, d_ff=14_336, **_LLAMA3)
LLAMA3_70B = ModelConfig(d_model=8192, n_layers=80, n_heads=64, d_ff=28_672, **_LLAMA3)
MISTRAL_7B = ModelConfig(
    vocab_size=32_000, d_model=4096, n_layers=32, n_heads=32, n_kv_heads=8, d_ff=14_336, max_len=32_768, window=4096
)
QWEN3_0_6B = ModelConfig(
    vocab_size=151_936,
    d_model=1024,
    n_layers=28,
    n_heads=16,
    n_kv_heads=8,
    d_head=128,  # 16 heads of 128: W_q is twice as wide as the stream
    d_ff=3072,
    max_len=40_960,
    base=1_000_000.0,
    qk_norm=True,
    tied=True,
    eps=1e-6,
)


@dataclass(frozen=True)
class Accelerator:
    """The two numbers of a chip that the roofline needs.

    Parameters
    ----------
    name : str
    peak_flops : float
        Peak rate of dense bfloat16 matrix products, in floating-point operations a second (a multiply-add is two).
    bandwidth : float
        Bytes a second between its large memory (HBM) and the chip.

    Examples
    --------
    >>> A100.peak_flops / A100.bandwidth > 100
    True
    """

    name: str
    peak_flops: float
    bandwidth: float


# Source: NVIDIA's data sheets of the A100 80GB SXM and the H100 SXM, rates without sparsity.
A100 = Accelerator("A100 80GB SXM", peak_flops=312e12, bandwidth=2.039e12)
H100 = Accelerator("H100 SXM", peak_flops=989.4e12, bandwidth=3.35e12)


def ffn_share(config):
    """Return which share of the parameters the FFN holds: of a block's two sublayers, and of the whole model.

    Parameters
    ----------
    config : ModelConfig

    Returns
    -------
    dict of str to float
        "block": FFN / (attention + FFN). "model": FFN / total.

    Notes
    -----
    Two thirds of a block is exact for four attention matrices d_model × d_model beside an FFN of 8 · d_model² weights.
    A wider FFN or shared key and value heads raise it; large embedding tables lower the share of the whole model.

    Examples
    --------
    >>> {part: round(share, 2) for part, share in ffn_share(GPT2_SMALL).items()}
    {'block': 0.67, 'model': 0.46}
    """
    parts = count_params(config)
    return {"block": parts["ffn"] / (parts["attention"] + parts["ffn"]), "model": parts["ffn"] / parts["total"]}


def matmul_params(config):
    """Count the weights that every token is multiplied by: all matrices, the head included, but no lookup table.

    Parameters
    ----------
    config : ModelConfig

    Returns
    -------
    int
        Biases and norm weights are left out. A tied head counts, since its product is computed all the same.

    Examples
    --------
    >>> matmul_params(LLAMA2_7B), count_params(LLAMA2_7B)["total"]
    (6607077376, 6738415616)
    """
    matrices = (math.prod(shape) for shape in block_shapes(config).values() if len(shape) == 2)
    return config.n_layers * sum(matrices) + config.vocab_size * config.d_model


def flops_per_token(config, context):
    """Count the floating-point operations of one token's forward pass, a multiply-add being two.

    Parameters
    ----------
    config : ModelConfig
    context : int
        How many keys the token sees, itself included. A sliding window caps it.

    Returns
    -------
    dict of str to int
        "matmul": 2 for each weight that the token is multiplied by. "attention": 4 · n_layers · n_heads · d_head ·
        context, half for the scores and half for the weighted sum of values. "total": both. "rule_2n": 2 for each
        parameter of the model, the rule of thumb. Norms, activations and softmax are left out.

    Raises
    ------
    ValueError
        If context is not a positive integer.

    Notes
    -----
    Source: Kaplan et al. (2020), "Scaling Laws for Neural Language Models", section 2.1 and table 1.

    Examples
    --------
    >>> flops = flops_per_token(LLAMA2_7B, context=4096)
    >>> round(flops["matmul"] / 1e9, 2), round(flops["attention"] / 1e9, 2), round(flops["rule_2n"] / 1e9, 2)
    (13.21, 2.15, 13.48)
    """
    _check.integer(at_least=1, context=context)
    seen = context if config.window is None else min(context, config.window)
    matmul = 2 * matmul_params(config)
    attention = 4 * config.n_layers * config.n_heads * config.d_head * seen
    return {
        "matmul": matmul,
        "attention": attention,
        "total": matmul + attention,
        "rule_2n": 2 * count_params(config)["total"],
    }


def flops(config, phase, context, batch=1):
    """Count the floating-point operations of one step: a whole prompt at once, or one new token.

    Parameters
    ----------
    config : ModelConfig
    phase : {"prefill", "decode"}
        Prefill reads `context` tokens of each sequence in one pass, each seeing those before it and itself. Decode
        reads one token of each sequence, which sees `context` keys, its own included.
    context : int
    batch : int
        Number of sequences.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If the phase is neither, or context or batch is not a positive integer.

    Examples
    --------
    >>> flops(LLAMA2_7B, "prefill", 3) == sum(flops(LLAMA2_7B, "decode", n) for n in (1, 2, 3))
    True
    """
    _check.choice(("prefill", "decode"), phase=phase)
    _check.integer(at_least=1, context=context, batch=batch)
    last = flops_per_token(config, context)
    if phase == "decode":
        return batch * last["total"]
    window = context if config.window is None else min(context, config.window)
    pairs = window * (window + 1) // 2 + (context - window) * window  # Σ over tokens of the keys that each sees
    return batch * (context * last["matmul"] + 4 * config.n_layers * config.n_heads * config.d_head * pairs)


def weight_bytes(config, bytes_per_value=2):
    """Return the bytes of all weights: 4 a value in float32, 2 in bfloat16, 1 in int8, 0.5 in int4.

    Parameters
    ----------
    config : ModelConfig
    bytes_per_value : float

    Returns
    -------
    float or int
        Whatever a quantised format stores beside the values (scales, zero points) comes on top.

    Raises
    ------
    ValueError
        If bytes_per_value is not a number above 0.

    Examples
    --------
    >>> round(weight_bytes(LLAMA2_7B) / 2**30, 2)
    12.55
    """
    _check.number(above=0, bytes_per_value=bytes_per_value)
    return count_params(config)["total"] * bytes_per_value


def kv_bytes(config, context, batch=1, bytes_per_value=2):
    """Return the bytes of a model's KV cache: `labkit.kv_cache.cache_bytes` with the config's sizes.

    Parameters
    ----------
    config : ModelConfig
    context : int
        Tokens of each sequence. A sliding window caps what is kept.
    batch : int
    bytes_per_value : float

    Returns
    -------
    float or int

    Raises
    ------
    ValueError
        If context or batch is not a positive integer, or bytes_per_value is not a number above 0.

    Examples
    --------
    >>> kv_bytes(LLAMA2_7B, context=4096) / 2**30
    2.0
    """
    sizes = (config.n_layers, config.n_kv_heads, config.d_head, context, batch, bytes_per_value)
    return cache_bytes(*sizes, window=config.window)


def bytes_moved(config, context, batch=1, bytes_per_value=2):
    """Return the bytes that one step moves at least between memory and chip: weights once, and the KV cache once.

    Parameters
    ----------
    config : ModelConfig
    context : int
        Tokens of each sequence, after the step.
    batch : int
        Number of sequences, all served by one reading of the weights.
    bytes_per_value : float
        Of weights and cache alike.

    Returns
    -------
    float or int
        The same for both phases: prefill writes the cache that decode reads. Of lookup tables only a few rows are
        read, so they are left out, and so are activations.

    Raises
    ------
    ValueError
        As for `kv_bytes`.

    Examples
    --------
    >>> round(bytes_moved(LLAMA2_7B, context=4096) / 1e9, 2)
    15.36
    """
    parts = count_params(config)
    read = parts["total"] - parts["positions"] - (0 if config.tied else parts["embedding"])
    return read * bytes_per_value + kv_bytes(config, context, batch, bytes_per_value)


def arithmetic_intensity(config, phase, context, batch=1, bytes_per_value=2):
    """Return how many floating-point operations a step does for each byte that it moves.

    Parameters
    ----------
    config : ModelConfig
    phase : {"prefill", "decode"}
    context, batch, bytes_per_value
        As for `flops` and `bytes_moved`.

    Returns
    -------
    float
        In FLOP per byte. Decode with one sequence stays near 2 / bytes_per_value, however large the model.

    Raises
    ------
    ValueError
        As for `flops` and `bytes_moved`.

    Examples
    --------
    >>> decode = arithmetic_intensity(LLAMA2_7B, "decode", context=1024)
    >>> prefill = arithmetic_intensity(LLAMA2_7B, "prefill", context=1024)
    >>> round(decode, 2), round(prefill)
    (1.0, 1004)
    """
    moved = bytes_moved(config, context, batch, bytes_per_value)
    return flops(config, phase, context, batch) / moved


def ridge(peak_flops, bandwidth):
    """Return the arithmetic intensity above which a chip computes at its peak and below which it waits for memory.

    Parameters
    ----------
    peak_flops : float
        Floating-point operations a second.
    bandwidth : float
        Bytes a second.

    Returns
    -------
    float
        In FLOP per byte.

    Raises
    ------
    ValueError
        If either is not a finite number above 0.

    Examples
    --------
    >>> round(ridge(A100.peak_flops, A100.bandwidth))
    153
    """
    _check.number(above=0, peak_flops=peak_flops, bandwidth=bandwidth)
    return peak_flops / bandwidth


def roofline(intensity, peak_flops, bandwidth):
    """Return the highest rate that a chip can reach at a given arithmetic intensity.

    Parameters
    ----------
    intensity : float or array [...]
        FLOP per byte.
    peak_flops : float
        Floating-point operations a second.
    bandwidth : float
        Bytes a second.

    Returns
    -------
    float or array [...]
        min(peak_flops, intensity · bandwidth), in floating-point operations a second.

    Raises
    ------
    ValueError
        If an intensity is negative or not finite, or peak_flops or bandwidth is not a finite number above 0.

    Notes
    -----
    Source: Williams, Waterman & Patterson (2009), "Roofline: An Insightful Visual Performance Model for Multicore
    Architectures".

    Examples
    --------
    >>> roofline(np.array([1.0, 10.0, 1000.0]), peak_flops=300.0, bandwidth=2.0)
    array([  2.,  20., 300.])
    """
    _check.number(above=0, peak_flops=peak_flops, bandwidth=bandwidth)
    intensity = np.asarray(intensity, dtype=np.float64)
    if not np.all(np.isfinite(intensity) & (intensity >= 0)):
        raise ValueError(f"intensity must be finite and at least 0, got {intensity}")
    return np.minimum(peak_flops, intensity * bandwidth)


def least_seconds(config, phase, context, accelerator, batch=1, bytes_per_value=2):
    """Return the shortest time that a step can take: its operations at the rate that the roofline allows.

    Parameters
    ----------
    config : ModelConfig
    phase : {"prefill", "decode"}
    context, batch, bytes_per_value
        As for `arithmetic_intensity`.
    accelerator : Accelerator
        Or anything with `peak_flops` and `bandwidth`.

    Returns
    -------
    float
        Seconds. For decode, `batch` divided by it bounds the tokens a second from above.

    Raises
    ------
    ValueError
        As for `arithmetic_intensity` and `roofline`.

    Examples
    --------
    >>> round(1 / least_seconds(LLAMA2_7B, "decode", context=1024, accelerator=A100))
    148
    """
    intensity = arithmetic_intensity(config, phase, context, batch, bytes_per_value)
    rate = roofline(intensity, accelerator.peak_flops, accelerator.bandwidth)
    return flops(config, phase, context, batch) / float(rate)
