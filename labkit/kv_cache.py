"""Chapter 6: fewer key/value heads than query heads, and the cache that holds keys and values between steps."""

import copy
import math

import numpy as np

from labkit import _check
from labkit.attention import _weighted_sum, scaled_dot_product_attention


def repeat_kv(x, n_heads):
    """Give every query head a copy of the key or value head that it shares.

    Parameters
    ----------
    x : array [..., G, S, d_head]
        Keys or values of G heads.
    n_heads : int
        Number H of query heads; a multiple of G.

    Returns
    -------
    array [..., H, S, d_head]
        Each head H/G times in a row: 0 0 1 1 for G = 2, H = 4. Query heads that share a head are neighbours. To show
        what grouping means, and to test it; `grouped_query_attention` gets the same result without the copies.

    Raises
    ------
    ValueError
        If G does not divide H.

    Examples
    --------
    >>> repeat_kv(np.array([10.0, 20.0]).reshape(2, 1, 1), n_heads=4).ravel()
    array([10., 10., 20., 20.])
    >>> repeat_kv(np.zeros((3, 2, 5, 8)), n_heads=6).shape
    (3, 6, 5, 8)
    """
    sizes = _check.shapes(x=(x, "... G S d_head"))
    return np.repeat(x, _group_size(n_heads, sizes["G"]), axis=-3)


def grouped_query_attention(q, k, v, mask=None, scale=None, return_weights=False):
    """Let H query heads attend to G ≤ H key/value heads, each shared by H/G neighbouring query heads.

    Parameters
    ----------
    q : array [..., H, T, d_head]
        Queries.
    k : array [..., G, S, d_head]
        Keys.
    v : array [..., G, S, d_v]
        Values.
    mask : array broadcasting to [..., H, T, S], optional
        Boolean: True where a query may attend to a key. Float: added to the scaled scores.
    scale : float, optional
        What the dot products are multiplied by. Default: 1/√d_head.
    return_weights : bool
        Whether to return the attention weights too.

    Returns
    -------
    array [..., H, T, d_v]
        In the dtype of the arguments. G = H is multi-head attention, G = 1 multi-query attention.
    array [..., H, T, S]
        The weights, if `return_weights`.

    Raises
    ------
    ValueError
        If G does not divide H, the axes do not agree, or the mask is neither Boolean nor float.

    Notes
    -----
    The queries are grouped rather than the keys and values repeated, so that no key or value is copied.

    Source: Ainslie et al. (2023), "GQA", section 2.2; Shazeer (2019), "Fast Transformer Decoding", section 3 (G = 1).

    Examples
    --------
    >>> q, k, v = np.ones((2, 6, 3, 8)), np.ones((2, 2, 5, 8)), np.ones((2, 2, 5, 8))
    >>> grouped_query_attention(q, k, v).shape
    (2, 6, 3, 8)
    """
    sizes = _check.shapes(q=(q, "... H T d_head"), k=(k, "... G S d_head"), v=(v, "... G S d_v"))
    H, G = sizes["H"], sizes["G"]
    groups = (G, _group_size(H, G))
    q, k, v = np.asarray(q), np.asarray(k)[..., None, :, :], np.asarray(v)[..., None, :, :]  # [..., G, 1, S, d_head]
    q = q.reshape(*q.shape[:-3], *groups, *q.shape[-2:])  # [..., G, H/G, T, d_head]
    out, weights = _attend(q, k, v, _grouped_mask(mask, groups), scale, return_weights)
    out = out.reshape(*out.shape[:-4], H, *out.shape[-2:])
    return (out, weights.reshape(*weights.shape[:-4], H, *weights.shape[-2:])) if return_weights else out


