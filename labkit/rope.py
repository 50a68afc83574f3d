"""Chapter 7: rotary position embedding (RoPE), its two pairings, and its four ways past the trained length."""

import math
from dataclasses import dataclass, fields

import numpy as np

from labkit import _check

KINDS = ("linear", "dynamic", "yarn", "llama3")
PAIRINGS = ("half", "interleaved")


@dataclass(frozen=True)
class RopeScaling:
    """How the frequencies are changed so that a model reaches past the length that it was trained on.

    Parameters
    ----------
    kind : "linear", "dynamic", "yarn" or "llama3"
        The rule. "dynamic" is dynamic NTK-aware scaling.
    factor : float, at least 1
        How many times longer than the trained length the context is to become.
    original_max_len : int
        The trained length, in tokens. All kinds but "linear" need it.
    low_freq_factor, high_freq_factor : float
        Only "llama3": pairs that turn fewer times than the first in the trained length are slowed down in full, those
        that turn more often than the second are left alone.
    beta_slow, beta_fast : float
        Only "yarn": the same two bounds, in turns.
    attention_factor : float, optional
        Only "yarn": what q and k are multiplied by. Default: 0.1 · ln(factor) + 1.
    mscale, mscale_all_dim : float, optional
        Only "yarn": with both, the default becomes (0.1 · mscale · ln(factor) + 1) / (0.1 · mscale_all_dim ·
        ln(factor) + 1).
    truncate : bool
        Only "yarn": whether the ramp starts and ends at whole pairs.

    Raises
    ------
    ValueError
        For an unknown kind, a number out of its range, or a missing `original_max_len`.

    Examples
    --------
    >>> frequencies(8, scaling=RopeScaling("linear", factor=4.0)).shape
    (4,)
    """

    kind: str
    factor: float
    original_max_len: int | None = None
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    def __post_init__(self):
        _check.choice(KINDS, kind=self.kind)
        _check.number(at_least=1, factor=self.factor)
        if self.kind != "linear" or self.original_max_len is not None:
            _check.integer(at_least=1, original_max_len=self.original_max_len)
        _check.number(above=0, low_freq_factor=self.low_freq_factor, beta_slow=self.beta_slow)
        _check.number(above=self.low_freq_factor, high_freq_factor=self.high_freq_factor)
        _check.number(above=self.beta_slow, beta_fast=self.beta_fast)
        for name in ("attention_factor", "mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                _check.number(above=0, **{name: getattr(self, name)})
                if self.kind != "yarn":
                    raise ValueError(f"{name} belongs to yarn, got it with {self.kind}")
        _check.choice((True, False), truncate=self.truncate)


def frequencies(d_head, base=10_000.0, scaling=None, length=None):
    """Return how fast each pair of entries turns: its angle per position.

    Parameters
    ----------
    d_head : int
        Width of a head; even.
    base : float
        Above 1. The larger, the slower the slowest pair turns.
    scaling : RopeScaling or dict of its fields, optional
        How to reach past the trained length.
    length : int, optional
        Tokens in the context at present (the largest position + 1). Only "dynamic" uses it, and nothing changes up
        to the trained length. Default: a context that fits.

    Returns
    -------
    float64 array [d_head/2]
        θ_i in radians per position. Without scaling θ_i = base^(−2i/d_head), so θ_0 = 1.

    Raises
    ------
    ValueError
        If d_head is odd or not a positive integer, base is not above 1, or scaling or length is out of range.

    Notes
    -----
    Source: Su et al. (2021), "RoFormer", section 3.2.2 (no scaling); Chen et al. (2023), "Extending Context Window of
    Large Language Models via Positional Interpolation" (linear); Peng et al. (2023), "YaRN", sections 3.1 (NTK-aware),
    3.2 and 3.4 (YaRN) and appendix B.2 (dynamic); Grattafiori et al. (2024), "The Llama 3 Herd of Models" and its
    published configuration (llama3).

    Examples
    --------
    >>> frequencies(8)
    array([1.   , 0.1  , 0.01 , 0.001])
    >>> frequencies(64, scaling={"kind": "dynamic", "factor": 2.0, "original_max_len": 512}, length=900).shape
    (32,)
    """
    _check_width("d_head", d_head)
    _check.number(above=1, base=base)
    scaling = as_scaling(scaling)
    if length is not None:
        _check.integer(at_least=1, length=length)
    plain = float(base) ** (-np.arange(0, d_head, 2) / d_head)
    if scaling is None:
        return plain
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "dynamic":
        stretch = max(1.0, scaling.factor * (length or 1) / scaling.original_max_len - (scaling.factor - 1))
        return frequencies(d_head, ntk_base(d_head, base, stretch))
    kept = _kept_by_llama3(plain, scaling) if scaling.kind == "llama3" else _kept_by_yarn(d_head, base, scaling)
    return plain * (kept + (1 - kept) / scaling.factor)


def ntk_base(d_head, base, factor):
    """Return the base under which the slowest pair turns `factor` times slower and the fastest as before.

    Parameters
    ----------
    d_head : int
        Width of a head; even.
    base : float
        The base that the model was trained with; above 1.
    factor : float, at least 1
        How many times longer the context is to become.

    Returns
    -------
    float
        base · factor^(d_head / (d_head − 2)).

    Raises
    ------
    ValueError
        If d_head is odd or has only one pair, which cannot be both slowed and left alone; or a number is out of range.

    Notes
    -----
    Source: Peng et al. (2023), "YaRN", section 3.1, definition 1.

    Examples
    --------
    >>> slow = frequencies(8, ntk_base(8, 10000.0, 4.0))[-1]
    >>> round(float(frequencies(8)[-1] / slow), 12)
    4.0
    """
    _check_width("d_head", d_head)
    _check.number(above=1, base=base)
    _check.number(at_least=1, factor=factor)
    if factor == 1:
        return float(base)
    _check.integer(at_least=4, d_head=d_head)
    return float(base) * factor ** (d_head / (d_head - 2))


def wavelengths(freqs):
    """Return after how many positions each pair has turned once.

    Parameters
    ----------
    freqs : array [d_head/2]
        Radians per position, above 0, as `frequencies` returns them.

    Returns
    -------
    float64 array [d_head/2]
        2π / θ_i, in positions.

    Raises
    ------
    ValueError
        If a frequency is not above 0.

    Examples
    --------
    >>> wavelengths(frequencies(8)).astype(int)
    array([   6,   62,  628, 6283])
    """
    _check.shapes(freqs=(freqs, "... pairs"))
    freqs = np.asarray(freqs, dtype=np.float64)
    if not np.all(freqs > 0):
        raise ValueError(f"freqs must be above 0, got {freqs.min()}")
    return 2 * np.pi / freqs


def attention_factor(scaling):
    """Return what q and k are each multiplied by after the rotation: 1 for every kind of scaling but YaRN.

    Parameters
    ----------
    scaling : RopeScaling, dict of its fields, or None
        The same as `frequencies` gets.

    Returns
    -------
    float
        Since q and k both get it, the scores get its square.

    Raises
    ------
    ValueError
        As for `RopeScaling`.

    Notes
    -----
    A long context spreads the attention weights out; larger scores sharpen them again.

    Source: Peng et al. (2023), "YaRN", section 3.4, equation 22.

    Examples
    --------
    >>> round(attention_factor({"kind": "yarn", "factor": 4.0, "original_max_len": 4096}), 6)
    1.138629
    >>> attention_factor(None)
    1.0
    """
    scaling = as_scaling(scaling)
    if scaling is None or scaling.kind != "yarn":
        return 1.0
    if scaling.attention_factor is not None:
        return float(scaling.attention_factor)
    growth = 0.1 * math.log(scaling.factor)
    if scaling.mscale and scaling.mscale_all_dim:
        return (growth * scaling.mscale + 1) / (growth * scaling.mscale_all_dim + 1)
    return growth + 1


def rotate(x, positions, freqs, pairing="half"):
    """Turn each pair of entries by its own angle: position times frequency.

    Parameters
    ----------
    x : array [..., T, d_head]
        Queries or keys.
    positions : int, or integer array [T] or [..., T]
        The position of the first of T tokens in a row (the number of tokens already cached), or each token's own. An
        array has either one axis or exactly the leading axes of `x`, of size 1 where they are shared: for `x`
        [B, H, T, d_head] and a position for each row of the batch, [B, 1, T].
    freqs : array [d_head/2]
        Radians per position, as `frequencies` returns them.
    pairing : "half" or "interleaved"
        Which entries form pair i: i and i + d_head/2 (Llama as published by Hugging Face, GPT-NeoX), or 2i and 2i + 1
        (RoFormer, Llama as published by Meta). The two are the same up to a fixed order of the columns of
        W_q and W_k: see `interleaved_to_half`.

    Returns
    -------
    array [..., T, d_head]
        (a, b) → (a cos φ − b sin φ, a sin φ + b cos φ) for each pair, in the dtype of `x`. Norms stay as they were,
        and the product of a query and a key depends only on how far apart their positions are.

    Raises
    ------
    ValueError
        If d_head is odd, freqs does not hold one frequency a pair, a position is negative or not an integer, the
        positions do not fit `x`, or the pairing is unknown.

    Notes
    -----
    The angles are made in float64: float32 rounds an angle of a million radians by up to 1/32, and float16 cannot hold
    it at all.

    Source: Su et al. (2021), "RoFormer", section 3.4.2, equation 34.

    Examples
    --------
    >>> rotate(np.array([[1.0, 2.0, 3.0, 4.0]]), 1, frequencies(4), pairing="interleaved").round(4)
    array([[-1.1426,  1.9221,  2.9599,  4.0298]])
    >>> rotate(np.ones((2, 3, 5, 8)), 7, frequencies(8)).shape
    (2, 3, 5, 8)
    """
    sizes = _check.shapes(x=(x, "... T d_head"))
    _check_width("d_head", sizes["d_head"])
    _check.shapes(freqs=(freqs, str(sizes["d_head"] // 2)))
    angles = _positions(positions, np.shape(x))[..., None] * np.asarray(freqs, dtype=np.float64)
    x, dtype = _check.working(x)
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    out = np.empty_like(x)
    (a, b), (turned_a, turned_b) = _pairs(x, pairing), _pairs(out, pairing)
    with np.errstate(invalid="ignore", over="ignore"):  # an infinity that came in may come out as NaN
        turned_a[...] = a * cos - b * sin
        turned_b[...] = a * sin + b * cos
        return out.astype(dtype, copy=False)


def interleaved_to_half(w, n_heads):
    """Reorder the columns of W_q or W_k so that `pairing="half"` does what "interleaved" did before.

    Parameters
    ----------
    w : array [..., n_heads · d_head]
        The weights [d_in, n_heads · d_head] of the queries or of the keys (with n_kv_heads heads), or a bias
        [n_heads · d_head].
    n_heads : int
        How many heads the columns hold. The order changes within each head, never across heads.

    Returns
    -------
    array [..., n_heads · d_head]
        In each head the columns 0, 2, 4, …, then 1, 3, 5, …; a new array.

    Raises
    ------
    ValueError
        If the columns do not split into `n_heads` heads of even width.

    Examples
    --------
    >>> interleaved_to_half(np.arange(8), n_heads=2)
    array([0, 2, 1, 3, 4, 6, 5, 7])
    >>> interleaved_to_half(np.zeros((5, 12)), n_heads=3).shape
    (5, 12)
    """
    w, columns = _columns(w, n_heads)
    pairs = columns.reshape(n_heads, -1, 2)  # [head, pair, member]
    return w[..., pairs.transpose(0, 2, 1).ravel()]


def half_to_interleaved(w, n_heads):
    """Reorder the columns of W_q or W_k so that `pairing="interleaved"` does what "half" did before.

    The inverse of `interleaved_to_half`.

    Parameters
    ----------
    w : array [..., n_heads · d_head]
        Weights or a bias, as there.
    n_heads : int
        How many heads the columns hold.

    Returns
    -------
    array [..., n_heads · d_head]
        In each head the columns 0, d_head/2, 1, d_head/2 + 1, …; a new array.

    Raises
    ------
    ValueError
        If the columns do not split into `n_heads` heads of even width.

    Examples
    --------
    >>> half_to_interleaved(np.array([0, 2, 1, 3, 4, 6, 5, 7]), n_heads=2)
    array([0, 1, 2, 3, 4, 5, 6, 7])
    >>> half_to_interleaved(np.zeros((5, 12)), n_heads=3).shape
    (5, 12)
    """
    w, columns = _columns(w, n_heads)
    halves = columns.reshape(n_heads, 2, -1)  # [head, member, pair]
    return w[..., halves.transpose(0, 2, 1).ravel()]


def rotate_stream_once(x, base=10_000.0, start=0, pairing="interleaved"):
    """Rotate the residual stream itself, once, before the first block: a simplification that no real model uses.

    Parameters
    ----------
    x : array [..., T, d_model]
        The embeddings, before the first block. The rotation treats them as one head of width d_model.
    base : float
        As for `frequencies`.
    start : int
        The position of the first token.
    pairing : "interleaved" or "half"
        As for `rotate`.

    Returns
    -------
    array [..., T, d_model]
        In the dtype of `x`.

    Raises
    ------
    ValueError
        As for `frequencies` and `rotate`.

    Notes
    -----
    It tells positions apart, but it is not RoPE. Queries and keys are projections of a stream that has already been
    turned, so that a score is x_mᵀ R_mᵀ W_q W_kᵀ R_n x_n. It depends on n − m alone only if W_q W_kᵀ commutes with
    every rotation, which learned weights do not; the values carry the positions too, and later blocks get no fresh
    copy. Real models rotate q and k inside every attention layer.

    Examples
    --------
    >>> rotate_stream_once(np.ones((2, 5, 6))).shape
    (2, 5, 6)
    """
    sizes = _check.shapes(x=(x, "... T d_model"))
    _check_width("d_model", sizes["d_model"])
    return rotate(x, start, frequencies(sizes["d_model"], base), pairing)


def as_scaling(scaling):
    """Return a `RopeScaling` from one, from a dict of its fields, or None from None.

    Raises
    ------
    ValueError
        For anything else, an unknown field, or a field out of its range.

    Examples
    --------
    >>> as_scaling({"kind": "linear", "factor": 2.0}).factor
    2.0
    """
    if scaling is None or isinstance(scaling, RopeScaling):
        return scaling
    if not isinstance(scaling, dict):
        raise ValueError(f"scaling must be a RopeScaling, a dict of its fields or None, got {scaling!r}")
    known = [field.name for field in fields(RopeScaling)]
    for name in scaling:
        if name not in known:
            raise ValueError(f"scaling has no field {name!r}; its fields are {', '.join(known)}")
    for name in ("kind", "factor"):
        if name not in scaling:
            raise ValueError(f"scaling needs the field {name!r}, got {sorted(scaling)}")
    return RopeScaling(**scaling)


def _kept_by_llama3(plain, scaling):
    """Return which share of each frequency stays, by how many turns the pair makes in the trained length."""
    turns = scaling.original_max_len / wavelengths(plain)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    return np.clip((turns - low) / (high - low), 0, 1)


def _kept_by_yarn(d_head, base, scaling):
    """Return which share of each frequency stays, along a ramp between two pairs."""
    # Pair i turns L / (2π base^(2i/d_head)) times in the trained length L; solved for i at either end of the ramp:
    turns = np.array([scaling.beta_fast, scaling.beta_slow])
    ends = d_head * np.log(scaling.original_max_len / (2 * np.pi * turns)) / (2 * math.log(base))
    first, last = (math.floor(ends[0]), math.ceil(ends[1])) if scaling.truncate else ends
    first, last = max(first, 0), min(last, d_head - 1)
    last += 0.001 * (first == last)  # as the published code does: a ramp of no width would divide by 0
    return 1 - np.clip((np.arange(d_head // 2) - first) / (last - first), 0, 1)


def _positions(positions, shape):
    """Return positions as an integer array that broadcasts to the axes of x before the last."""
    T, leading = shape[-2], shape[:-1]
    if np.ndim(positions) == 0:
        _check.integer(at_least=0, positions=positions)
        return positions + np.arange(T)
    positions = np.asarray(positions)
    if positions.dtype.kind not in "iu":
        raise ValueError(f"positions must hold integers, got dtype {positions.dtype}")
    if positions.min(initial=0) < 0:
        raise ValueError(f"positions must be at least 0, got {positions.min()}")
    shared = positions.shape == (T,)
    own = positions.ndim == len(leading) and all(n in (1, m) for n, m in zip(positions.shape, leading, strict=True))
    if not (shared or (own and positions.shape[-1] == T)):
        raise ValueError(f"positions has shape {positions.shape}, expected ({T},) or {leading}, sizes 1 where shared")
    return positions


def _pairs(x, pairing):
    """Return views of the first and of the second member of every pair."""
    _check.choice(PAIRINGS, pairing=pairing)
    half = x.shape[-1] // 2
    return (x[..., :half], x[..., half:]) if pairing == "half" else (x[..., ::2], x[..., 1::2])


def _columns(w, n_heads):
    """Return w as an array, and the numbers of its columns, checked to split into heads of even width."""
    sizes = _check.shapes(w=(w, "... columns"))
    _check.integer(at_least=1, n_heads=n_heads)
    if sizes["columns"] % (2 * n_heads):
        raise ValueError(f"w has {sizes['columns']} columns, which do not split into {n_heads} heads of even width")
    return np.asarray(w), np.arange(sizes["columns"])


def _check_width(name, width):
    _check.integer(at_least=2, **{name: width})
    if width % 2:
        raise ValueError(f"{name} must be even, because its entries turn in pairs, got {width}")
