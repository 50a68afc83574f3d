"""Chapter 1: from token ids to vectors, and from vectors back to a score for every token."""

import numpy as np

from labkit import _check


def embed(token_ids, table):
    """Replace every token id by its row of the embedding table.

    Parameters
    ----------
    token_ids : integer array [..., T]
        Ids in 0 … vocab_size − 1.
    table : array [vocab_size, d_model]
        One learned vector for each token.

    Returns
    -------
    array [..., T, d_model]
        A copy of the rows, in the dtype of `table`. The same id gives the same row wherever it stands.

    Raises
    ------
    ValueError
        If the sequence is empty, or an id is not an integer in 0 … vocab_size − 1.

    Examples
    --------
    >>> embed(np.array([1, 5, 9, 2]), np.ones((10, 8))).shape
    (4, 8)
    """
    sizes = _check.shapes(token_ids=(token_ids, "... T"), table=(table, "vocab_size d_model"))
    _check.ids(sizes["vocab_size"], "vocab_size", token_ids=token_ids)
    return np.asarray(table)[np.asarray(token_ids)]


def one_hot(token_ids, vocab_size):
    """Write every token id as a row of zeros with a single 1, so that `one_hot @ table` is the lookup.

    Parameters
    ----------
    token_ids : integer array [..., T]
        Ids in 0 … vocab_size − 1.
    vocab_size : int
        Number of different tokens.

    Returns
    -------
    float array [..., T, vocab_size]
        1 in the column of the id, 0 elsewhere.

    Raises
    ------
    ValueError
        If the sequence is empty, or an id is not an integer in 0 … vocab_size − 1.

    Examples
    --------
    >>> one_hot(np.array([2, 0]), vocab_size=3)
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """
    _check.integer(at_least=1, vocab_size=vocab_size)
    _check.shapes(token_ids=(token_ids, "... T"))
    _check.ids(vocab_size, "vocab_size", token_ids=token_ids)
    return (np.asarray(token_ids)[..., None] == np.arange(vocab_size)).astype(float)


def unembed(x, table):
    """Score every token of the vocabulary against every position's vector.

    Parameters
    ----------
    x : array [..., d_model]
        Vectors, one for each position.
    table : array [vocab_size, d_model]
        One vector for each token: the embedding table itself (tied), or a table of the head's own (untied).

    Returns
    -------
    array [..., vocab_size]
        Logits: the dot product of x with each row of the table, in the dtype of the arguments.

    Raises
    ------
    ValueError
        If x and the table disagree on d_model.

    Notes
    -----
    Source: Press & Wolf (2017), "Using the Output Embedding to Improve Language Models", for the tied table.

    Examples
    --------
    >>> unembed(np.ones((4, 8)), np.ones((10, 8))).shape
    (4, 10)
    """
    _check.shapes(x=(x, "... d_model"), table=(table, "vocab_size d_model"))
    x, table, dtype = _check.working(x, table)
    return (x @ table.T).astype(dtype, copy=False)


def add_positions(x, table, start=0):
    """Add to every vector the learned vector of the position where it stands.

    Parameters
    ----------
    x : array [..., T, d_model]
        Token vectors.
    table : array [max_len, d_model]
        One learned vector for each position.
    start : int
        Position of the first vector of x: how many tokens came before it, for instance in a cache.

    Returns
    -------
    array [..., T, d_model]
        x plus rows start … start + T − 1 of the table, in the dtype of the arguments.

    Raises
    ------
    ValueError
        If x and the table disagree on d_model, start is negative or not an integer, or a position lies past the table.

    Notes
    -----
    Source: Radford et al. (2018), "Improving Language Understanding by Generative Pre-Training", section 3.1: W_p.

    Examples
    --------
    >>> add_positions(np.zeros((2, 3, 8)), np.ones((16, 8)), start=5).shape
    (2, 3, 8)
    """
    sizes = _check.shapes(x=(x, "... T d_model"), table=(table, "max_len d_model"))
    _check.integer(at_least=0, start=start)
    stop = start + sizes["T"]
    if stop > sizes["max_len"]:
        raise ValueError(f"positions {start} … {stop - 1} do not fit a table of max_len = {sizes['max_len']}")
    x, table, dtype = _check.working(x, table)
    return (x + table[start:stop]).astype(dtype, copy=False)