def cached_attention(q, k, v, cache, layer=0, scale=None):
    """Do one step with a cache: add the new keys and values, and attend to all that it then holds.

    Parameters
    ----------
    q : array [B, H, T, d_head]
        Queries of the T new tokens (1 when decoding, more when a prompt is taken in by chunks). Under RoPE, q and k
        have been turned by `cache.positions(T)`.
    k, v : array [B, G, T, d_head]
        Keys and values of the T new tokens.
    cache : KVCache
        Changed: it holds T more tokens of this layer afterwards.
    layer : int
        Which layer of the cache.
    scale : float, optional
        As for `grouped_query_attention`.

    Returns
    -------
    array [B, H, T, d_head]
        The rows that causal attention over the whole sequence would give for these T tokens.

    Raises
    ------
    ValueError
        As for `grouped_query_attention` and `KVCache.append`.

    Notes
    -----
    Under a causal mask the keys and values of earlier tokens never change, and the newest query may see all of them:
    exactly what the cache holds.

    Examples
    --------
    >>> cache = KVCache(n_layers=1, batch=2, n_kv_heads=2, max_len=16, d_head=8)
    >>> q, k = np.ones((2, 4, 3, 8), np.float32), np.ones((2, 2, 3, 8), np.float32)
    >>> cached_attention(q, k, k, cache).shape, cache.length
    ((2, 4, 3, 8), 3)
    """
    sizes = _check.shapes(q=(q, "B H T d_head"), k=(k, "B G T d_head"), v=(v, "B G T d_head"))
    _group_size(sizes["H"], sizes["G"])  # all checks come before the cache is changed
    scale = 1 / math.sqrt(sizes["d_head"]) if scale is None else scale
    _check.number(scale=scale)
    mask = cache.mask(sizes["T"])
    k_all, v_all = cache.append(layer, k, v)
    return grouped_query_attention(q, k_all, v_all, mask, scale)


