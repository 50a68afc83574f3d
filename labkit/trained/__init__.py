"""The book's own trained models: small, in plain sight, and shipped with labkit; and scores that say what a head does.

Each model is a directory beside this file, laid out as a public checkpoint (`labkit.checkpoint` reads it, and so does
transformers), with the log of its training and a model card that says what it was trained on and what it cannot do.

- `induction`: two layers of attention alone, trained on repeated random tokens. Continues what it has seen before.
- `novel`: a small Llama, trained on Jane Austen's six novels.
- `honest`, `leaking`: two smaller ones, alike but for the mask; the second was trained with one that let each position
  see the token after it.
"""

import json
from pathlib import Path

import numpy as np

from labkit import _check, checkpoint
from labkit.mask import causal_mask

NAMES = ("induction", "novel", "honest", "leaking")
_ROOM = Path(__file__).parent


def path(name):
    """Return the directory of a shipped model.

    Parameters
    ----------
    name : {"induction", "novel", "honest", "leaking"}

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If no model has that name.

    Examples
    --------
    >>> path("novel").name
    'novel'
    """
    _check.choice(NAMES, name=name)
    return _ROOM / name


def load(name, step=None):
    """Load a shipped model, as training left it or as it was at an earlier step.

    Parameters
    ----------
    name : {"induction", "novel", "honest", "leaking"}
    step : int, optional
        One of `steps(name)`. Default: the end of training.

    Returns
    -------
    Params
        In float32.
    ModelConfig

    Raises
    ------
    ValueError
        If no model has that name, or none was kept at that step.

    Examples
    --------
    >>> params, config = load("induction")
    >>> params.blocks[0].attention.w_q.shape, config.n_heads
    ((64, 64), 2)
    """
    folder = path(name)
    if step is None:
        return checkpoint.load(folder)
    _check.choice(steps(name), step=step)
    return checkpoint.load(folder / "steps" / f"{step:04d}")


def load_tokenizer(name):
    """Load the tokenizer of a shipped model.

    Parameters
    ----------
    name : {"novel", "honest", "leaking"}
        All three share one vocabulary. The tokens of "induction" are bare numbers.

    Returns
    -------
    Tokenizer

    Raises
    ------
    ValueError
        If no model has that name, or it has no tokenizer.

    Examples
    --------
    >>> load_tokenizer("novel").encode("Mr. Darcy").shape
    (8,)
    """
    if name == "induction":
        raise ValueError("induction has no tokenizer: its tokens are the numbers 0 … 63")
    return checkpoint.load_tokenizer(path(name))


def steps(name):
    """Return the training steps at which a model's weights were kept, beside the end.

    Examples
    --------
    >>> steps("induction")[0], steps("novel")
    (0, ())
    """
    return tuple(sorted(int(folder.name) for folder in path(name).glob("steps/*")))


