"""Chapter 12: exact attention in tiles, with a softmax that never sees a whole row, and the memory traffic counted."""

import math
from typing import NamedTuple

import numpy as np

from labkit import _check
from labkit.attention import _weighted_sum, masked
from labkit.kv_cache import _group_size, _grouped_mask


def online_softmax(x, block=64):
    """Compute softmax from blocks of a row: one pass for its maximum and its normaliser together, one for the weights.

    Parameters
    ----------
    x : array [..., n]
        Scores; −∞ means "not allowed".
    block : int
        How many scores to look at at a time.

    Returns
    -------
    array [..., n]
        What `softmax` gives, up to rounding, in the dtype of `x`.

    Raises
    ------
    ValueError
        If `x` is empty or holds +∞, or block is not a positive integer.

    Notes
    -----
    Whenever a block raises the maximum, the sum so far is multiplied by exp(old maximum − new maximum).

    Source: Milakov and Gimelshein (2018), "Online normalizer calculation for softmax", algorithm 3.

    Examples
    --------
    >>> online_softmax(np.array([0.0, 0.0, -np.inf, 0.0, 0.0]), block=2)
    array([0.25, 0.25, 0.  , 0.25, 0.25])
    >>> online_softmax(np.zeros((3, 7)), block=4).shape
    (3, 7)
    """
    sizes = _check.shapes(x=(x, "... n"))
    _check.integer(at_least=1, block=block)
    x, dtype = _check.working(x)
    top, total = np.full(x.shape[:-1], -np.inf, x.dtype), np.zeros(x.shape[:-1], x.dtype)
    for columns in blocks(0, sizes["n"], block):
        old, top = top, np.maximum(top, _top(x[..., columns]))
        total = total * np.exp(old - _finite(top)) + np.exp(x[..., columns] - _finite(top)[..., None]).sum(axis=-1)
    weights = np.exp(x - _finite(top)[..., None]) / _positive(total)[..., None]
    return weights.astype(dtype, copy=False)


class Partial(NamedTuple):
    """What is known of T rows of attention after some of their keys.

    Attributes
    ----------
    top : array [..., T]
        The largest score so far; −∞ if all keys were masked.
    total : array [..., T]
        Σ exp(score − top) over those keys.
    out : array [..., T, d_v]
        The attention over those keys alone: their values, weighted by exp(score − top) / total.
    """

    top: np.ndarray
    total: np.ndarray
    out: np.ndarray