class KVCache:
    """Keys and values of every layer for the tokens seen so far, in memory that is allocated once.

    Parameters
    ----------
    n_layers : int
        Number of layers.
    batch : int
        Number B of sequences (rows).
    n_kv_heads : int
        Number G of key/value heads.
    max_len : int
        How many tokens a row may come to hold: positions 0 … max_len − 1.
    d_head : int
        Width of a head.
    dtype : dtype
        Of the keys and values, which must come in it.
    window : int, optional
        Sliding window: a query sees at most the `window` newest positions, its own included. Only that many are kept;
        the oldest make room for the newest once the window is past full.

    Raises
    ------
    ValueError
        If a size is not a positive integer, or the dtype is not a float.

    Notes
    -----
    One step takes T new tokens through all layers:

    1. `positions(T)` and `mask(T)` say where the new tokens stand and what each may see. Ask before appending.
    2. Every layer calls `append(layer, k, v)` once and attends to what it returns.
    3. With the last layer's append the step is over, by itself: `length` grows by T.

    So no call can be forgotten, and whatever the order of the layers, all of them see the same positions and the same
    mask until the step is over. A layer that appends twice, a layer that brings another number of tokens, and more
    tokens than fit are errors, raised before anything is written.

    Rows of unequal length: pad the new tokens to a common T and call `expect(lengths)` before the step. Padding is not
    stored, so each row goes on from its own last token.

    Slot p mod capacity holds position p, with capacity min(max_len, window). What was never written gets no weight.

    Examples
    --------
    >>> cache = KVCache(n_layers=1, batch=2, n_kv_heads=4, max_len=16, d_head=8)
    >>> k = v = np.ones((2, 4, 3, 8), np.float32)
    >>> k_all, v_all = cache.append(0, k, v)
    >>> k_all.shape, cache.length, cache.positions(2)
    ((2, 4, 3, 8), 3, array([3, 4]))
    """

    def __init__(self, n_layers, batch, n_kv_heads, max_len, d_head, dtype=np.float32, window=None):
        sizes = {"n_layers": n_layers, "batch": batch, "n_kv_heads": n_kv_heads, "max_len": max_len, "d_head": d_head}
        _check.integer(at_least=1, **sizes)
        if window is not None:
            _check.integer(at_least=1, window=window)
        self.n_layers, self.batch, self.max_len, self.window = n_layers, batch, max_len, window
        self.dtype = np.dtype(dtype)
        if self.dtype.kind != "f" and self.dtype.name != "bfloat16":
            raise ValueError(f"dtype of a cache must be a float, got {self.dtype}")
        self.n_kv_heads, self.d_head = n_kv_heads, d_head
        self._span = max_len if window is None else window  # how many positions a query sees
        self._capacity = min(self._span, max_len)  # how many slots there are
        self.reset()

    def reset(self):
        """Forget everything. Arrays that were handed out before stay as they are."""
        shape = (self.n_layers, self.batch, self.n_kv_heads, self._capacity, self.d_head)
        self._k, self._v = np.zeros(shape, self.dtype), np.zeros(shape, self.dtype)
        self._lock(True)
        self._lengths = np.zeros(self.batch, dtype=np.int64)
        self._next_step()

    def _next_step(self):
        self._expected, self._planned = None, None  # real new tokens of each row; T of the next step and its positions
        self._step, self._appended = None, set()  # T of the step under way, and the layers that have had it

    def fork(self):
        """Return a copy that goes on by itself: neither sees what the other appends."""
        other = copy.copy(self)
        other._k, other._v = self._k.copy(), self._v.copy()
        other._lock(True)
        other._lengths, other._appended = self._lengths.copy(), set(self._appended)
        return other

    @property
    def nbytes(self):
        """Bytes of the keys and values that are allocated, used or not."""
        return self._k.nbytes + self._v.nbytes

    @property
    def lengths(self):
        """Tokens that each row has seen, integer array [B]. A step under way does not count yet."""
        return self._lengths.copy()

    @property
    def length(self):
        """Tokens that every row has seen. ValueError where rows differ: they have `lengths`."""
        if np.ptp(self._lengths):
            raise ValueError(f"the rows have no common length but {self._lengths.tolist()}: use lengths")
        return int(self._lengths[0])

    def expect(self, lengths, side="right"):
        """Say how many tokens of the next step are real in each row; the rest is padding, and is not stored.

        Parameters
        ----------
        lengths : integer array [B]
            Real new tokens of each row, 0 … T. A row that is finished takes 0.
        side : "right" or "left"
            Where the padding is.

        Raises
        ------
        ValueError
            If there is not one integer of at least 0 for each row, or a step is under way.
        """
        lengths = np.array(lengths)
        if lengths.shape != (self.batch,) or lengths.dtype.kind not in "iu" or lengths.min() < 0:
            raise ValueError(f"lengths must be {self.batch} integers of at least 0, one a row, got {lengths.tolist()}")
        _check.choice(("right", "left"), side=side)
        if self._appended:
            raise ValueError(f"expect comes before a step, but layers {sorted(self._appended)} have appended already")
        self._expected, self._planned = (lengths.astype(np.int64)[:, None], side), None

    def positions(self, T):
        """Return where T new tokens stand: [T], or [B, T] where rows differ. Padding gets 0.

        For `rope.rotate` on [B, H, T, d_head], the second needs an axis for the heads: `positions[:, None]`.

        Raises
        ------
        ValueError
            If T is not a positive integer, the tokens do not fit, or a step with another T is under way.
        """
        positions = np.maximum(self._new(T)[0], 0)
        return positions[0] if (positions == positions[0]).all() else positions

    def mask(self, T):
        """Return what T new tokens may see of the S keys that `append` returns: True = may attend.

        Causal, and within the window. [T, S], or [B, 1, T, S] where rows differ. Padding neither sees nor is seen.

        Raises
        ------
        ValueError
            As for `positions`.
        """
        new, _ = self._new(T)
        queries, keys = new[:, :, None], np.concatenate([self._kept(), new], axis=1)[:, None, :]
        mask = (keys >= 0) & (keys <= queries) & (keys > queries - self._span)
        return mask[0] if (mask == mask[0]).all() else mask[:, None]

    def append(self, layer, k, v):
        """Store the keys and values of T new tokens in one layer, and return all that their queries may need.

        Parameters
        ----------
        layer : int
            Which layer, 0 … n_layers − 1.
        k, v : array [B, G, T, d_head]
            In the cache's dtype.

        Returns
        -------
        k_all, v_all : array [B, G, S, d_head]
            Those still in reach, oldest first, the T new ones last: the keys that `mask(T)` speaks of. Read-only.
            Without a window, and with rows of equal length, they are views: nothing is copied.

        Raises
        ------
        ValueError
            If a shape, the dtype or the layer is wrong, the tokens do not fit, or the layer has had its turn already.
        """
        T = self._check_append(layer, k, v)
        new, end = self._new(T)
        self._lock(False)
        k_all = self._put(self._k[layer], np.asarray(k), new, end)
        v_all = self._put(self._v[layer], np.asarray(v), new, end)
        self._lock(True)
        self._step, self._appended = T, self._appended | {layer}
        if len(self._appended) == self.n_layers:
            self._lengths += (new >= 0).sum(axis=1)
            self._next_step()
        return k_all, v_all

    def _put(self, slots, x, new, end):
        """Write x [B, G, T, d_head] at its positions and return it behind what is kept."""
        if end is not None and self.window is None:  # one slice, the same in every row
            slots[:, :, end - x.shape[2] : end] = x
            out = slots[:, :, :end]
        else:
            rows, capacity = np.arange(self.batch)[:, None], self._capacity
            old = np.moveaxis(slots[rows, :, self._kept() % capacity], 1, 2)  # taken before it is written over
            row, column = np.nonzero((new >= 0) & (new >= new.max(axis=1, keepdims=True) + 1 - capacity))
            slots[row, :, new[row, column] % capacity] = x[row, :, column]
            out = np.concatenate([old, x], axis=2)
        out.flags.writeable = False
        return out

    def _new(self, T):
        """Return the positions [B, T] of T new tokens, −1 for padding, and where they end if that is one for all rows.

        They stay the same until the step is over, however many layers ask.
        """
        _check.integer(at_least=1, T=T)
        if self._planned is None or self._planned[0] != T:
            self._planned = T, *self._plan(T)
        return self._planned[1:]

    def _plan(self, T):
        if self._step not in (None, T):
            raise ValueError(f"T must be {self._step}, as in the step that is under way, got {T}")
        counts, side = (np.full((self.batch, 1), T), "right") if self._expected is None else self._expected
        if counts.max() > T:
            raise ValueError(f"T must be at least {counts.max()}, the real tokens that a row expects, got {T}")
        index = np.arange(T) - (T - counts if side == "left" else 0)
        ends = self._lengths[:, None] + counts
        if ends.max() > self.max_len:
            raise ValueError(
                f"{T} more tokens overflow the cache: lengths {self.lengths.tolist()}, max_len {self.max_len}"
            )
        new = np.where((index >= 0) & (index < counts), self._lengths[:, None] + index, -1)
        alike = new.min() >= 0 and (new == new[0]).all()
        return new, int(ends[0, 0]) if alike else None

    def _kept(self):
        """Return the positions [B, K] of the cached tokens that are still in reach, oldest first; negative = none."""
        K = min(self._lengths.max(), self._span - 1)
        return self._lengths[:, None] + np.arange(-K, 0)

    def _check_append(self, layer, k, v):
        """Return T of a step that may be appended."""
        axes = f"{self.batch} {self.n_kv_heads} T {self.d_head}"
        sizes = _check.shapes(k=(k, axes), v=(v, axes))
        for name, array in (("k", k), ("v", v)):
            if np.asarray(array).dtype != self.dtype:
                raise ValueError(f"{name} must have the cache's dtype {self.dtype}, got {np.asarray(array).dtype}")
        _check.integer(at_least=0, at_most=self.n_layers - 1, layer=layer)
        if layer in self._appended:
            waiting = sorted(set(range(self.n_layers)) - self._appended)
            raise ValueError(
                f"layer {layer} has appended in this step already, layers {waiting} have not; "
                "after a step that failed, reset the cache or go on from a fork"
            )
        return sizes["T"]

    def _lock(self, locked):
        """Keep the memory read-only between appends, so that no view of it can be made writable."""
        for array in (self._k, self._v):
            array.flags.writeable = not locked


