"""Chapter 4: who may attend to whom."""

import numpy as np

from labkit import _check


def causal_mask(T, S=None):
    """Return the mask under which no query sees a key that comes after it.

    Parameters
    ----------
    T : int
        Number of queries.
    S : int, optional
        Number of keys. Default: T. When there are more keys than queries, the queries are the *last* T of the S
        positions (aligned bottom-right), as when new tokens attend to a cache.

    Returns
    -------
    Boolean array [T, S]
        True where the query (row) may attend to the key (column).

    Raises
    ------
    ValueError
        If T or S is not a positive integer.

    Examples
    --------
    >>> causal_mask(2, 4).astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 1, 1]])
    """
    S = T if S is None else S
    _check.integer(at_least=1, T=T, S=S)
    return np.arange(S) <= np.arange(T)[:, None] + (S - T)


def sliding_window_mask(T, window, S=None):
    """Return the causal mask under which each query sees only the newest `window` positions, its own included.

    Parameters
    ----------
    T : int
        Number of queries.
    window : int
        How many positions a query may see. A window of S or more is no limit.
    S : int, optional
        Number of keys. Default: T. The queries are the last T of the S positions, as in `causal_mask`.

    Returns
    -------
    Boolean array [T, S]
        True where the query (row) may attend to the key (column).

    Raises
    ------
    ValueError
        If T, window or S is not a positive integer.

    Notes
    -----
    Source: Jiang et al. (2023), "Mistral 7B", section 2.

    Examples
    --------
    >>> sliding_window_mask(3, window=2, S=4).astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    S = T if S is None else S
    _check.integer(at_least=1, T=T, window=window, S=S)
    age = np.arange(T)[:, None] + (S - T) - np.arange(S)
    return (age >= 0) & (age < window)


def padding_mask(lengths, T, side="right"):
    """Say which positions of a padded batch hold real tokens.

    Parameters
    ----------
    lengths : integer array [...]
        How many real tokens each sequence has, 0 … T.
    T : int
        The length that all are padded to.
    side : "right" or "left"
        On which side of the real tokens the padding stands.

    Returns
    -------
    Boolean array [..., T]
        True for a real token. To hide the padding from every query, pass `mask[..., None, :]` to attention, and
        `mask[..., None, None, :]` where there is an axis of heads.

    Raises
    ------
    ValueError
        If a length is not an integer in 0 … T, T is not a positive integer, or `side` is neither "right" nor "left".

    Examples
    --------
    >>> padding_mask(np.array([2, 4]), T=4, side="left").astype(int)
    array([[0, 0, 1, 1],
           [1, 1, 1, 1]])
    """
    _check.integer(at_least=1, T=T)
    _check.ids(T + 1, "T + 1", lengths=lengths)
    if side not in ("right", "left"):
        raise ValueError(f'side must be "right" or "left", got {side!r}')
    lengths = np.asarray(lengths)[..., None].astype(int)
    return np.arange(T) < lengths if side == "right" else np.arange(T) >= T - lengths


def padding_positions(lengths, T, side="right"):
    """Number the real tokens of a padded batch from 0.

    Parameters
    ----------
    lengths : integer array [...]
        How many real tokens each sequence has, 0 … T.
    T : int
        The length that all are padded to.
    side : "right" or "left"
        On which side of the real tokens the padding stands.

    Returns
    -------
    integer array [..., T]
        The position of each real token, as if there were no padding; 0 for padding.

    Raises
    ------
    ValueError
        As for `padding_mask`.

    Examples
    --------
    >>> padding_positions(np.array([2, 4]), T=4, side="left")
    array([[0, 0, 0, 1],
           [0, 1, 2, 3]])
    """
    real = padding_mask(lengths, T, side)
    return np.where(real, np.cumsum(real, axis=-1) - 1, 0)


def to_additive(mask, dtype=np.float64):
    """Turn a Boolean mask into one that is added to the scores.

    Parameters
    ----------
    mask : Boolean array [...]
        True = may attend.
    dtype : float dtype
        Precision of the result.

    Returns
    -------
    float array [...]
        0 where the mask is True, −∞ where it is False.

    Raises
    ------
    ValueError
        If the mask is not Boolean, or the dtype not a float one.

    Examples
    --------
    >>> to_additive(causal_mask(2))
    array([[  0., -inf],
           [  0.,   0.]])
    """
    mask, dtype = np.asarray(mask), np.dtype(dtype)
    if mask.dtype != bool:
        raise ValueError(f"mask must be Boolean (True = may attend), got dtype {mask.dtype}")
    if dtype.kind != "f" and dtype.name != "bfloat16":
        raise ValueError(f"dtype must be a float dtype, got {dtype}")
    return np.where(mask, 0, -np.inf).astype(dtype)


def combine(*masks):
    """Join masks into one that allows only what every one of them allows.

    Parameters
    ----------
    *masks : arrays that broadcast together, or None
        Boolean (True = may attend) or float (added to the scores). None stands for "no mask" and is left out.

    Returns
    -------
    array or None
        All Boolean: their logical AND. Any float: their sum, in which a Boolean one counts as 0 and −∞. None if there
        is nothing to join.

    Raises
    ------
    ValueError
        If a mask is neither Boolean nor float, or their shapes do not broadcast together.

    Examples
    --------
    >>> combine(causal_mask(3), padding_mask(2, T=3)).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 0]])
    """
    masks = [np.asarray(mask) for mask in masks if mask is not None]
    _check.masks(*masks)
    if not masks:
        return None
    if all(mask.dtype == bool for mask in masks):
        return np.logical_and.reduce(np.broadcast_arrays(*masks))
    dtype = np.result_type(*(mask.dtype for mask in masks if mask.dtype != bool))
    with np.errstate(over="ignore"):  # two large negative numbers may well add up to −∞
        return sum(to_additive(mask, dtype) if mask.dtype == bool else mask for mask in masks)


def leaks(fn, x, perturb=None, rng=None, axis=None, tolerance=0.0):
    """Find out by experiment which outputs look at inputs that come after them.

    Parameters
    ----------
    fn : callable
        Takes an array such as x and returns an array with the same axis of positions: [..., T, d] to [..., T, ...].
    x : array [..., T, d], or integer array [..., T]
        Vectors or token ids to start from.
    perturb : callable, optional
        Takes what x holds at one position and returns something else to put there. Default: adds random noise.
        Token ids need one of their own, such as `lambda ids: (ids + 1) % vocab_size`.
    rng : numpy.random.Generator, optional
        Where the noise comes from.
    axis : int, optional
        The axis of positions, of x and of what fn returns, counted from the left. Default: the last but one of
        vectors, the last of token ids.
    tolerance : float
        Changes up to this size do not count.

    Returns
    -------
    Boolean array [T, T]
        True at [i, j] if output i changed when input j > i did. Never True on or below the diagonal: a causal
        function gives no True at all.

    Raises
    ------
    ValueError
        If fn gives different outputs for the same input or returns no such axis of T positions, perturb changes
        nothing or is missing for token ids, or the tolerance is negative.

    Notes
    -----
    An experiment can prove a leak, and only make its absence likely.

    Examples
    --------
    >>> leaks(lambda x: np.cumsum(x[::-1], axis=0)[::-1], np.ones((3, 2))).astype(int)
    array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]])
    """
    x, axis = _experiment(fn, x, perturb, axis)
    _check.number(at_least=0, tolerance=tolerance)
    rng = np.random.default_rng(0) if rng is None else rng
    _check.generator(rng=rng)
    before = np.moveaxis(np.asarray(fn(x.copy())), axis, 0)
    found = np.zeros((len(before), len(before)), dtype=bool)
    for j in range(1, len(before)):
        changed = x.copy()
        here = np.moveaxis(changed, axis, 0)[j, ...]  # a view: writing to it writes to `changed`
        noise = (1 + np.abs(here)) * rng.normal(size=here.shape)
        here[...] = here + noise if perturb is None else perturb(here.copy())
        if np.array_equal(changed, x):
            raise ValueError(f"perturb must change what it is given, but left position {j} as it was")
        after = np.moveaxis(np.asarray(fn(changed)), axis, 0)
        same = np.isclose(after, before, rtol=0, atol=tolerance, equal_nan=True)
        found[:j, j] = ~same[:j].reshape(j, -1).all(axis=1)
    return found


def _experiment(fn, x, perturb, axis):
    """Return a copy of x and its axis of positions, once it is sure that the outcome of `leaks` will mean something."""
    x = np.array(x)
    whole = x.dtype.kind in "iu"
    if whole and perturb is None:
        raise ValueError("perturb must be given for token ids: adding noise to an id gives no other id")
    _check.shapes(x=(x, "... T" if whole else "... T d"))
    axis = x.ndim - (1 if whole else 2) if axis is None else axis
    _check.integer(at_least=0, at_most=x.ndim - 1, axis=axis)
    first, second = np.asarray(fn(x.copy())), np.asarray(fn(x.copy()))
    if first.ndim <= axis or first.shape[axis] != x.shape[axis]:
        raise ValueError(f"fn must return T = {x.shape[axis]} positions along axis {axis}, got shape {first.shape}")
    if not np.array_equal(first, second, equal_nan=True):
        raise ValueError("fn must return the same output whenever it gets the same input, and did not")
    return x, axis
