"""Chapter 5: many attentions side by side, each in a narrow subspace of its own."""

import numpy as np

from labkit import _check
from labkit.attention import linear, project_qkv, scaled_dot_product_attention


def split_heads(x, n_heads):
    """Cut the last axis into n_heads equal pieces and give each a [T, d_head] matrix of its own.

    Parameters
    ----------
    x : array [..., T, n_heads · d_head]
        Queries, keys or values of all heads, side by side: head 0 owns the first d_head columns.
    n_heads : int
        Number of heads.

    Returns
    -------
    array [..., n_heads, T, d_head]
        A rearranged view of x: no number is computed and none is copied.

    Raises
    ------
    ValueError
        If n_heads does not divide the last axis.

    Notes
    -----
    Source: Vaswani et al. (2017), "Attention Is All You Need", section 3.2.2.

    Examples
    --------
    >>> split_heads(np.ones((2, 5, 12)), n_heads=3).shape
    (2, 3, 5, 4)
    """
    sizes = _check.shapes(x=(x, "... T d_model"))
    _check.integer(at_least=1, n_heads=n_heads)
    d_head, rest = divmod(sizes["d_model"], n_heads)
    if rest:
        raise ValueError(f"x has a last axis of {sizes['d_model']}, which n_heads = {n_heads} does not divide evenly")
    x = np.asarray(x)
    return x.reshape(*x.shape[:-1], n_heads, d_head).swapaxes(-2, -3)


def concat_heads(x):
    """Put the heads side by side again: the inverse of `split_heads`.

    Parameters
    ----------
    x : array [..., n_heads, T, d_head]
        One matrix for each head.

    Returns
    -------
    array [..., T, n_heads · d_head]
        Head 0 in the first d_head columns, then head 1, and so on.

    Raises
    ------
    ValueError
        If x has fewer than three axes, or an empty one.

    Examples
    --------
    >>> concat_heads(np.ones((2, 3, 5, 4))).shape
    (2, 5, 12)
    """
    sizes = _check.shapes(x=(x, "... n_heads T d_head"))
    x = np.asarray(x).swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], sizes["n_heads"] * sizes["d_head"])


def multi_head_attention(
    x, w_q, w_k, w_v, w_o, n_heads, mask=None, context=None, return_weights=False, keep_heads=None
):
    """Run n_heads attentions in parallel, each on its own slice of the projections, and mix what they found.

    Parameters
    ----------
    x : array [..., T, d_model]
        Where the queries come from, and the keys and values too unless `context` is given.
    w_q : array [d_model, n_heads · d_head]
        Query projection of all heads, side by side.
    w_k, w_v : array [d_model, n_heads · d_head]
        Key and value projections; with a context, their first axis is its width.
    w_o : array [n_heads · d_head, d_model]
        Output projection.
    n_heads : int
        Number of heads.
    mask : array broadcasting to [..., n_heads, T, S], optional
        Boolean: True where a query may attend to a key. Float: added to the scaled scores. A mask [T, S] serves all
        heads; a mask for each sequence of a batch, [B, T, S], has to be passed as [B, 1, T, S].
    context : array [..., S, d_context], optional
        Where the keys and values come from, for cross-attention.
    return_weights : bool
        Whether to return the attention weights too.
    keep_heads : Boolean array [n_heads], optional
        False silences (ablates) a head: its output is replaced by zeros before W_O.

    Returns
    -------
    array [..., T, d_model]
        concat(head_1, …, head_h) W_O, in the dtype of the arguments.
    array [..., n_heads, T, S]
        The weights, if `return_weights`.

    Raises
    ------
    ValueError
        If the axes do not agree, n_heads does not divide the projections' width, the mask does not fit, or keep_heads
        is not one Boolean for each head.

    Notes
    -----
    Source: Vaswani et al. (2017), "Attention Is All You Need", section 3.2.2.

    Examples
    --------
    >>> w = np.ones((12, 12))
    >>> out, weights = multi_head_attention(np.ones((2, 5, 12)), w, w, w, w, n_heads=3, return_weights=True)
    >>> out.shape, weights.shape
    ((2, 5, 12), (2, 3, 5, 5))
    """
    _check.shapes(x=(x, "... T d_model"), w_v=(w_v, "d_in d_heads"), w_o=(w_o, "d_heads d_model"))
    x, w_q, w_k, w_v, w_o, context, dtype = _check.working(x, w_q, w_k, w_v, w_o, context)
    q, k, v = (split_heads(each, n_heads) for each in project_qkv(x, w_q, w_k, w_v, context))
    heads, weights = scaled_dot_product_attention(q, k, v, mask, return_weights=True)
    if keep_heads is not None:
        heads = np.where(_one_for_each_head(keep_heads, n_heads)[:, None, None], heads, 0)
    out = linear(concat_heads(heads), w_o).astype(dtype, copy=False)
    return (out, weights.astype(dtype, copy=False)) if return_weights else out


def _one_for_each_head(keep_heads, n_heads):
    """Return keep_heads as an array, once it is sure to be one Boolean for each head."""
    keep_heads = np.asarray(keep_heads)
    if keep_heads.dtype != bool or keep_heads.shape != (n_heads,):
        came = f"{keep_heads.dtype} {keep_heads.shape}"
        raise ValueError(f"keep_heads must be one Boolean for each of n_heads = {n_heads} heads, got {came}")
    return keep_heads
