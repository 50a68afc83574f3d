"""Chapter 3: softmax, its derivative, its entropy, and the experiment behind the factor 1/√d_k."""

from functools import lru_cache

import numpy as np

from labkit import _check


def softmax(x, axis=-1):
    """Turn scores into weights that are non-negative and sum to 1.

    Parameters
    ----------
    x : array [..., n]
        Scores. Any finite size is safe; −∞ means "not allowed" and gets weight 0.
    axis : int
        The axis that sums to 1.

    Returns
    -------
    array [..., n]
        Weights, in the dtype of `x`. A row of nothing but −∞ gives zeros.

    Raises
    ------
    ValueError
        If `x` is empty along `axis`, is not numeric, or holds +∞ (which has no defined share).

    Notes
    -----
    softmax(x)_j = exp(x_j − max x) / Σ_k exp(x_k − max x). Subtracting the maximum changes nothing in exact
    arithmetic and keeps every exponent at or below 0. A NaN stays in its own row.

    Source: Bridle (1990), "Probabilistic interpretation of feedforward classification network outputs".

    Examples
    --------
    >>> softmax(np.array([1002.0, 1002.0, -np.inf]))
    array([0.5, 0.5, 0. ])
    >>> softmax(np.zeros((2, 3, 5))).shape
    (2, 3, 5)
    """
    x, top, dtype = _prepare(x, axis)
    with np.errstate(over="ignore"):  # a gap beyond all floats is −∞, weight 0
        e = np.exp(x - top)
    total = e.sum(axis=axis, keepdims=True)
    return (e / np.where(total == 0, 1, total)).astype(dtype, copy=False)


def log_softmax(x, axis=-1):
    """Return the logarithm of `softmax(x)` without ever forming the weights.

    Parameters
    ----------
    x : array [..., n]
        Scores.
    axis : int
        The axis along which the weights sum to 1.

    Returns
    -------
    array [..., n]
        Log-weights (nats), in the dtype of `x`. A weight of 0 has the log-weight −∞.

    Raises
    ------
    ValueError
        As for `softmax`.

    Notes
    -----
    log softmax(x)_j = x_j − max x − log Σ_k exp(x_k − max x). Taking `log(softmax(x))` instead loses every weight
    that underflows to 0.

    Examples
    --------
    >>> log_softmax(np.array([0.0, -2000.0]))
    array([    0., -2000.])
    >>> log_softmax(np.zeros((3, 5))).shape
    (3, 5)
    """
    x, top, dtype = _prepare(x, axis)
    with np.errstate(over="ignore"):  # below all floats is −∞
        total = np.exp(x - top).sum(axis=axis, keepdims=True)
        return (x - top - np.log(np.where(total == 0, 1, total))).astype(dtype, copy=False)


def entropy(p, axis=-1):
    """Return how spread out weights are: 0 for one-hot, ln n for n equal weights.

    Parameters
    ----------
    p : array [..., n]
        Non-negative weights, as `softmax` returns them.
    axis : int
        The axis along which they sum to 1.

    Returns
    -------
    array [...]
        H(p) = −Σ_j p_j ln p_j, in nats, with 0 · ln 0 = 0.

    Raises
    ------
    ValueError
        If `p` is empty along `axis` or holds a negative weight.

    Notes
    -----
    Source: Shannon (1948), "A Mathematical Theory of Communication", section 6.

    Examples
    --------
    >>> round(float(entropy(np.full(4, 0.25)) / np.log(4)), 6)
    1.0
    >>> entropy(np.full((2, 3, 4), 0.25)).shape
    (2, 3)
    """
    _check_axis("p", p, axis)
    p, dtype = _check.working(p)
    if np.any(p < 0):
        raise ValueError(f"p must hold weights of at least 0, got {p[p < 0][0]}")
    h = 0.0 - np.sum(p * np.log(np.where(p > 0, p, 1)), axis=axis)
    return h.astype(dtype, copy=False)


def softmax_jacobian(p):
    """Return how each weight answers to each score, given the weights.

    Parameters
    ----------
    p : array [..., n]
        Weights p = softmax(x).

    Returns
    -------
    array [..., n, n]
        J_ij = ∂p_i/∂x_j = p_i (δ_ij − p_j): symmetric, and each row sums to 0.

    Raises
    ------
    ValueError
        If `p` has no axis or an empty one.

    Examples
    --------
    >>> softmax_jacobian(np.array([0.5, 0.5]))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    >>> softmax_jacobian(np.full((2, 3, 4), 0.25)).shape
    (2, 3, 4, 4)
    """
    sizes = _check.shapes(p=(p, "... n"))
    p, dtype = _check.working(p)
    jacobian = p[..., :, None] * (np.eye(sizes["n"], dtype=p.dtype) - p[..., None, :])
    return jacobian.astype(dtype, copy=False)