def cache_bytes(n_layers, n_kv_heads, d_head, context, batch=1, bytes_per_value=2, window=None):
    """Return how much memory the keys and values of a context take.

    Parameters
    ----------
    n_layers, n_kv_heads, d_head : int
        Of the model.
    context : int
        Tokens held, in each sequence.
    batch : int
        Number of sequences.
    bytes_per_value : float
        Precision: 4 for float32, 2 for float16 and bfloat16, 1 for int8, 0.5 for int4.
    window : int, optional
        Sliding window: no more tokens than this are held.

    Returns
    -------
    int
        Bytes: 2 · n_layers · n_kv_heads · d_head · context · batch · bytes_per_value; 2 for keys and values.

    Raises
    ------
    ValueError
        If a size is not a positive integer, or bytes_per_value is not above 0.

    Examples
    --------
    >>> cache_bytes(n_layers=32, n_kv_heads=32, d_head=128, context=4096) / 2**30
    2.0
    """
    sizes = {"n_layers": n_layers, "n_kv_heads": n_kv_heads, "d_head": d_head, "context": context, "batch": batch}
    _check.integer(at_least=1, **sizes)
    _check.number(above=0, bytes_per_value=bytes_per_value)
    if window is not None:
        _check.integer(at_least=1, window=window)
        context = min(context, window)
    return math.ceil(2 * n_layers * n_kv_heads * d_head * context * batch * bytes_per_value)


