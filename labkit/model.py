"""Chapter 11: the whole model, from token ids to logits, its loss, and the loop that generates."""

import math
from dataclasses import dataclass, fields, is_dataclass
from weakref import WeakKeyDictionary

import numpy as np

from labkit import _check
from labkit.block import (
    BlockConfig,
    BlockParams,
    NormParams,
    assemble_block,
    block_shapes,
    normalise,
    transformer_block,
)
from labkit.embedding import embed, unembed
from labkit.kv_cache import KVCache
from labkit.mask import causal_mask, sliding_window_mask
from labkit.sampling import greedy
from labkit.softmax import cross_entropy


@dataclass(frozen=True, kw_only=True)
class ModelConfig(BlockConfig):
    """The choices that fix a whole model: those of its blocks (`labkit.block.BlockConfig`), and these.

    Parameters
    ----------
    vocab_size : int
        Number of tokens that the model knows.
    n_layers : int
        Number of blocks.
    max_len : int
        The longest context that the model is made for. Learned positions end there; RoPE does not.
    tied : bool
        Whether the embedding table is also the output head, one array for both.

    Raises
    ------
    ValueError
        As for `BlockConfig`.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=6, n_kv_heads=3, d_ff=32, max_len=64)
    >>> config.d_head, config.tied
    (2, False)
    """

    vocab_size: int
    n_layers: int
    max_len: int
    tied: bool = False

    def __post_init__(self):
        super().__post_init__()
        _check.integer(at_least=1, vocab_size=self.vocab_size, n_layers=self.n_layers, max_len=self.max_len)
        _check.choice((True, False), tied=self.tied)


@dataclass(frozen=True, eq=False)
class Params:
    """All the weights of a model.

    Parameters
    ----------
    embedding : array [vocab_size, d_model]
        One row for each token.
    blocks : tuple of BlockParams
        One for each layer.
    final_norm : NormParams, optional
        The norm before the head. None with post-norm, where each block ends in a norm already.
    positions : array [max_len, d_model], optional
        Learned positions; None with any other kind.
    head : array [vocab_size, d_model], optional
        The output head. None when it is tied: then `embedding` serves as the head.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64)
    >>> params = init_params(config, seed=0)
    >>> params.head.shape, params.positions is None
    ((50, 12), True)
    """

    embedding: np.ndarray
    blocks: tuple[BlockParams, ...]
    final_norm: NormParams | None = None
    positions: np.ndarray | None = None
    head: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Capture:
    """What a model computed on its way from token ids to logits.

    Parameters
    ----------
    residual : array [2 · n_layers + 1, ..., T, d_model]
        The residual stream as it enters the first block, then after every sublayer: attention, FFN, attention, …
    weights : array [n_layers, ..., H, T, S]
        The attention weights of every head of every layer: query in the row, key in the column.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64)
    >>> _, capture = forward(init_params(config, seed=0), config, np.array([1, 5, 9, 2]), capture=True)
    >>> capture.residual.shape, capture.weights.shape
    ((5, 4, 12), (2, 3, 4, 4))
    """

    residual: np.ndarray
    weights: np.ndarray


def parameter_shapes(config):
    """Return the shape of every weight of a model, by name, without allocating any.

    Parameters
    ----------
    config : ModelConfig

    Returns
    -------
    dict of str to tuple of int
        For example `"blocks.0.attention.w_q": (d_model, n_heads · d_head)`. A tied head is not listed twice.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64, tied=True)
    >>> shapes = parameter_shapes(config)
    >>> shapes["embedding"], shapes["blocks.1.ffn.w_down"], "head" in shapes
    ((50, 12), (32, 12), False)
    """
    table = (config.vocab_size, config.d_model)
    shapes = {"embedding": table}
    if config.positions == "learned":
        shapes["positions"] = (config.max_len, config.d_model)
    for layer in range(config.n_layers):
        shapes |= {f"blocks.{layer}.{name}": shape for name, shape in block_shapes(config).items()}
    if config.norm_place == "pre":
        shapes["final_norm.weight"] = (config.d_model,)
        if config.norm == "layer":
            shapes["final_norm.bias"] = (config.d_model,)
    if not config.tied:
        shapes["head"] = table
    return shapes


