"""Chapter 10: the transformer block, two sublayers that each add a correction to the residual stream."""

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from labkit import _check
from labkit._rows import by_rows
from labkit.attention import linear, project_qkv
from labkit.ffn import gelu_mlp, swiglu
from labkit.heads import concat_heads, split_heads
from labkit.kv_cache import grouped_query_attention
from labkit.norm import layer_norm, rms_norm
from labkit.rope import RopeScaling, as_scaling, attention_factor, frequencies, rotate


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """The choices that fix what a transformer block computes and which weights it has.

    Parameters
    ----------
    d_model : int
        Width of the residual stream.
    n_heads : int
        Number of query heads, H.
    d_ff : int
        Width of the FFN's hidden layer.
    n_kv_heads : int, optional
        Number of key and value heads, G, a divisor of n_heads. Default: n_heads, which is multi-head attention.
    d_head : int, optional
        Width of one head. Default: d_model / n_heads, which must then be whole.
    norm : {"rms", "layer"}
        RMSNorm (a weight), or LayerNorm (a weight and a bias).
    norm_place : {"pre", "post"}
        Whether a norm comes before its sublayer, or after the sublayer's residual add.
    ffn : {"swiglu", "gelu"}
        The gated FFN of three matrices, or the plain one of two.
    gelu : {"tanh", "none"}
        Which GELU the plain FFN uses: the tanh approximation, or none, the exact one.
    positions : {"rope", "learned", "none"}
        How positions enter. Only "rope" concerns the block; "learned" positions are added before the first block.
    base : float
        RoPE's base.
    rope_scaling : RopeScaling or dict of its fields, optional
        How RoPE's frequencies are stretched for long contexts.
    rope_pairing : {"half", "interleaved"}
        Which dimensions of a head RoPE turns together.
    attention_bias : bool
        Whether the projections to queries, keys and values have biases.
    output_bias : bool
        Whether the projection of the heads' output has a bias.
    ffn_bias : bool
        Whether the plain FFN's two matrices have biases.
    qk_norm : bool
        Whether the queries and the keys of each head go through an RMSNorm of their own before RoPE.
    window : int, optional
        Sliding window: how many of the newest positions a query sees, its own included. Default: all.
    eps : float
        What the norms add inside the root.

    Raises
    ------
    ValueError
        If a size is not a positive integer, sizes do not divide, or a choice is none of those listed.

    Notes
    -----
    n_kv_heads and d_head, where left out, are filled in when the config is made. A copy made with
    `dataclasses.replace` keeps the numbers filled in.

    Examples
    --------
    >>> config = BlockConfig(d_model=12, n_heads=3, d_ff=32)
    >>> config.n_kv_heads, config.d_head
    (3, 4)
    """

    d_model: int
    n_heads: int
    d_ff: int
    n_kv_heads: int | None = None
    d_head: int | None = None
    norm: str = "rms"
    norm_place: str = "pre"
    ffn: str = "swiglu"
    gelu: str = "tanh"
    positions: str = "rope"
    base: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    rope_pairing: str = "half"
    attention_bias: bool = False
    output_bias: bool = False
    ffn_bias: bool = False
    qk_norm: bool = False
    window: int | None = None
    eps: float = 1e-5

    def __post_init__(self):
        _check.integer(at_least=1, d_model=self.d_model, n_heads=self.n_heads, d_ff=self.d_ff)
        if self.n_kv_heads is None:
            object.__setattr__(self, "n_kv_heads", self.n_heads)
        if self.d_head is None:
            _divides(n_heads=self.n_heads, d_model=self.d_model)
            object.__setattr__(self, "d_head", self.d_model // self.n_heads)
        _check.integer(at_least=1, n_kv_heads=self.n_kv_heads, d_head=self.d_head)
        _divides(n_kv_heads=self.n_kv_heads, n_heads=self.n_heads)
        _check.choice(("rms", "layer"), norm=self.norm)
        _check.choice(("pre", "post"), norm_place=self.norm_place)
        _check.choice(("swiglu", "gelu"), ffn=self.ffn)
        _check.choice(("tanh", "none"), gelu=self.gelu)
        _check.choice(("rope", "learned", "none"), positions=self.positions)
        _check.choice(("half", "interleaved"), rope_pairing=self.rope_pairing)
        _check.choice((True, False), attention_bias=self.attention_bias, output_bias=self.output_bias)
        _check.choice((True, False), ffn_bias=self.ffn_bias, qk_norm=self.qk_norm)
        _check.number(above=0, base=self.base)
        _check.number(at_least=0, eps=self.eps)
        if self.window is not None:
            _check.integer(at_least=1, window=self.window)
        object.__setattr__(self, "rope_scaling", as_scaling(self.rope_scaling))
        if self.positions == "rope":  # what makes no frequencies is refused here, not in a forward pass
            frequencies(self.d_head, self.base, self.rope_scaling)
        elif self.rope_scaling is not None:
            raise ValueError(f'rope_scaling needs positions="rope", got positions={self.positions!r}')
        if self.ffn == "swiglu" and self.ffn_bias:
            raise ValueError('ffn_bias needs ffn="gelu": the gated FFN has no biases')


@dataclass(frozen=True, eq=False)
class NormParams:
    """The weights of one norm: `weight` [d_model], and for LayerNorm `bias` [d_model].

    Examples
    --------
    >>> NormParams(weight=np.ones(12)).bias is None
    True
    """

    weight: np.ndarray
    bias: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class AttentionParams:
    """The weights of one attention sublayer; biases and q/k norms are None where the config has none.

    Parameters
    ----------
    w_q : array [d_model, n_heads · d_head]
    w_k, w_v : array [d_model, n_kv_heads · d_head]
    w_o : array [n_heads · d_head, d_model]
    b_q : array [n_heads · d_head], optional
    b_k, b_v : array [n_kv_heads · d_head], optional
    b_o : array [d_model], optional
    q_norm, k_norm : array [d_head], optional
        Weights of the RMSNorm of each query head and each key head.

    Examples
    --------
    >>> w = np.ones((12, 12))
    >>> AttentionParams(w, w, w, w).b_o is None
    True
    """

    w_q: np.ndarray
    w_k: np.ndarray
    w_v: np.ndarray
    w_o: np.ndarray
    b_q: np.ndarray | None = None
    b_k: np.ndarray | None = None
    b_v: np.ndarray | None = None
    b_o: np.ndarray | None = None
    q_norm: np.ndarray | None = None
    k_norm: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class FFNParams:
    """The weights of one FFN: `w_gate` is None in the plain one, the biases are None where the config has none.

    Parameters
    ----------
    w_up : array [d_model, d_ff]
    w_down : array [d_ff, d_model]
    w_gate : array [d_model, d_ff], optional
    b_up : array [d_ff], optional
    b_down : array [d_model], optional

    Examples
    --------
    >>> FFNParams(w_up=np.ones((12, 32)), w_down=np.ones((32, 12))).w_gate is None
    True
    """

    w_up: np.ndarray
    w_down: np.ndarray
    w_gate: np.ndarray | None = None
    b_up: np.ndarray | None = None
    b_down: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class BlockParams:
    """The weights of one block: two norms, an attention sublayer and an FFN.

    Examples
    --------
    >>> config = BlockConfig(d_model=12, n_heads=3, d_ff=32)
    >>> tensors = {name: np.ones(shape) for name, shape in block_shapes(config).items()}
    >>> assemble_block(tensors).attention.w_q.shape
    (12, 12)
    """

    attention_norm: NormParams
    attention: AttentionParams
    ffn_norm: NormParams
    ffn: FFNParams


@dataclass(frozen=True, eq=False)
class BlockCapture:
    """What a block computed on its way.

    Parameters
    ----------
    after_attention : array [..., T, d_model]
        The residual stream after the attention sublayer.
    after_ffn : array [..., T, d_model]
        The residual stream after the FFN, which is the block's output.
    weights : array [..., H, T, S]
        The attention weights of every head: query in the row, key in the column.

    Examples
    --------
    >>> BlockCapture(np.ones((5, 12)), np.ones((5, 12)), np.ones((3, 5, 5))).weights.shape
    (3, 5, 5)
    """

    after_attention: np.ndarray
    after_ffn: np.ndarray
    weights: np.ndarray


def block_shapes(config):
    """Return the shape of every weight that one block has, by name, without allocating any.

    Parameters
    ----------
    config : BlockConfig

    Returns
    -------
    dict of str to tuple of int
        For example `"attention.w_q": (d_model, n_heads · d_head)`.

    Examples
    --------
    >>> shapes = block_shapes(BlockConfig(d_model=12, n_heads=6, n_kv_heads=3, d_ff=32))
    >>> shapes["attention.w_q"], shapes["attention.w_k"], "attention.b_q" in shapes
    ((12, 12), (12, 6), False)
    """
    d, ff, head = config.d_model, config.d_ff, config.d_head
    q, kv = config.n_heads * head, config.n_kv_heads * head
    shapes = {"attention_norm.weight": (d,), "ffn_norm.weight": (d,)}
    shapes |= {"attention.w_q": (d, q), "attention.w_k": (d, kv), "attention.w_v": (d, kv), "attention.w_o": (q, d)}
    shapes |= {"ffn.w_up": (d, ff), "ffn.w_down": (ff, d)}
    if config.norm == "layer":
        shapes |= {"attention_norm.bias": (d,), "ffn_norm.bias": (d,)}
    if config.attention_bias:
        shapes |= {"attention.b_q": (q,), "attention.b_k": (kv,), "attention.b_v": (kv,)}
    if config.output_bias:
        shapes |= {"attention.b_o": (d,)}
    if config.qk_norm:
        shapes |= {"attention.q_norm": (head,), "attention.k_norm": (head,)}
    if config.ffn == "swiglu":
        shapes |= {"ffn.w_gate": (d, ff)}
    if config.ffn_bias:
        shapes |= {"ffn.b_up": (ff,), "ffn.b_down": (d,)}
    return shapes


def assemble_block(tensors):
    """Put one block's weights, given by the names of `block_shapes`, into their places.

    Parameters
    ----------
    tensors : dict of str to array

    Returns
    -------
    BlockParams

    Raises
    ------
    ValueError
        If a weight that every block has is missing, or a name is none of a block's.

    Examples
    --------
    >>> config = BlockConfig(d_model=12, n_heads=6, n_kv_heads=3, d_ff=32)
    >>> params = assemble_block({name: np.ones(shape) for name, shape in block_shapes(config).items()})
    >>> params.ffn.w_down.shape
    (32, 12)
    """
    groups = {"attention_norm": {}, "attention": {}, "ffn_norm": {}, "ffn": {}}
    for name, array in tensors.items():
        group, _, key = name.partition(".")
        if group not in groups:
            raise ValueError(f"tensors has {name!r}, which is not the name of a block's weight")
        groups[group][key] = array
    kinds = {"attention_norm": NormParams, "attention": AttentionParams, "ffn_norm": NormParams, "ffn": FFNParams}
    try:
        return BlockParams(**{group: kinds[group](**arrays) for group, arrays in groups.items()})
    except TypeError as error:  # a missing or unknown field, named by the dataclass
        raise ValueError(f"tensors do not make a block: {error}") from None


def normalise(x, params, config):
    """Apply the norm that the config names to every position.

    Parameters
    ----------
    x : array [..., T, d_model]
    params : NormParams
    config : BlockConfig

    Returns
    -------
    array [..., T, d_model]

    Raises
    ------
    ValueError
        If the weights do not fit x.

    Examples
    --------
    >>> config = BlockConfig(d_model=4, n_heads=2, d_ff=8)
    >>> normalise(np.full((3, 4), 7.0), NormParams(np.ones(4)), config).shape
    (3, 4)
    """
    if config.norm == "rms":
        return by_rows(lambda rows: rms_norm(rows, params.weight, config.eps), x)
    return by_rows(lambda rows: layer_norm(rows, params.weight, params.bias, config.eps), x)


def rotate_heads(x, positions, config):
    """Turn the queries or keys of every head by their positions, with the config's RoPE.

    Parameters
    ----------
    x : array [..., n, T, d_head]
        n heads of queries or keys.
    positions : integer array [T] or [..., T]
        The position of each token, the same for all heads.
    config : BlockConfig

    Returns
    -------
    array [..., n, T, d_head]
        In the dtype of x.

    Raises
    ------
    ValueError
        If the positions are not integers of at least 0, or do not fit x.

    Notes
    -----
    Dynamic scaling depends on the length of the context, taken to be the largest position + 1. Beyond the original
    length its frequencies therefore differ from call to call, and keys that a cache holds keep the frequencies of the
    call that made them: there, and only there, a cached pass differs from a full one.

    Examples
    --------
    >>> config = BlockConfig(d_model=8, n_heads=2, d_ff=16)
    >>> rotate_heads(np.ones((3, 2, 5, 4)), np.arange(5), config).shape
    (3, 2, 5, 4)
    """
    positions = np.asarray(positions)
    freqs = frequencies(config.d_head, config.base, config.rope_scaling, length=_length(positions))
    if positions.ndim > 1:
        positions = positions[..., None, :]  # one axis more, for the heads
    return rotate(x, positions, freqs, config.rope_pairing) * attention_factor(config.rope_scaling)


def attention_sublayer(x, params, config, positions=None, mask=None, cache=None, layer=0, return_weights=False):
    """Mix across positions: project, split into heads, turn by position, attend, join, project back.

    Parameters
    ----------
    x : array [..., T, d_model]
        What the sublayer reads. With a cache: [B, T, d_model].
    params : AttentionParams
    config : BlockConfig
    positions : integer array [T] or [..., T], optional
        The position of each token. Default: 0 … T − 1.
    mask : array broadcasting to [..., H, T, S], optional
        Boolean: True where a query may attend to a key. Float: added to the scores. A mask [T, S] serves all heads and
        sequences, one for each sequence is [B, 1, T, S]. Default: every query sees every key.
    cache : KVCache, optional
        Holds the keys and values of earlier tokens; those of x are written to it. S counts all of them.
    layer : int
        Which layer of the cache is this block's.
    return_weights : bool
        Whether to return the attention weights too.

    Returns
    -------
    array [..., T, d_model]
        The correction to add to the residual stream.
    array [..., H, T, S]
        The weights, if `return_weights`.

    Raises
    ------
    ValueError
        If x or the weights do not have the config's sizes, or the cache is full.

    Notes
    -----
    Source: Vaswani et al. (2017), section 3.2; Ainslie et al. (2023) for shared key and value heads; Su et al. (2021)
    for the rotation.

    Examples
    --------
    >>> config = BlockConfig(d_model=12, n_heads=6, n_kv_heads=3, d_ff=32)
    >>> params = assemble_block({name: np.ones(shape) for name, shape in block_shapes(config).items()})
    >>> out, weights = attention_sublayer(np.ones((5, 12)), params.attention, config, return_weights=True)
    >>> out.shape, weights.shape
    ((5, 12), (6, 5, 5))
    """
    T = _check_part(x, "attention", params, config)
    positions = np.arange(T) if positions is None else positions
    q, k, v = project_qkv(x, params.w_q, params.w_k, params.w_v, b_q=params.b_q, b_k=params.b_k, b_v=params.b_v)
    q, k, v = split_heads(q, config.n_heads), split_heads(k, config.n_kv_heads), split_heads(v, config.n_kv_heads)
    if config.qk_norm:
        q, k = rms_norm(q, params.q_norm, config.eps), rms_norm(k, params.k_norm, config.eps)
    if config.positions == "rope":
        q, k = rotate_heads(q, positions, config), rotate_heads(k, positions, config)
    if cache is not None:
        k, v = cache.append(layer, k, v)
    found = grouped_query_attention(q, k, v, mask, return_weights=return_weights)
    heads, weights = found if return_weights else (found, None)
    out = linear(concat_heads(heads), params.w_o, params.b_o)
    return (out, weights) if return_weights else out


def ffn_sublayer(x, params, config):
    """Transform each position on its own, with the FFN that the config names.

    Parameters
    ----------
    x : array [..., T, d_model]
    params : FFNParams
    config : BlockConfig

    Returns
    -------
    array [..., T, d_model]
        The correction to add to the residual stream.

    Raises
    ------
    ValueError
        If x or the weights do not have the config's sizes.

    Examples
    --------
    >>> config = BlockConfig(d_model=12, n_heads=3, d_ff=32, ffn="gelu")
    >>> ffn_sublayer(np.ones((5, 12)), FFNParams(np.ones((12, 32)), np.ones((32, 12))), config).shape
    (5, 12)
    """
    _check_part(x, "ffn", params, config)
    if config.ffn == "swiglu":
        return swiglu(x, params.w_gate, params.w_up, params.w_down)
    return gelu_mlp(x, params.w_up, params.w_down, params.b_up, params.b_down, config.gelu)


def transformer_block(x, params, config, positions=None, mask=None, cache=None, layer=0, capture=False):
    """Let attention and then the FFN each read the residual stream and add a correction to it.

    Parameters
    ----------
    x : array [..., T, d_model]
        The residual stream. With a cache: [B, T, d_model].
    params : BlockParams
    config : BlockConfig
    positions, mask, cache, layer
        As for `attention_sublayer`.
    capture : bool
        Whether to return what the block computed on its way, too.

    Returns
    -------
    array [..., T, d_model]
        The residual stream after the block.
    BlockCapture
        If `capture`.

    Raises
    ------
    ValueError
        If x or the weights do not have the config's sizes, or the cache is full.

    Notes
    -----
    Source: Vaswani et al. (2017), section 3.1, for norms after the add; Xiong et al. (2020), "On Layer Normalization
    in the Transformer Architecture", section 3, for norms before the sublayers.

    Examples
    --------
    >>> config = BlockConfig(d_model=12, n_heads=6, n_kv_heads=3, d_ff=32)
    >>> params = assemble_block({name: np.ones(shape) for name, shape in block_shapes(config).items()})
    >>> transformer_block(np.ones((2, 5, 12)), params, config).shape
    (2, 5, 12)
    """
    _check.shapes(x=(x, f"... T {config.d_model}"))
    pre = config.norm_place == "pre"
    read = normalise(x, params.attention_norm, config) if pre else x
    how = (params.attention, config, positions, mask, cache, layer)
    found = attention_sublayer(read, *how, return_weights=capture)
    update, weights = found if capture else (found, None)
    if pre:
        middle = x + update
        out = middle + ffn_sublayer(normalise(middle, params.ffn_norm, config), params.ffn, config)
    else:
        middle = normalise(x + update, params.attention_norm, config)
        out = normalise(middle + ffn_sublayer(middle, params.ffn, config), params.ffn_norm, config)
    return (out, BlockCapture(middle, out, weights)) if capture else out


def _length(positions):
    """Return how long a context is that reaches to the largest position."""
    _check.shapes(positions=(positions, "... T"))
    return max(1, int(positions.max()) + 1)


def _check_part(x, part, params, config):
    """Check x, and that one part of a block has the weights that the config asks for and no others. Return T."""
    for name, wanted in _wanted(config, part, type(params)):
        array = getattr(params, name)
        found = None if array is None else np.shape(array)
        if found != wanted:
            said = ["no such weight" if shape is None else f"shape {shape}" for shape in (wanted, found)]
            raise ValueError(f"{part}.{name}: expected {said[0]}, got {said[1]}")
    return _check.shapes(x=(x, f"... T {config.d_model}"))["T"]


@lru_cache(maxsize=64)
def _wanted(config, part, kind):
    """Return the name of each weight that a part of a block may have, and the shape it must have, or None."""
    shapes = block_shapes(config)
    return tuple((field.name, shapes.get(f"{part}.{field.name}")) for field in fields(kind))


def _divides(**sizes):
    """Check that the first of two sizes divides the second."""
    (small, n), (large, total) = sizes.items()
    if total % n:
        raise ValueError(f"{large} must be divisible by {small}, got {large} = {total} and {small} = {n}")