def flash_attention(
    q, k, v, mask=None, causal=False, window=None, scale=None, block_q=64, block_k=64, return_lse=False
):
    """Compute the same attention tile by tile, so that no array ever holds T × S scores.

    Parameters
    ----------
    q : array [..., H, T, d_head] or [T, d_head]
        Queries.
    k : array [..., G, S, d_head] or [S, d_head]
        Keys. G divides H: query head h uses key/value head h // (H/G).
    v : array [..., G, S, d_v] or [S, d_v]
        Values.
    mask : array broadcasting to [..., H, T, S], optional
        Boolean: True where a query may attend to a key. Float: added to the scaled scores.
    causal : bool
        Whether no query may see a key after it. The queries are the last T of the S positions. Tiles that lie wholly
        in the future are skipped.
    window : int, optional
        Causal, and each query sees at most so many positions, its own included. Tiles out of reach are skipped.
    scale : float, optional
        What the dot products are multiplied by. Default: 1/√d_head.
    block_q, block_k : int
        Rows and columns of a tile. Those at the edges are smaller; any T and S will do.
    return_lse : bool
        Whether to return the log-sum-exp of every row too.

    Returns
    -------
    array [..., H, T, d_v]
        What `grouped_query_attention` gives, up to rounding, in the dtype of the arguments. A query that may attend
        to nothing gets zeros.
    array [..., H, T]
        ln Σ exp(score) of every row, if `return_lse`: −∞ where nothing was allowed. float32 for half precision.

    Raises
    ------
    ValueError
        If the axes do not agree, G does not divide H, the mask is neither Boolean nor float, a score is +∞, the scale
        is not finite, or a block or the window is not a positive integer.

    Notes
    -----
    Beyond arguments and results it needs memory for one tile: O(block_q · (block_k + d)), and in half precision a
    float32 copy of the tile's keys and values.

    Source: Dao et al. (2022), "FlashAttention", algorithm 1; with the loops in the order of Dao (2023),
    "FlashAttention-2", algorithm 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (rng.normal(size=(h, n, 8)) for h, n in ((4, 100), (2, 150), (2, 150)))
    >>> out, lse = flash_attention(q, k, v, causal=True, block_q=32, block_k=48, return_lse=True)
    >>> out.shape, lse.shape
    ((4, 100, 8), (4, 100))
    """
    _check_tiles(block_q, block_k, window)
    q, k, v, mask, scale, dtype, heads = _prepare(q, k, v, mask, scale)
    T, S, d_v = q.shape[-2], *v.shape[-2:]
    out, lse = np.empty((*q.shape[:-1], d_v), dtype), np.empty(q.shape[:-1], scale.dtype)
    for head in np.ndindex(q.shape[:-2]):
        for rows in blocks(0, T, block_q):
            queries = q[head][rows].astype(scale.dtype, copy=False) * scale
            part = Partial(-np.inf, 0.0, 0.0)  # no keys yet
            for columns in blocks(*reach(rows, T, S, block_k, causal, window), block_k):
                with np.errstate(invalid="ignore", over="ignore"):
                    scores = queries @ k[head][columns].astype(scale.dtype, copy=False).T
                scores = masked(scores, visible(rows, columns, T, S, causal, window))
                scores = masked(scores, None if mask is None else mask[head][rows, columns])
                part = merge(part, partial_attention(scores, v[head][columns]))
            out[head][rows], lse[head][rows] = part.out, log_sum_exp(part)
    out, lse = out.reshape(*heads, T, d_v), lse.reshape(*heads, T)
    return (out, lse) if return_lse else out


def partial_attention(scores, v):
    """Attend to some of the keys, and remember what is needed to merge the result with the rest.

    Parameters
    ----------
    scores : array [..., T, S]
        Masked, scaled scores of these keys.
    v : array [..., S, d_v]
        Their values.

    Returns
    -------
    Partial
        top and total [..., T], out [..., T, d_v], in the dtype of `scores`.

    Raises
    ------
    ValueError
        If the axes do not agree, or a score is +∞.

    Examples
    --------
    >>> part = partial_attention(np.zeros((2, 3)), np.arange(12.0).reshape(3, 4))
    >>> part.top.shape, part.total, part.out.shape
    ((2,), array([3., 3.]), (2, 4))
    """
    _check.shapes(scores=(scores, "... T S"), v=(v, "... S d_v"))
    scores, _ = _check.working(scores)
    top = _top(scores)
    weights = np.exp(scores - _finite(top)[..., None])
    total = weights.sum(axis=-1)
    weights /= _positive(total)[..., None]
    return Partial(top, total, _weighted_sum(weights, np.asarray(v).astype(scores.dtype, copy=False)))