def count_params(config):
    """Count a model's parameters, part by part, from its config alone.

    Parameters
    ----------
    config : ModelConfig

    Returns
    -------
    dict of str to int
        "embedding", "positions", "attention", "ffn", "norms", "head" (0 when tied) and "total". Biases count with the
        part that they belong to, q/k norms with the norms.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64)
    >>> count_params(config)
    {'embedding': 600, 'positions': 0, 'attention': 1152, 'ffn': 2304, 'norms': 60, 'head': 600, 'total': 4716}
    """
    parts = dict.fromkeys(("embedding", "positions", "attention", "ffn", "norms", "head"), 0)
    for name, shape in parameter_shapes(config).items():
        part = "norms" if "norm" in name else next(part for part in parts if part in name)
        parts[part] += math.prod(shape)
    return parts | {"total": sum(parts.values())}


def assemble(config, tensors):
    """Put the weights of a model, given by the names of `parameter_shapes`, into their places.

    Parameters
    ----------
    config : ModelConfig
    tensors : dict of str to array

    Returns
    -------
    Params

    Raises
    ------
    ValueError
        If a weight is missing, one is not the config's, or a shape is not the one expected.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64)
    >>> tensors = {name: np.ones(shape) for name, shape in parameter_shapes(config).items()}
    >>> len(assemble(config, tensors).blocks)
    2
    """
    _check_tensors(config, tensors)
    norm = _under("final_norm.", tensors)
    return Params(
        embedding=tensors["embedding"],
        blocks=tuple(assemble_block(_under(f"blocks.{layer}.", tensors)) for layer in range(config.n_layers)),
        final_norm=NormParams(**norm) if norm else None,
        positions=tensors.get("positions"),
        head=tensors.get("head"),
    )


def named_tensors(params):
    """Return every weight of a model by its name: what `assemble` takes.

    Parameters
    ----------
    params : Params

    Returns
    -------
    dict of str to array
        The arrays themselves, not copies.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64)
    >>> named_tensors(init_params(config, seed=0))["blocks.1.ffn.w_up"].shape
    (12, 32)
    """
    tensors = {}
    for field in fields(params):
        value = getattr(params, field.name)
        if field.name == "blocks":
            for layer, block in enumerate(value):
                tensors |= {f"blocks.{layer}.{name}": array for name, array in named_tensors(block).items()}
        elif is_dataclass(value):
            tensors |= {f"{field.name}.{name}": array for name, array in named_tensors(value).items()}
        elif value is not None:
            tensors[field.name] = value
    return tensors


def init_params(config, seed, dtype=np.float32, std=0.02):
    """Draw a model's weights: the same seed gives the same model.

    Parameters
    ----------
    config : ModelConfig
    seed : int
        At least 0.
    dtype : float dtype
        Of every weight. A seed's float32 weights are its float64 weights, rounded.
    std : float
        Standard deviation of every matrix and table.

    Returns
    -------
    Params
        Matrices and tables normal with mean 0; norm weights 1, biases 0. The matrices that write to the residual stream
        (w_o and w_down) have std / √(2 · n_layers), so that the stream does not grow with depth.

    Raises
    ------
    ValueError
        If the seed is not an integer of at least 0, dtype is not a float, or std is not a finite number of at least 0.

    Notes
    -----
    Source: Radford et al. (2019), "Language Models are Unsupervised Multitask Learners", section 2.3.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64)
    >>> params = init_params(config, seed=0)
    >>> params.embedding.shape, params.embedding.dtype.name
    ((50, 12), 'float32')
    """
    _check.integer(at_least=0, seed=seed)
    _check.number(at_least=0, std=std)
    if np.dtype(dtype).kind != "f" and np.dtype(dtype).name != "bfloat16":
        raise ValueError(f"dtype must be a float, got {np.dtype(dtype)}")
    rng, tensors = np.random.default_rng(seed), {}
    for name, shape in parameter_shapes(config).items():
        if len(shape) == 1:
            tensors[name] = np.full(shape, 1 if name.endswith(("weight", "_norm")) else 0, dtype)
        else:
            writes = name.endswith(("w_o", "w_down"))  # to the residual stream
            spread = std / math.sqrt(2 * config.n_layers) if writes else std
            # A step of decoding multiplies these by one row: that is fastest if their columns lie in one piece. Of the
            # tables outside the blocks it is rows that are read.
            order = "F" if name.startswith("blocks") else "C"
            tensors[name] = rng.normal(0, spread, shape).astype(dtype, order=order)
    return assemble(config, tensors)


