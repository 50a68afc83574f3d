"""From logits to the next token: greedy, temperature, top-k, top-p and min-p."""

import numpy as np

from labkit import _check
from labkit.softmax import softmax


def greedy(logits, rng=None):
    """Choose the token with the largest logit.

    Parameters
    ----------
    logits : array [..., vocab_size]
        Scores. −∞ means "never" (a padded vocabulary).
    rng : ignored
        Accepted so that `greedy` can stand where `sample` does.

    Returns
    -------
    integer array [...]
        Token ids. Among equal logits the lowest id wins.

    Raises
    ------
    ValueError
        If a logit is NaN or +∞, or a row has nothing but −∞.

    Examples
    --------
    >>> greedy(np.array([[0.1, 0.9, 0.9], [2.0, -1.0, 0.0]]))
    array([1, 0])
    """
    return np.argmax(_checked(logits), axis=-1)


def sample(logits, rng, temperature=1.0, top_k=None, top_p=None, min_p=None):
    """Draw the next token at random, in proportion to the softmax of the logits.

    Parameters
    ----------
    logits : array [..., vocab_size]
        Scores. −∞ means "never".
    rng : numpy.random.Generator
        Where the randomness comes from; one number is drawn for each row.
    temperature : float
        What the logits are divided by: below 1 sharpens, above 1 flattens. 0 means greedy.
    top_k : int, optional
        Keep only the top_k likeliest tokens.
    top_p : float in (0, 1], optional
        Then keep only the fewest tokens that hold at least top_p of the probability.
    min_p : float in [0, 1], optional
        Then keep only tokens at least min_p times as likely as the likeliest.

    Returns
    -------
    integer array [...]
        Token ids.

    Raises
    ------
    ValueError
        If a logit is NaN or +∞, a row has nothing but −∞, the temperature is negative or not finite, rng is not a
        Generator, or a filter's setting is out of range.

    Notes
    -----
    The filters act after the temperature, in the order of the arguments, each on what the one before has left.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sample(np.zeros((2, 3, 50)), rng, temperature=0.7, top_k=5).shape
    (2, 3)
    """
    logits = _checked(logits)
    _check.number(at_least=0, temperature=temperature)
    _check.generator(rng=rng)
    if temperature > 0:
        with np.errstate(over="ignore"):  # a logit pushed down past the smallest float is −∞, as it should be
            logits = (logits - logits.max(axis=-1, keepdims=True)) / temperature
    logits = logits if top_k is None else top_k_filter(logits, top_k)
    logits = logits if top_p is None else top_p_filter(logits, top_p)
    logits = logits if min_p is None else min_p_filter(logits, min_p)
    if temperature == 0:  # after the filters, so that their settings are checked: none rules out the largest logit
        return greedy(logits)
    reached = np.cumsum(softmax(logits), axis=-1)
    drawn = rng.random(reached.shape[:-1])[..., None] * reached[..., -1:]
    return np.sum(reached <= drawn, axis=-1)


def top_k_filter(logits, top_k):
    """Rule out all but the top_k largest logits.

    Parameters
    ----------
    logits : array [..., vocab_size]
        Scores.
    top_k : int
        How many tokens to keep. Among equal logits those of lower id are kept.

    Returns
    -------
    array [..., vocab_size]
        The logits, in which those of the tokens ruled out are −∞. In the dtype of `logits`.

    Raises
    ------
    ValueError
        If top_k is not a positive integer, or the logits are not such as `greedy` accepts.

    Notes
    -----
    Source: Fan, Lewis & Dauphin (2018), "Hierarchical Neural Story Generation", section 5.4.

    Examples
    --------
    >>> top_k_filter(np.array([1.0, 3.0, 2.0]), top_k=2)
    array([-inf,   3.,   2.])
    """
    values = _checked(logits)
    _check.integer(at_least=1, top_k=top_k)
    rank = np.argsort(np.argsort(-values, axis=-1, kind="stable"), axis=-1)
    return _keep(logits, rank < top_k)


def top_p_filter(logits, top_p):
    """Rule out all but the fewest tokens that together hold at least top_p of the probability (the nucleus).

    Parameters
    ----------
    logits : array [..., vocab_size]
        Scores.
    top_p : float in (0, 1]
        Share of the probability to keep. 1 keeps everything.

    Returns
    -------
    array [..., vocab_size]
        The logits, in which those of the tokens ruled out are −∞. In the dtype of `logits`. The likeliest token is
        always kept.

    Raises
    ------
    ValueError
        If top_p is not in (0, 1], or the logits are not such as `greedy` accepts.

    Notes
    -----
    Source: Holtzman et al. (2020), "The Curious Case of Neural Text Degeneration", section 3.1.

    Examples
    --------
    >>> top_p_filter(np.log([0.5, 0.3, 0.2]), top_p=0.6).round(2)
    array([-0.69, -1.2 ,  -inf])
    """
    values = _checked(logits)
    _share(above=0, top_p=top_p)
    if top_p == 1:
        return _keep(logits, True)
    order = np.argsort(-values, axis=-1, kind="stable")
    ranked = np.take_along_axis(softmax(values), order, axis=-1)
    before = np.cumsum(ranked, axis=-1) - ranked  # what the likelier tokens hold
    kept = before < top_p * (1 - 1e-12)  # a sum of three tenths may come out above 0.3
    return _keep(logits, np.take_along_axis(kept, np.argsort(order, axis=-1), axis=-1))


def min_p_filter(logits, min_p):
    """Rule out every token less than min_p times as likely as the likeliest one.

    Parameters
    ----------
    logits : array [..., vocab_size]
        Scores.
    min_p : float in [0, 1]
        Least share of the largest probability. 0 keeps everything.

    Returns
    -------
    array [..., vocab_size]
        The logits, in which those of the tokens ruled out are −∞. In the dtype of `logits`.

    Raises
    ------
    ValueError
        If min_p is not in [0, 1], or the logits are not such as `greedy` accepts.

    Notes
    -----
    Source: Nguyen et al. (2024), "Turning Up the Heat: Min-p Sampling for Creative and Coherent LLM Outputs",
    section 3.

    Examples
    --------
    >>> min_p_filter(np.log([0.6, 0.3, 0.1]), min_p=0.5).round(2)
    array([-0.51, -1.2 ,  -inf])
    """
    weights = softmax(_checked(logits))
    _share(at_least=0, min_p=min_p)
    least = min_p * weights.max(axis=-1, keepdims=True)
    return _keep(logits, weights >= least * (1 - 1e-12))  # a half of 0.6 may come out above 0.3


def _checked(logits):
    """Return the logits in float64, once each row is sure to offer a choice."""
    _check.shapes(logits=(logits, "... vocab_size"))
    logits = np.asarray(logits).astype(np.float64)
    if np.any(np.isnan(logits) | (logits == np.inf)):
        raise ValueError("logits must be finite or −inf, got NaN or +inf")
    if np.any(np.all(logits == -np.inf, axis=-1)):
        raise ValueError("logits must leave at least one token in each row, got a row of nothing but −inf")
    return logits


def _keep(logits, kept):
    """Return the logits in their own precision, with −∞ for what is not kept."""
    *_, dtype = _check.working(logits)
    return np.where(kept, logits, -np.inf).astype(dtype)


def _share(above=None, at_least=None, **values):
    """Check that each keyword's value is a share of 1, within the lower bound given."""
    _check.number(above=above, at_least=at_least, **values)
    for name, value in values.items():
        if value > 1:
            raise ValueError(f"{name} must be at most 1, got {value!r}")