def cross_entropy(logits, targets):
    """Return the loss of each prediction: minus the log-probability of what came.

    Parameters
    ----------
    logits : array [..., vocab_size]
        Scores of every possible token.
    targets : integer array [...]
        The token that came, for each row of logits.

    Returns
    -------
    array [...]
        −log softmax(logits)[target], in nats, one for each row. The training loss is their mean. Logits that are
        all equal give ln vocab_size.

    Raises
    ------
    ValueError
        If the shapes do not agree, or a target is not an integer in 0 … vocab_size − 1.

    Examples
    --------
    >>> loss = cross_entropy(np.zeros((4, 50)), np.array([7, 0, 49, 7]))
    >>> loss.shape, np.allclose(loss, np.log(50))
    ((4,), True)
    """
    sizes = _check.shapes(logits=(logits, "... vocab_size"))
    targets = np.asarray(targets)
    if targets.shape != np.shape(logits)[:-1]:
        raise ValueError(
            f"targets has shape {targets.shape}, expected one target for each row of logits: {np.shape(logits)[:-1]}"
        )
    _check.ids(sizes["vocab_size"], "vocab_size", targets=targets)
    log_p = np.take_along_axis(log_softmax(logits), targets[..., None], axis=-1)[..., 0]
    return 0.0 - log_p  # a certain prediction costs 0.0, not −0.0


def random_scores(d_k, n, rng, mean=0.0, std=1.0):
    """Draw n queries and n keys at random and return their n dot products.

    Parameters
    ----------
    d_k : int
        The width of each query and key.
    n : int
        How many scores to draw.
    rng : numpy.random.Generator
        Where the entries come from.
    mean, std : float
        Mean and standard deviation of every entry of every query and key.

    Returns
    -------
    array [n]
        Scores q·k. Their mean is d_k · mean², their variance d_k · (std⁴ + 2 · mean² · std²).

    Raises
    ------
    ValueError
        If d_k or n is not a positive integer, mean or std is not a finite number, std is negative, or rng is not a
        Generator.

    Notes
    -----
    Source: Vaswani et al. (2017), "Attention Is All You Need", section 3.2.1, footnote 4, which treats
    mean 0 and std 1.

    Examples
    --------
    >>> scores = random_scores(d_k=64, n=20_000, rng=np.random.default_rng(0))
    >>> scores.shape, bool(60 < scores.var() < 68)
    ((20000,), True)
    """
    _check.integer(at_least=1, d_k=d_k, n=n)
    _check.number(mean=mean)
    _check.number(at_least=0, std=std)
    _check.generator(rng=rng)
    q = rng.normal(mean, std, size=(n, d_k))
    k = rng.normal(mean, std, size=(n, d_k))
    return np.einsum("nd,nd->n", q, k)


def scores_of_width(d_k, scaled=True):
    """Return the scores of 256 random queries with 8 random keys each, all of width d_k.

    The entries are drawn once, independent with mean 0 and variance 1, and a width of d_k takes the first d_k of each
    vector. So nothing but the width changes from one call to the next.

    Parameters
    ----------
    d_k : int
        The width, 1 to 1024.
    scaled : bool
        Whether to divide by √d_k.

    Returns
    -------
    array [256, 8]
        One row of scores for each query.

    Raises
    ------
    ValueError
        If d_k is not an integer from 1 to 1024.

    Examples
    --------
    >>> scores_of_width(64).shape
    (256, 8)
    """
    _check.integer(at_least=1, at_most=1024, d_k=d_k)
    q, k = _random_queries_and_keys()
    scores = np.einsum("nd,njd->nj", q[..., :d_k], k[..., :d_k])
    return scores / np.sqrt(d_k) if scaled else scores


def saturation(scores):
    """Measure how close to one-hot the softmax of some scores is, and what gradient is left.

    Parameters
    ----------
    scores : array [..., n]
        Rows of scores.

    Returns
    -------
    dict
        "score variance", over all scores; "entropy" of the weights in nats, from 0 (one-hot) to ln n (all equal), and
        "largest gradient", the largest `|∂p_i/∂s_j|`, at most ¼, both as means over the rows.

    Raises
    ------
    ValueError
        As for `softmax`, and if a score is not finite.

    Examples
    --------
    >>> {name: round(float(value), 4) for name, value in saturation(np.array([[0.0, 0.0], [60.0, 0.0]])).items()}
    {'score variance': 675.0, 'entropy': 0.3466, 'largest gradient': 0.125}
    """
    p = softmax(scores)
    if not np.all(np.isfinite(scores)):
        raise ValueError("scores must be finite: a masked score has no variance")
    return {
        "score variance": np.var(scores),
        "entropy": entropy(p).mean(),
        "largest gradient": np.abs(softmax_jacobian(p)).max(axis=(-2, -1)).mean(),
    }


@lru_cache(maxsize=1)
def _random_queries_and_keys():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(256, 1024)), rng.normal(size=(256, 8, 1024))
    q.flags.writeable = k.flags.writeable = False
    return q, k


def _prepare(x, axis):
    """Return x in its working precision, the number to subtract from it along `axis`, and the dtype to return."""
    _check_axis("x", x, axis)
    x, dtype = _check.working(x)
    top = x.max(axis=axis, keepdims=True)
    if np.any(top == np.inf):
        raise ValueError("x must hold finite scores or −inf, got +inf")
    return x, np.where(top == -np.inf, 0, top), dtype


def _check_axis(name, array, axis):
    if np.ndim(array):  # a bare number has no axis to move: let the check of shapes say so
        _check.integer(at_least=-np.ndim(array), at_most=np.ndim(array) - 1, axis=axis)
        array = np.moveaxis(array, axis, -1)
    _check.shapes(**{name: (array, "... n")})