def forward(params, config, token_ids, cache=None, mask=None, positions=None, capture=False):
    """Score every possible next token after every position.

    Parameters
    ----------
    params : Params
    config : ModelConfig
    token_ids : integer array [..., T]
        With a cache: [B, T], the tokens that come after those cached.
    cache : KVCache, optional
        Keys and values of earlier tokens, as `new_cache` makes it; those of `token_ids` are written to it.
    mask : array broadcasting to [..., H, T, S], optional
        Takes the place of the causal (or sliding-window) mask. Boolean: True where a query may attend to a key. Float:
        added to the scores. A mask [T, S] serves all heads and sequences, one for each sequence is [B, 1, T, S].
    positions : integer array [T] or [..., T], optional
        The position of each token. Default: they continue from the cache, or from 0.
    capture : bool
        Whether to return the residual stream and the attention weights too.

    Returns
    -------
    array [..., T, vocab_size]
        Logits: row t scores the token that follows tokens 0 … t.
    Capture
        If `capture`.

    Raises
    ------
    ValueError
        If the weights are not the config's, a token id is out of range, the sequence is empty or longer than a table
        of learned positions or the cache has room for.

    Notes
    -----
    Source: Radford et al. (2019), section 2.3, and Touvron et al. (2023), "LLaMA: Open and Efficient Foundation
    Language Models", section 2.2, for the two families that the config spans.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64)
    >>> forward(init_params(config, seed=0), config, np.array([[1, 5, 9, 2], [3, 3, 0, 7]])).shape
    (2, 4, 50)
    """
    token_ids, positions, mask = _prepare(params, config, token_ids, cache, mask, positions)
    x = embed(token_ids, params.embedding)
    if config.positions == "learned":
        x = x + embed(positions, params.positions)
    start, records = x, []
    for layer, block in enumerate(params.blocks):
        found = transformer_block(x, block, config, positions, mask, cache, layer, capture)
        x, record = found if capture else (found, None)
        records.append(record)
    if config.norm_place == "pre":
        x = normalise(x, params.final_norm, config)
    logits = unembed(x, params.embedding if config.tied else params.head)
    return (logits, _stack(start, records)) if capture else logits


def loss(params, config, token_ids):
    """Return how badly the model predicts each next token of a sequence, all of them in one pass.

    Parameters
    ----------
    params : Params
    config : ModelConfig
    token_ids : integer array [..., T]
        T of at least 2.

    Returns
    -------
    array [..., T - 1]
        Entry t is −log of the probability given to token t + 1 after tokens 0 … t, in nats. The training loss is the
        mean. A model that knows nothing yet has about ln vocab_size.

    Raises
    ------
    ValueError
        If there are fewer than 2 tokens, and as for `forward`.

    Notes
    -----
    One pass gives the same losses as T − 1 passes over the prefixes, because under the causal mask row t sees nothing
    of what follows. (RoPE with dynamic scaling is the exception: beyond its original length every row depends on T.)

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64)
    >>> losses = loss(init_params(config, seed=0), config, np.array([1, 5, 9, 2]))
    >>> losses.shape, bool(abs(losses.mean() - np.log(50)) < 0.1)
    ((3,), True)
    """
    token_ids = np.asarray(token_ids)
    if token_ids.ndim < 1 or token_ids.shape[-1] < 2:
        raise ValueError(f"token_ids [..., T] needs T of at least 2 to have a next token, got shape {token_ids.shape}")
    _check.ids(config.vocab_size, "vocab_size", token_ids=token_ids)
    return cross_entropy(forward(params, config, token_ids[..., :-1]), token_ids[..., 1:])