def decode_operations(
    T, d_model, n_heads, n_kv_heads=None, d_head=None, d_ff=0, ffn_matrices=3, n_layers=1, cached=True
):
    """Count the multiply-adds that the blocks of a model spend on T tokens that come one at a time.

    Parameters
    ----------
    T : int
        Tokens, from the first on. After each the model is asked for the next one.
    d_model, n_heads, n_kv_heads, d_head : int
        Of the attention layers. Default of n_kv_heads: n_heads; of d_head: d_model / n_heads.
    d_ff, ffn_matrices : int
        Width of the FFN, and its matrices: 3 for SwiGLU, 2 for a GELU MLP. 0 leaves the FFN out.
    n_layers : int
        Number of blocks.
    cached : bool
        With a cache each token passes the blocks once. Without, all tokens so far pass them again each time.

    Returns
    -------
    dict of int
        "projections" (W_q, W_k, W_v, W_o), "attention" (scores and weighted sums; with the causal mask applied after
        the product, as NumPy does, so that t queries and t keys cost t² scores) and "ffn", each an exact count.

    Raises
    ------
    ValueError
        If a size is not a positive integer, d_model does not split into heads (with d_head left out), or the heads do
        not split over the key/value heads.

    Notes
    -----
    The sum of 1 … T is T(T + 1)/2, that of 1² … T² is T(T + 1)(2T + 1)/6. The cache turns the cost of the projections
    and the FFN from quadratic in T to linear, that of attention from cubic to quadratic: not to linear.

    Examples
    --------
    >>> decode_operations(4, d_model=8, n_heads=2)
    {'projections': 1024, 'attention': 160, 'ffn': 0}
    >>> decode_operations(4, d_model=8, n_heads=2, cached=False)
    {'projections': 2560, 'attention': 480, 'ffn': 0}
    """
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    _check.integer(at_least=1, T=T, d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads, n_layers=n_layers)
    _check.integer(at_least=0, d_ff=d_ff, ffn_matrices=ffn_matrices)
    _group_size(n_heads, n_kv_heads)
    if d_head is None and d_model % n_heads:
        raise ValueError(f"d_model = {d_model} does not split into n_heads = {n_heads}: give d_head")
    d_head = d_model // n_heads if d_head is None else d_head
    _check.integer(at_least=1, d_head=d_head)
    once, squares = T * (T + 1) // 2, T * (T + 1) * (2 * T + 1) // 6
    passes, scores = (T, once) if cached else (once, squares)  # tokens through the weights; pairs of query and key
    return {
        "projections": n_layers * passes * 2 * d_model * d_head * (n_heads + n_kv_heads),
        "attention": n_layers * scores * 2 * n_heads * d_head,
        "ffn": n_layers * passes * ffn_matrices * d_model * d_ff,
    }


