"""Chapter 9: the feed-forward network, its activations and its gate."""

import math

import numpy as np

from labkit import _check
from labkit._rows import by_rows
from labkit.attention import linear


def gelu(x, approximate="tanh"):
    """Let large positive numbers pass, stop large negative ones, and bend smoothly in between.

    Parameters
    ----------
    x : array [...]
        Numbers.
    approximate : "tanh" or "none"
        Which of the two functions of this name: "tanh" is GPT-2's, "none" the exact one, x · Φ(x) with Φ the
        distribution function of the standard normal.

    Returns
    -------
    array [...]
        In the dtype of x.

    Raises
    ------
    ValueError
        If x is not numeric, or `approximate` is neither "tanh" nor "none".

    Notes
    -----
    Source: Hendrycks & Gimpel (2016), "Gaussian Error Linear Units (GELUs)", section 2.

    Examples
    --------
    >>> gelu(np.array([-2.7]), "tanh").round(8), gelu(np.array([-2.7]), "none").round(8)
    (array([-0.00888759]), array([-0.00936083]))
    >>> gelu(np.ones((2, 3, 4))).shape
    (2, 3, 4)
    """
    _check.shapes(x=(x, "..."))
    x, dtype = _check.working(x)
    if approximate == "tanh":
        u = np.clip(x, -10, 10)  # beyond, tanh is ±1 to the last bit, and a cube might overflow
        gate = (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u * u * u))) / 2
    elif approximate == "none":
        gate = _erfc(-x / math.sqrt(2)).astype(x.dtype) / 2
    else:
        raise ValueError(f'approximate must be "tanh" or "none", got {approximate!r}')
    return _pass(x, gate).astype(dtype, copy=False)


def silu(x):
    """Multiply every number by its own logistic sigmoid.

    Parameters
    ----------
    x : array [...]
        Numbers.

    Returns
    -------
    array [...]
        x · σ(x) = x / (1 + exp(−x)), in the dtype of x.

    Raises
    ------
    ValueError
        If x is not numeric.

    Notes
    -----
    Also called Swish. Source: Elfwing, Uchibe & Doya (2018), "Sigmoid-Weighted Linear Units for Neural Network
    Function Approximation in Reinforcement Learning".

    Examples
    --------
    >>> silu(np.array([-1000.0, 0.0, 1000.0])) + 0.0
    array([   0.,    0., 1000.])
    >>> silu(np.ones((2, 3, 4))).shape
    (2, 3, 4)
    """
    _check.shapes(x=(x, "..."))
    x, dtype = _check.working(x)
    e = np.exp(-np.abs(x))  # never overflows
    gate = np.where(x < 0, e, 1) / (1 + e)
    return _pass(x, gate).astype(dtype, copy=False)


def gelu_mlp(x, w_up, w_down, b_up=None, b_down=None, approximate="tanh"):
    """Apply the two-layer network of GPT-2 to every position on its own.

    Parameters
    ----------
    x : array [..., d_model]
        Vectors, one for each position.
    w_up : array [d_model, d_ff]
        First projection, to the wider hidden layer.
    w_down : array [d_ff, d_model]
        Second projection, back to the model's width.
    b_up : array [d_ff], optional
        Bias of the first projection.
    b_down : array [d_model], optional
        Bias of the second projection.
    approximate : "tanh" or "none"
        Which GELU.

    Returns
    -------
    array [..., d_model]
        GELU(x W_up + b_up) W_down + b_down, in the dtype of the arguments.

    Raises
    ------
    ValueError
        If the axes do not agree, or `approximate` is neither "tanh" nor "none".

    Notes
    -----
    Source: Vaswani et al. (2017), "Attention Is All You Need", equation 2, with GELU in the place of ReLU.

    Examples
    --------
    >>> gelu_mlp(np.ones((4, 8)), np.ones((8, 32)), np.ones((32, 8))).shape
    (4, 8)
    """
    _check.shapes(
        x=(x, "... d_model"),
        w_up=(w_up, "d_model d_ff"),
        w_down=(w_down, "d_ff d_model"),
        b_up=(b_up, "? d_ff"),
        b_down=(b_down, "? d_model"),
    )
    x, w_up, w_down, b_up, b_down, dtype = _check.working(x, w_up, w_down, b_up, b_down)
    hidden = by_rows(lambda rows: gelu(rows, approximate), linear(x, w_up, b_up))
    return linear(hidden, w_down, b_down).astype(dtype, copy=False)


def swiglu(x, w_gate, w_up, w_down):
    """Apply the gated network of Llama to every position on its own.

    Parameters
    ----------
    x : array [..., d_model]
        Vectors, one for each position.
    w_gate : array [d_model, d_ff]
        Projection that decides how much passes.
    w_up : array [d_model, d_ff]
        Projection of what may pass.
    w_down : array [d_ff, d_model]
        Projection back to the model's width.

    Returns
    -------
    array [..., d_model]
        (SiLU(x W_gate) ⊙ x W_up) W_down, in the dtype of the arguments.

    Raises
    ------
    ValueError
        If the axes do not agree.

    Notes
    -----
    Source: Shazeer (2020), "GLU Variants Improve Transformer", equation 6: FFN_SwiGLU.

    Examples
    --------
    >>> swiglu(np.ones((4, 8)), np.ones((8, 20)), np.ones((8, 20)), np.ones((20, 8))).shape
    (4, 8)
    """
    _check.shapes(
        x=(x, "... d_model"),
        w_gate=(w_gate, "d_model d_ff"),
        w_up=(w_up, "d_model d_ff"),
        w_down=(w_down, "d_ff d_model"),
    )
    x, w_gate, w_up, w_down, dtype = _check.working(x, w_gate, w_up, w_down)
    hidden = silu(linear(x, w_gate)) * linear(x, w_up)
    return linear(hidden, w_down).astype(dtype, copy=False)


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _pass(x, gate):
    """Return x · gate, where a gate of exactly 0 stops even −∞ (both gates are 0 long before x = −1000)."""
    return np.maximum(x, -1000) * gate