def new_cache(params, config, batch=1, max_len=None):
    """Return an empty cache of the right size for a model.

    Parameters
    ----------
    params : Params
        Their dtype becomes the cache's.
    config : ModelConfig
    batch : int
        Number of sequences.
    max_len : int, optional
        How many tokens each may have. Default: the config's.

    Returns
    -------
    KVCache

    Raises
    ------
    ValueError
        If batch or max_len is not a positive integer.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64)
    >>> params = init_params(config, seed=0)
    >>> cache = new_cache(params, config)
    >>> logits = forward(params, config, np.array([[1, 5, 9]]), cache)
    >>> forward(params, config, np.array([[2]]), cache).shape, cache.length
    ((1, 1, 50), 4)
    """
    max_len = config.max_len if max_len is None else max_len
    dtype = params.embedding.dtype
    return KVCache(config.n_layers, batch, config.n_kv_heads, max_len, config.d_head, dtype, config.window)


def generate(params, config, prompt, max_new_tokens, sampler=greedy, rng=None, use_cache=True, stop_tokens=()):
    """Continue a prompt, one token at a time.

    Parameters
    ----------
    params : Params
    config : ModelConfig
    prompt : integer array [T] or [B, T]
        At least one token.
    max_new_tokens : int
        How many tokens to generate at most.
    sampler : callable
        Takes logits [B, vocab_size] and `rng`, returns token ids [B]. Default: the likeliest token.
    rng : numpy.random.Generator, optional
        Handed to the sampler.
    use_cache : bool
        Whether to keep keys and values. Without, every step runs over the whole sequence again; the tokens are the
        same.
    stop_tokens : sequence of int
        Tokens that end a sequence. The stop token itself is still given out.

    Returns
    -------
    iterator of int, or of integer array [B]
        Each new token as soon as it is known: an int for a prompt [T], one for each sequence for a prompt [B, T],
        where a sequence that has ended repeats its stop token until all have.

    Raises
    ------
    ValueError
        At once, if a token of the prompt or a stop token is out of range, the prompt is empty, or prompt and new
        tokens together need more positions than a learned table has.

    Examples
    --------
    >>> config = ModelConfig(vocab_size=50, d_model=12, n_layers=2, n_heads=3, d_ff=32, max_len=64)
    >>> tokens = generate(init_params(config, seed=0), config, [1, 5, 9, 2], max_new_tokens=3)
    >>> len(list(tokens))
    3
    """
    stop = _as_list(stop_tokens)
    prompt = _check_prompt(params, config, prompt, max_new_tokens, stop)
    tokens = _stream(params, config, np.atleast_2d(prompt), max_new_tokens, sampler, rng, use_cache, stop)
    return tokens if prompt.ndim == 2 else (int(token[0]) for token in tokens)


def _stream(params, config, tokens, max_new_tokens, sampler, rng, use_cache, stop_tokens):
    """Yield the next token of each sequence until all have ended."""
    cache = new_cache(params, config, len(tokens), tokens.shape[1] + max_new_tokens) if use_cache else None
    ended, unseen = np.zeros(len(tokens), dtype=bool), tokens
    for _ in range(max_new_tokens):
        logits = forward(params, config, unseen, cache) if use_cache else forward(params, config, tokens)
        sampled = _check_sampled(config, sampler(logits[:, -1], rng), len(tokens))
        token = np.where(ended, tokens[:, -1], sampled)
        yield token
        ended |= np.isin(token, stop_tokens)
        if ended.all():
            return
        unseen = token[:, None]
        tokens = np.concatenate([tokens, unseen], axis=1)