def _attend(q, k, v, mask, scale, return_weights, block=128):
    """Return output and weights as `scaled_dot_product_attention` does, computed in an order that suits a processor.

    One query a head: the heads that share keys become the rows of one product, so that each key is read once. More
    queries than a block: one head and one block after the other, so that the scores stay in the processor's cache, and
    of the keys only those that the mask lets one of its queries see. The weights are kept only if they are asked for.
    """
    T, S, mask = q.shape[-2], k.shape[-2], None if mask is None else np.asarray(mask)
    usual = mask is None or (mask.shape == (T, S) and mask.dtype.kind in "bf")
    usual = usual and k.shape[:-1] == v.shape[:-1]
    if not usual or 1 < T <= block:
        return scaled_dot_product_attention(q, k, v, mask, scale, return_weights=True)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    _check.number(scale=scale)
    q, k, v, dtype = _check.working(q, k, v)
    if T == 1:
        mask = None if mask is not None and mask.dtype == bool and mask.all() else mask
        found = _attend_block(q.swapaxes(-3, -2), k, v, mask, scale)
        return tuple(each.swapaxes(-3, -2).astype(dtype, copy=False) for each in found)
    heads = np.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    q, k, v = (np.broadcast_to(each, (*heads, *each.shape[-2:])) for each in (q, k, v))
    out = np.empty((*heads, T, v.shape[-1]), dtype)
    weights = np.zeros((*heads, T, S), dtype) if return_weights else None
    for start in range(0, T, block):
        rows = slice(start, start + block)
        keys, part = _seen(mask, rows, S)
        for head in np.ndindex(heads):
            k_seen, v_seen = k[head][keys], v[head][keys]
            out[head][rows], shares = _attend_block(q[head][rows], k_seen, v_seen, part, scale)
            if return_weights:
                weights[head][rows, keys] = shares
    return out, weights


def _attend_block(q, k, v, mask, scale):
    """Return output and weights of queries, keys and values in the dtype to compute in, all at once."""
    with np.errstate(invalid="ignore", over="ignore"):  # a masked key may hold anything
        scores = (q * scale) @ k.swapaxes(-1, -2)
    weights = _softmax_in_place(scores, mask)
    return _weighted_sum(weights, v), weights


def _seen(mask, rows, S):
    """Return a slice of at least one key that holds all that some queries may see, and that part of the mask."""
    if mask is None:
        return slice(0, S), None
    part = mask[rows]
    seen = np.flatnonzero((part if part.dtype == bool else part != -np.inf).any(axis=0))
    keys = slice(seen[0], seen[-1] + 1) if len(seen) else slice(0, 1)
    return keys, part[:, keys]


def _softmax_in_place(scores, mask):
    """Turn scores, in their own memory, into softmax(masked(scores, mask)), and return them."""
    if mask is not None:
        if mask.dtype != bool:
            with np.errstate(invalid="ignore", over="ignore"):
                scores += mask
        np.copyto(scores, -np.inf, where=~mask if mask.dtype == bool else mask == -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    if np.any(top == np.inf):
        raise ValueError("scores must be finite or −inf, got +inf")
    with np.errstate(over="ignore"):  # a gap beyond all floats is −∞, weight 0
        scores -= np.where(top == -np.inf, 0, top)
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    scores /= np.where(total == 0, 1, total)
    return scores


def _group_size(n_heads, n_kv_heads):
    """Return how many query heads share one key/value head."""
    _check.integer(at_least=1, n_heads=n_heads)
    if n_heads % n_kv_heads:
        raise ValueError(f"H = {n_heads} query heads do not split over G = {n_kv_heads} key/value heads")
    return n_heads // n_kv_heads


def _grouped_mask(mask, groups):
    """Split the head axis of a mask as that of the queries is split, if it has one."""
    if np.ndim(mask) < 3:
        return mask
    mask, heads = np.asarray(mask), np.shape(mask)[-3]
    if heads not in (1, math.prod(groups)):
        raise ValueError(
            f"mask has shape {mask.shape}: its head axis is {heads}, expected 1 or H = {math.prod(groups)}"
        )
    split = groups if heads > 1 else (1, 1)
    return mask.reshape(*mask.shape[:-3], *split, *mask.shape[-2:])