def merge(a, b):
    """Merge the attention over some keys with the attention over other keys: the step that makes tiles exact.

    Parameters
    ----------
    a, b : Partial
        Of the same queries, over different keys.

    Returns
    -------
    Partial
        Over the keys of both. The order does not matter, nor which are merged first (up to rounding).

    Notes
    -----
    Each side's total is brought to the common maximum, and each side's output counts by its share of the sum. Kernels
    divide by the total only once, at the end, which saves operations and is the same.

    Source: Dao et al. (2022), "FlashAttention", section 3.1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores, v = rng.normal(size=(2, 5)), rng.normal(size=(5, 3))
    >>> both = merge(partial_attention(scores[:, :2], v[:2]), partial_attention(scores[:, 2:], v[2:]))
    >>> both.out.shape, np.allclose(both.out, partial_attention(scores, v).out)
    ((2, 3), True)
    """
    top = np.maximum(a.top, b.top)
    total_a, total_b = a.total * np.exp(a.top - _finite(top)), b.total * np.exp(b.top - _finite(top))
    total = total_a + total_b
    share_a, share_b = (total_a / _positive(total))[..., None], (total_b / _positive(total))[..., None]
    # A share of exactly 0 keeps out even a NaN, as a weight of 0 does.
    out = np.where(share_a == 0, 0, share_a * a.out) + np.where(share_b == 0, 0, share_b * b.out)
    return Partial(top, total, out)


def log_sum_exp(part):
    """Return ln Σ exp(score) over the keys of a `Partial`.

    Parameters
    ----------
    part : Partial
        Over any keys.

    Returns
    -------
    array [..., T]
        −∞ where all keys were masked. With it, the weights can be had again from the scores alone, one tile at a
        time: exp(score − lse).

    Examples
    --------
    >>> log_sum_exp(partial_attention(np.zeros((2, 3)), np.ones((3, 4)))) - np.log(3)
    array([0., 0.])
    """
    return part.top + np.log(_positive(part.total))


def blocks(start, stop, size):
    """Cut start … stop − 1 into slices of `size`, the last of them smaller if need be.

    Examples
    --------
    >>> list(blocks(0, 10, 4))
    [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    """
    return (slice(first, min(first + size, stop)) for first in range(start, stop, size))


def reach(rows, T, S, block_k=1, causal=False, window=None):
    """Return the first key, and the one after the last, that any of these queries may see, widened to whole tiles.

    Parameters
    ----------
    rows : slice
        Of the T queries, which are the last T of the S positions.
    T, S : int
        Number of queries and of keys.
    block_k : int
        Columns of a tile; tiles start at multiples of it.
    causal, window
        As for `flash_attention`.

    Returns
    -------
    tuple of int
        Nothing is in reach if the second is 0. Every tile in reach holds a key that one of the queries may see.

    Examples
    --------
    >>> reach(slice(4, 8), T=12, S=12, block_k=3, causal=True)
    (0, 9)
    >>> reach(slice(4, 8), T=12, S=12, block_k=3, window=1)
    (3, 9)
    """
    if not causal and window is None:
        return 0, S
    oldest, newest = rows.start + S - T, rows.stop - 1 + S - T
    first = 0 if window is None else max(0, oldest - window + 1)
    stop = max(0, newest + 1)
    return first // block_k * block_k, min(S, math.ceil(stop / block_k) * block_k)


def visible(rows, columns, T, S, causal=False, window=None):
    """Return the causal (and window) mask of one tile alone, or None if it hides nothing.

    Parameters
    ----------
    rows, columns : slice
        Of the queries and of the keys.
    T, S : int
        Number of queries and of keys; the queries are the last T of the S positions.
    causal, window
        As for `flash_attention`.

    Returns
    -------
    Boolean array [rows, columns] or None
        True = may attend. None if every query of the tile may attend to every key of it.

    Examples
    --------
    >>> visible(slice(2, 4), slice(0, 4), T=4, S=4, causal=True).astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 1, 1]])
    """
    if not causal and window is None:
        return None
    query = np.arange(rows.start, rows.stop)[:, None] + S - T
    key = np.arange(columns.start, columns.stop)
    if key[-1] <= query[0, 0] and (window is None or key[0] > query[-1, 0] - window):
        return None
    return key <= query if window is None else (key <= query) & (key > query - window)


