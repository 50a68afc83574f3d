"""Chapter 2: queries, keys, values, and scaled dot-product attention."""

import math

import numpy as np

from labkit import _check
from labkit.softmax import softmax


def linear(x, w, b=None):
    """Apply one affine map to every position: x W + b.

    Parameters
    ----------
    x : array [..., d_in]
        Vectors, one for each position.
    w : array [d_in, d_out]
        Weights, stored so that they are applied from the right.
    b : array [d_out], optional
        Bias.

    Returns
    -------
    array [..., d_out]
        In the dtype of the arguments.

    Raises
    ------
    ValueError
        If x and w disagree on d_in, or w and b on d_out.

    Examples
    --------
    >>> linear(np.ones((2, 4, 8)), np.ones((8, 3)), np.zeros(3)).shape
    (2, 4, 3)
    """
    _check.shapes(x=(x, "... d_in"), w=(w, "d_in d_out"), b=(b, "? d_out"))
    x, w, b, dtype = _check.working(x, w, b)
    y = x @ w
    if b is not None:
        y += b
    return y.astype(dtype, copy=False)


def project_qkv(x, w_q, w_k, w_v, context=None, b_q=None, b_k=None, b_v=None):
    """Let every position state what it looks for (query), what it offers (key) and what it gives (value).

    Parameters
    ----------
    x : array [..., T, d_model]
        Where the queries come from.
    w_q : array [d_model, d_q]
        Query projection.
    w_k : array [d_model, d_k]
        Key projection; with a context, [d_context, d_k].
    w_v : array [d_model, d_v]
        Value projection; with a context, [d_context, d_v].
    context : array [..., S, d_context], optional
        Where the keys and values come from. Default: x itself (self-attention); anything else is cross-attention.
    b_q, b_k, b_v : array [d_q], [d_k], [d_v], optional
        Biases.

    Returns
    -------
    q : array [..., T, d_q]
    k : array [..., S, d_k]
    v : array [..., S, d_v]
        Each in the dtype of its arguments. Without a context, S = T.

    Raises
    ------
    ValueError
        If the axes do not agree.

    Notes
    -----
    Source: Vaswani et al. (2017), "Attention Is All You Need", sections 3.2.2 and 3.2.3.

    Examples
    --------
    >>> x, w = np.ones((4, 8)), np.ones((8, 3))
    >>> [each.shape for each in project_qkv(x, w, w, w)]
    [(4, 3), (4, 3), (4, 3)]
    >>> [each.shape for each in project_qkv(x, w, w, w, context=np.ones((6, 8)))]
    [(4, 3), (6, 3), (6, 3)]
    """
    source, width = (x, "d_model") if context is None else (context, "d_context")
    _check.shapes(x=(x, "... T d_model"), w_q=(w_q, "d_model d_q"), b_q=(b_q, "? d_q"))
    _check.shapes(
        context=(source, f"... S {width}"),
        w_k=(w_k, f"{width} d_k"),
        w_v=(w_v, f"{width} d_v"),
        b_k=(b_k, "? d_k"),
        b_v=(b_v, "? d_v"),
    )
    return linear(x, w_q, b_q), linear(source, w_k, b_k), linear(source, w_v, b_v)


def scaled_dot_product_attention(q, k, v, mask=None, scale=None, return_weights=False):
    """Let every query take a weighted average of the values, weighted by how well it matches each key.

    Parameters
    ----------
    q : array [..., T, d_k]
        Queries.
    k : array [..., S, d_k]
        Keys.
    v : array [..., S, d_v]
        Values, one for each key.
    mask : array broadcasting to [..., T, S], optional
        Boolean: True where a query may attend to a key. Float: added to the scaled scores.
    scale : float, optional
        What the dot products are multiplied by. Default: 1/√d_k.
    return_weights : bool
        Whether to return the attention weights too.

    Returns
    -------
    array [..., T, d_v]
        softmax(Q Kᵀ · scale + mask) V, in the dtype of the arguments. A query that may attend to nothing gets zeros.
    array [..., T, S]
        The weights, if `return_weights`.

    Raises
    ------
    ValueError
        If the axes do not agree, the mask is neither Boolean nor float, or the scale is not finite.

    Notes
    -----
    Source: Vaswani et al. (2017), "Attention Is All You Need", equation 1.

    Examples
    --------
    >>> q, k, v = np.ones((4, 8)), np.ones((6, 8)), np.arange(12.0).reshape(6, 2)
    >>> out, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    >>> out.shape, weights.shape
    ((4, 2), (4, 6))
    """
    sizes = _check.shapes(q=(q, "... T d_k"), k=(k, "... S d_k"), v=(v, "... S d_v"))
    scale = 1 / math.sqrt(sizes["d_k"]) if scale is None else scale
    _check.number(scale=scale)
    q, k, v, dtype = _check.working(q, k, v)
    with np.errstate(invalid="ignore", over="ignore"):  # a masked key may hold anything
        scores = (q * scale) @ np.swapaxes(k, -1, -2)
    weights = softmax(masked(scores, mask))
    out = _weighted_sum(weights, v).astype(dtype, copy=False)
    return (out, weights.astype(dtype, copy=False)) if return_weights else out


def masked(scores, mask):
    """Apply a mask to scores: what may not be attended to becomes −∞.

    Parameters
    ----------
    scores : array [..., T, S]
        Scaled scores.
    mask : array broadcasting to [..., T, S], or None
        Boolean: True where a query may attend to a key. Float: added to the scores.

    Returns
    -------
    array [..., T, S]
        In the dtype of `scores`.

    Raises
    ------
    ValueError
        If the mask is neither Boolean nor float, or does not fit the scores.

    Examples
    --------
    >>> masked(np.zeros((1, 2)), np.array([[True, False]]))
    array([[  0., -inf]])
    """
    _check.shapes(scores=(scores, "... T S"))
    scores, dtype = _check.working(scores)
    if mask is None:
        return scores.astype(dtype, copy=False)
    mask = np.asarray(mask)
    _check.masks(mask)
    try:
        fits = np.broadcast_shapes(mask.shape, scores.shape)[-2:] == scores.shape[-2:]
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"mask has shape {mask.shape}, which does not broadcast to the scores' {scores.shape}")
    if mask.dtype == bool:
        return np.where(mask, scores, -np.inf).astype(dtype, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        # Where the mask is −∞ the score is replaced, not added to: a NaN in a key that is out of bounds must not leak.
        return np.where(mask == -np.inf, -np.inf, scores + mask).astype(dtype, copy=False)


def _weighted_sum(weights, v):
    """Return weights @ v, in which a weight of exactly 0 keeps out even a NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        out = weights @ v
    if np.isfinite(out).all():  # anything else in v would show here, and v may be a whole cache
        return out
    finite = np.isfinite(v)
    touched = (weights != 0).astype(v.dtype) @ (~finite).astype(v.dtype) > 0
    return np.where(touched, np.nan, weights @ np.where(finite, v, 0))
