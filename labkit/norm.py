"""Chapter 8: LayerNorm and RMSNorm."""

import numpy as np

from labkit import _check


def layer_norm(x, weight, bias=None, eps=1e-5):
    """Give every position's vector mean 0 and variance 1, then scale and shift each column.

    Parameters
    ----------
    x : array [..., d_model]
        Vectors, one for each position.
    weight : array [d_model]
        Learned scale γ.
    bias : array [d_model], optional
        Learned shift β.
    eps : float
        Added to the variance, inside the root, so that a nearly constant vector is not blown up.

    Returns
    -------
    array [..., d_model]
        (x − μ) / √(σ² + ε) · γ + β, in the dtype of the arguments. μ and σ² are the mean and the (biased) variance of
        the d_model entries of one position.

    Raises
    ------
    ValueError
        If x, weight and bias disagree on d_model, or eps is negative or not finite.

    Notes
    -----
    Source: Ba, Kiros & Hinton (2016), "Layer Normalization", equations 3 and 4.

    Examples
    --------
    >>> layer_norm(np.arange(24.0).reshape(2, 3, 4), weight=np.ones(4)).shape
    (2, 3, 4)
    """
    _check.shapes(x=(x, "... d_model"), weight=(weight, "d_model"), bias=(bias, "? d_model"))
    _check.number(at_least=0, eps=eps)
    x, weight, bias, dtype = _check.working(x, weight, bias)
    centred = x - x.mean(axis=-1, keepdims=True, dtype=np.float64)  # float64: the squares must not overflow
    root = np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps)
    y = centred / np.where(root == 0, 1, root) * weight  # only a constant vector with eps = 0 has a root of 0
    return (y if bias is None else y + bias).astype(dtype, copy=False)


def rms_norm(x, weight, eps=1e-5):
    """Divide every position's vector by its root mean square, then scale each column.

    Parameters
    ----------
    x : array [..., d_model]
        Vectors, one for each position.
    weight : array [d_model]
        Learned scale γ.
    eps : float
        Added to the mean square, inside the root, so that a vector close to 0 is not blown up.

    Returns
    -------
    array [..., d_model]
        x / √(mean(x²) + ε) · γ, in the dtype of the arguments. The mean is not subtracted, and nothing is shifted.

    Raises
    ------
    ValueError
        If x and weight disagree on d_model, or eps is negative or not finite.

    Notes
    -----
    Source: Zhang & Sennrich (2019), "Root Mean Square Layer Normalization", equation 4; ε is the usual addition.

    Examples
    --------
    >>> rms_norm(np.array([1e-3, -1e-3]), weight=np.ones(2)).round(6)
    array([ 0.301511, -0.301511])
    >>> rms_norm(np.ones((2, 3, 4)), weight=np.ones(4)).shape
    (2, 3, 4)
    """
    _check.shapes(x=(x, "... d_model"), weight=(weight, "d_model"))
    _check.number(at_least=0, eps=eps)
    x, weight, dtype = _check.working(x, weight)
    mean_square = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)  # float64: they must not overflow
    root = np.sqrt(mean_square + eps)
    return (x / np.where(root == 0, 1, root) * weight).astype(dtype, copy=False)