def count_tiles(T, S, block_q=64, block_k=64, causal=False, window=None):
    """Count the tiles that `flash_attention` computes for one head.

    Parameters
    ----------
    T, S : int
        Number of queries and of keys.
    block_q, block_k, causal, window
        As for `flash_attention`.

    Returns
    -------
    int
        Without a mask by rule ⌈T/block_q⌉ · ⌈S/block_k⌉; causal about half of that.

    Raises
    ------
    ValueError
        If a size is not a positive integer.

    Examples
    --------
    >>> count_tiles(256, 256), count_tiles(256, 256, causal=True), count_tiles(256, 256, window=64)
    (16, 10, 7)
    """
    return sum(math.ceil((stop - first) / block_k) for _, first, stop in _walk(T, S, block_q, block_k, causal, window))


def naive_traffic(T, S, d_head, d_v=None):
    """Count the floats that one head of plain attention moves between slow memory and the chip.

    Parameters
    ----------
    T, S : int
        Number of queries and of keys.
    d_head, d_v : int
        Width of queries and keys, and of values (default: the same).

    Returns
    -------
    int
        (T + S)(d_head + d_v) + 4TS: Q, K and V are read and the output is written once; the scores are written and
        read, and so are the weights.

    Raises
    ------
    ValueError
        If a size is not a positive integer.

    Notes
    -----
    Source: Dao et al. (2022), "FlashAttention", algorithm 0.

    Examples
    --------
    >>> naive_traffic(1024, 1024, 64)
    4456448
    """
    d_v = d_head if d_v is None else d_v
    _check.integer(at_least=1, T=T, S=S, d_head=d_head, d_v=d_v)
    return (T + S) * (d_head + d_v) + 4 * T * S


def tiled_traffic(T, S, d_head, block_q=64, block_k=64, causal=False, window=None, d_v=None):
    """Count the floats that one head of `flash_attention` moves between slow memory and the chip.

    Parameters
    ----------
    T, S : int
        Number of queries and of keys.
    d_head, d_v : int
        Width of queries and keys, and of values (default: the same).
    block_q, block_k, causal, window
        As for `flash_attention`.

    Returns
    -------
    int
        Each query is read and each output written once; the keys and values in reach are read once for every block
        of queries. Without a mask by rule: T(d_head + d_v) + ⌈T/block_q⌉ · S(d_head + d_v).

    Raises
    ------
    ValueError
        If a size is not a positive integer.

    Notes
    -----
    With the largest blocks that fit into M floats (`blocks_that_fit`) this is Θ(TS d²/M).

    Source: Dao et al. (2022), "FlashAttention", theorem 2.

    Examples
    --------
    >>> tiled_traffic(1024, 1024, 64)
    2228224
    """
    d_v = d_head if d_v is None else d_v
    _check.integer(at_least=1, d_head=d_head, d_v=d_v)
    walk = _walk(T, S, block_q, block_k, causal, window)
    return sum((rows.stop - rows.start + stop - first) * (d_head + d_v) for rows, first, stop in walk)