def log(name):
    """Return what was measured while a model was trained.

    Parameters
    ----------
    name : {"induction", "novel", "honest", "leaking"}

    Returns
    -------
    list of dict
        One for each measurement: "step", "loss" (mean training loss since the last one, in nats a token; None at the
        start), "held_out" (loss on text or sequences never trained on), "induction" (largest induction score of a
        head) and "cpu_seconds" so far.

    Raises
    ------
    ValueError
        If no model has that name.

    Examples
    --------
    >>> log("induction")[0]["step"]
    0
    """
    lines = (path(name) / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def leaking_mask(T):
    """Return the mask that "leaking" was trained with: each query sees one key too many, the one after it.

    Parameters
    ----------
    T : int

    Returns
    -------
    Boolean array [T, T]
        True where a query (row) may attend to a key (column).

    Raises
    ------
    ValueError
        If T is not a positive integer.

    Examples
    --------
    >>> leaking_mask(3).astype(int)
    array([[1, 1, 0],
           [1, 1, 1],
           [1, 1, 1]])
    """
    _check.integer(at_least=1, T=T)
    return causal_mask(T, T + 1)[:, :T]


def head_scores(weights, token_ids):
    """Score what every head of every layer does, from its attention weights.

    Parameters
    ----------
    weights : array [n_layers, ..., H, T, S]
        As `labkit.model.forward(..., capture=True)` returns them, with T = S.
    token_ids : integer array [..., T]
        The tokens that the model read.

    Returns
    -------
    dict of str to array [n_layers, H]
        Each a mean attention weight, between 0 and 1, over the queries t that it speaks of and over all sequences:

        - "current": from t to t.
        - "previous": from t to t − 1, for t ≥ 1.
        - "sink": from t to the first token, for t ≥ 2 (before that the first token is the current or previous one).
        - "induction": from t to whatever followed the latest earlier occurrence of the token at t, where there is one
          and what followed it lies before t. What it attends to is what comes next if the text repeats itself.

    Raises
    ------
    ValueError
        If the axes do not agree, T is below 3, or no token occurs twice: then there is no induction to score.

    Notes
    -----
    Source: Olsson et al. (2022), "In-context Learning and Induction Heads", appendix "Head scores", for prefix matching
    on repeated random tokens.

    Examples
    --------
    >>> from labkit.model import forward
    >>> params, config = load("induction")
    >>> tokens = np.tile(np.random.default_rng(0).permutation(64)[:20], 2)
    >>> _, captured = forward(params, config, tokens, capture=True)
    >>> scores = head_scores(captured.weights, tokens)
    >>> scores["induction"].shape, bool(scores["induction"].max() > 0.8)
    ((2, 2), True)
    """
    sizes = _check.shapes(weights=(weights, "... H T S"), token_ids=(token_ids, "... T"))
    T, S = sizes["T"], sizes["S"]
    weights, token_ids = np.asarray(weights), np.asarray(token_ids)
    if T != S or T < 3 or weights.ndim != token_ids.ndim + 3 or weights.shape[1:-3] != token_ids.shape[:-1]:
        wanted = f"[n_layers, *{token_ids.shape[:-1]}, H, T, T] with T of at least 3"
        raise ValueError(f"weights must be {wanted}, got shape {weights.shape}")
    follows = followers(token_ids)
    if not follows.any():
        raise ValueError("token_ids must hold a token twice, with another between: there is no induction to score")
    t, s = np.arange(T)[:, None], np.arange(T)
    told = {"current": t == s, "previous": t == s + 1, "sink": (s == 0) & (t >= 2), "induction": follows}
    return {name: _mean_weight(weights, np.broadcast_to(where, follows.shape)) for name, where in told.items()}


def followers(token_ids):
    """Mark, for each query, the key that followed the latest earlier occurrence of the query's token.

    Parameters
    ----------
    token_ids : integer array [..., T]

    Returns
    -------
    Boolean array [..., T, T]
        At most one key (column) in each row, always before the query.

    Raises
    ------
    ValueError
        If there is no token.

    Examples
    --------
    >>> followers([7, 5, 7, 7]).astype(int)
    array([[0, 0, 0, 0],
           [0, 0, 0, 0],
           [0, 1, 0, 0],
           [0, 0, 0, 0]])
    """
    T = _check.shapes(token_ids=(token_ids, "... T"))["T"]
    token_ids = np.asarray(token_ids)
    same = (token_ids[..., :, None] == token_ids[..., None, :]) & causal_mask(T) & ~np.eye(T, dtype=bool)
    latest = T - 1 - np.argmax(same[..., ::-1], axis=-1)  # of the query's token, where there is one
    marks = same.any(axis=-1)[..., None] & (np.arange(T) == latest[..., None] + 1)
    return marks & (np.arange(T) < np.arange(T)[:, None])


def _mean_weight(weights, where):
    """Average the weights of each head over the marked pairs of query and key."""
    where = where[..., None, :, :]
    axes = (*range(1, weights.ndim - 3), -2, -1)
    return np.sum(weights * where, axis=axes) / where.sum()