def _prepare(params, config, token_ids, cache, mask, positions):
    """Check all that `forward` is given, and return token ids, positions and mask, with the defaults filled in."""
    _check_params(config, params)
    T = _check.shapes(token_ids=(token_ids, "... T" if cache is None else "B T"))["T"]
    token_ids = np.asarray(token_ids)
    _check.ids(config.vocab_size, "vocab_size", token_ids=token_ids)
    if cache is not None:
        _check_cache(config, cache)
        follow, causal = cache.positions(T), cache.mask(T)
    else:
        follow = np.arange(T)
        causal = causal_mask(T) if config.window is None else sliding_window_mask(T, config.window)
    positions = follow if positions is None else _check_positions(positions, token_ids.shape)
    if config.positions == "learned":
        _check.ids(config.max_len, "max_len", positions=positions)
    heads = (*token_ids.shape[:-1], config.n_heads, T, causal.shape[-1])
    return token_ids, positions, causal if mask is None else _check_mask(mask, heads)


def _check_cache(config, cache):
    """Check what a cache could not notice before some layers have written to it."""
    for name in ("n_layers", "window"):
        ours, theirs = getattr(config, name), getattr(cache, name)
        if ours != theirs:
            raise ValueError(f"cache has {name} = {theirs}, but the config has {ours}")


def _check_positions(positions, shape):
    """Return positions as an array, once it is sure that there is one for each token."""
    positions = np.asarray(positions)
    if positions.shape not in (shape[-1:], shape):
        raise ValueError(f"positions has shape {positions.shape}, expected {shape[-1:]} or {shape}, as token_ids has")
    return positions


def _check_mask(mask, shape):
    """Return a mask as an array, once it is sure to fit the scores."""
    mask = np.asarray(mask)
    _check.masks(mask)
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"mask has shape {mask.shape}, which does not broadcast to the scores [..., H, T, S] {shape}")
    return mask


_CHECKED = WeakKeyDictionary()  # params, and the config that they were found to fit


def _check_params(config, params):
    """Check the weights once: neither they nor their config can be replaced by others afterwards."""
    if _CHECKED.get(params) is not config:
        _check_tensors(config, named_tensors(params))
        _CHECKED[params] = config


def _check_tensors(config, tensors):
    """Check that there are exactly the weights that the config asks for, in their shapes."""
    expected = parameter_shapes(config)
    for name, shape in expected.items():
        if name not in tensors:
            raise ValueError(f"the weights lack {name!r}, expected in shape {shape}")
        if np.shape(tensors[name]) != shape:
            raise ValueError(f"{name} has shape {np.shape(tensors[name])}, expected {shape}")
    if len(tensors) > len(expected):
        unknown = sorted(set(tensors) - set(expected))
        raise ValueError(f"the weights hold {unknown[0]!r}, which a model of this config does not have")


def _check_prompt(params, config, prompt, max_new_tokens, stop_tokens):
    """Return the prompt as an array, once it is sure that generation can run to its end."""
    _check_params(config, params)
    T = _check.shapes(prompt=(prompt, "... T"))["T"]
    prompt = np.asarray(prompt)
    if prompt.ndim > 2 or prompt.size == 0:
        raise ValueError(f"prompt must be [T] or [B, T] with a B of at least 1, got shape {prompt.shape}")
    _check.ids(config.vocab_size, "vocab_size", prompt=prompt)
    _check.integer(at_least=0, max_new_tokens=max_new_tokens)
    for token in stop_tokens:
        _check.integer(at_least=0, at_most=config.vocab_size - 1, stop_token=token)
    needed = T + max_new_tokens - 1  # the last token is given out, never read
    if config.positions == "learned" and needed > config.max_len:
        wanted = f"a prompt of {T} and {max_new_tokens} new tokens need {needed} positions"
        raise ValueError(f"{wanted}, but max_len is {config.max_len}")
    return prompt


def _as_list(stop_tokens):
    try:
        return list(stop_tokens)
    except TypeError:
        raise ValueError(f"stop_tokens must be a sequence of token ids, got {stop_tokens!r}") from None


def _check_sampled(config, token, batch):
    """Return what a sampler drew, once it is sure to be one token for each sequence."""
    _check.shapes(token=(token, str(batch)))
    _check.ids(config.vocab_size, "vocab_size", token=token)
    return token


def _under(prefix, tensors):
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


def _stack(start, records):
    stream = [start, *(state for record in records for state in (record.after_attention, record.after_ffn))]
    return Capture(np.stack(stream), np.stack([record.weights for record in records]))