def blocks_that_fit(on_chip, d_head, d_v=None):
    """Choose block_q and block_k so that all that a tile needs fits into fast memory.

    Parameters
    ----------
    on_chip : int
        Size M of the fast memory, in floats.
    d_head, d_v : int
        Width of queries and keys, and of values (default: the same).

    Returns
    -------
    tuple of int
        block_q and block_k. Queries and output get half of the memory, since traffic falls with block_q; keys,
        values and scores share the rest.

    Raises
    ------
    ValueError
        If not even a block of one query and one key fits, or a size is not a positive integer.

    Examples
    --------
    >>> block_q, block_k = blocks_that_fit(48 * 1024, d_head=64)
    >>> block_q, block_k, floats_on_chip(block_q, block_k, d_head=64) <= 48 * 1024
    (192, 76, True)
    """
    d_v = d_head if d_v is None else d_v
    _check.integer(at_least=1, on_chip=on_chip, d_head=d_head, d_v=d_v)
    width = d_head + d_v
    block_q = max(1, on_chip // (2 * width))
    block_k = (on_chip - block_q * width) // (width + block_q)
    if block_k < 1:
        raise ValueError(f"on_chip must be at least {floats_on_chip(1, 1, d_head, d_v)} floats, got {on_chip}")
    return block_q, block_k


def floats_on_chip(block_q, block_k, d_head, d_v=None):
    """Count the floats that a tile needs at once: queries and output, keys and values, and the scores between them.

    Parameters
    ----------
    block_q, block_k : int
        Rows and columns of a tile.
    d_head, d_v : int
        Width of queries and keys, and of values (default: the same).

    Returns
    -------
    int
        (block_q + block_k)(d_head + d_v) + block_q · block_k: nothing in it grows with T or S.

    Raises
    ------
    ValueError
        If a size is not a positive integer.

    Examples
    --------
    >>> floats_on_chip(64, 64, d_head=64)
    20480
    """
    d_v = d_head if d_v is None else d_v
    _check.integer(at_least=1, block_q=block_q, block_k=block_k, d_head=d_head, d_v=d_v)
    return (block_q + block_k) * (d_head + d_v) + block_q * block_k


def _walk(T, S, block_q, block_k, causal, window):
    """Yield each block of queries with the first key and the one after the last that it needs."""
    _check_tiles(block_q, block_k, window)
    _check.integer(at_least=1, T=T, S=S)
    return ((rows, *reach(rows, T, S, block_k, causal, window)) for rows in blocks(0, T, block_q))


def _check_tiles(block_q, block_k, window):
    _check.integer(at_least=1, block_q=block_q, block_k=block_k)
    if window is not None:
        _check.integer(at_least=1, window=window)


def _prepare(q, k, v, mask, scale):
    """Return views of the arguments [..., G, H/G, n, d], the scale in the working precision, and what to return."""
    flat = all(np.ndim(a) <= 2 for a in (q, k, v, mask))
    q, k, v = (np.asarray(a)[None] if np.ndim(a) == 2 else np.asarray(a) for a in (q, k, v))
    sizes = _check.shapes(q=(q, "... H T d_head"), k=(k, "... G S d_head"), v=(v, "... G S d_v"))
    scale = 1 / math.sqrt(sizes["d_head"]) if scale is None else scale
    _check.number(scale=scale)
    one, _, _, dtype = _check.working(q.flat[:1], k.flat[:1], v.flat[:1])
    groups = sizes["G"], _group_size(sizes["H"], sizes["G"])
    q = q.reshape(*q.shape[:-3], *groups, *q.shape[-2:])
    k, v = k[..., None, :, :], v[..., None, :, :]
    shape = *np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2]), sizes["T"], sizes["S"]
    if mask is not None:
        mask = _broadcast_mask(_grouped_mask(mask, groups), shape)
        shape = mask.shape
    q, k, v = (np.broadcast_to(a, (*shape[:-2], *a.shape[-2:])) for a in (q, k, v))
    return q, k, v, mask, one.dtype.type(scale), dtype, () if flat else (*shape[:-4], sizes["H"])


def _broadcast_mask(mask, shape):
    """Return a view of the mask in the shape of the scores, which a mask with more leading axes may widen."""
    mask = np.asarray(mask)
    _check.masks(mask)
    try:
        wide = np.broadcast_shapes(mask.shape, shape)
        fits = wide[-2:] == shape[-2:]
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"mask has shape {mask.shape}, which does not broadcast to the scores' {shape} (heads grouped)"
        )
    return np.broadcast_to(mask, wide)


def _top(scores):
    """Return the largest score of each row."""
    top = scores.max(axis=-1)
    if np.any(top == np.inf):
        raise ValueError("scores must be finite or −inf, got +inf")
    return top


def _finite(top):
    """Return what to subtract from scores whose maximum is `top`: 0 where all of them are −∞."""
    return np.where(top == -np.inf, 0, top)


def _positive(total):
    """Return what to divide by where the sum is `total`: 1 where nothing was summed."""
    return np.where(total == 0, 1, total)
