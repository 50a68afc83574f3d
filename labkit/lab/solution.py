"""The lab, solved: a GPT forward pass in pure Python, and the extensions after it.

A vector is a list of floats, a matrix is a list of rows. Run this file for the worked numbers.
"""

import math
import random

# ------------------------------------------------------------------------------------------------- linear algebra


def matmul(a, b):
    """Return the matrix product of a and b.

    Entry (i, j) is Σ_k a[i][k] · b[k][j].

    Parameters
    ----------
    a : list [n, m]
        A list of n rows.
    b : list [m, p]
        A list of m rows.

    Returns
    -------
    list [n, p]

    Raises
    ------
    ValueError
        If the rows of a, or those of b, differ in length, or a has not as many columns as b has rows.

    Examples
    --------
    >>> matmul([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]])
    [[13.0, 16.0]]
    """
    _require_rectangular("a", a)
    _require_rectangular("b", b)
    if len(a[0]) != len(b):
        raise ValueError(f"a has {len(a[0])} columns, b has {len(b)} rows: they must agree")
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def transpose(a):
    """Return the matrix whose rows are the columns of a.

    Entry (j, i) of the result is a[i][j].

    Parameters
    ----------
    a : list [n, m]
        A list of n rows.

    Returns
    -------
    list [m, n]

    Raises
    ------
    ValueError
        If the rows of a differ in length.

    Examples
    --------
    >>> transpose([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    """
    _require_rectangular("a", a)
    return [list(column) for column in zip(*a, strict=True)]


def add_vectors(a, b):
    """Return the sum of two vectors, entry by entry.

    Parameters
    ----------
    a, b : list [n]
        Two vectors of one length.

    Returns
    -------
    list [n]

    Raises
    ------
    ValueError
        If the lengths differ.

    Examples
    --------
    >>> add_vectors([1.0, 2.0], [10.0, 20.0])
    [11.0, 22.0]
    """
    if len(a) != len(b):
        raise ValueError(f"a has {len(a)} entries, b has {len(b)}: they must agree")
    return [x + y for x, y in zip(a, b, strict=True)]


def add_matrices(a, b):
    """Return the sum of two matrices, entry by entry: the residual add.

    Parameters
    ----------
    a, b : list [n, m]
        Two matrices of one shape.

    Returns
    -------
    list [n, m]
        A new matrix. Neither a nor b is changed.

    Raises
    ------
    ValueError
        If the shapes differ, or a or b is ragged.

    Examples
    --------
    >>> add_matrices([[1.0, 2.0], [3.0, 4.0]], [[10.0, 20.0], [30.0, 40.0]])
    [[11.0, 22.0], [33.0, 44.0]]
    """
    if len(a) != len(b):
        raise ValueError(f"a has {len(a)} rows, b has {len(b)}: they must agree")
    return [add_vectors(x, y) for x, y in zip(a, b, strict=True)]


# -------------------------------------------------------------------------------------------- softmax and the norms


def softmax(x):
    """Turn a row of scores into weights that are not negative and sum to 1.

    softmax(x)_j = exp(x_j − max x) / Σ_k exp(x_k − max x)

    Parameters
    ----------
    x : list [n]
        Scores of any finite size. −inf means "not allowed".

    Returns
    -------
    list [n]
        Weights. A score of −inf gets exactly 0; a row of nothing but −inf gives zeros.

    Examples
    --------
    >>> softmax([1002.0, 1002.0, float("-inf")])
    [0.5, 0.5, 0.0]
    """
    top = max(x)
    if top == float("-inf"):
        return [0.0] * len(x)
    e = [math.exp(score - top) for score in x]
    total = sum(e)
    return [value / total for value in e]


def layer_norm(x, weight, bias, eps=1e-5):
    """Centre and scale one vector to mean 0 and variance 1, then apply weight and bias.

    y_i = (x_i − mean) / √(variance + eps) · weight_i + bias_i, with variance = Σ (x_i − mean)² / n

    Parameters
    ----------
    x, weight, bias : list [n]
        The vector, and what each of its entries is multiplied by and moved by.
    eps : float
        Added to the variance, inside the root.

    Returns
    -------
    list [n]

    Examples
    --------
    >>> layer_norm([1.0, 3.0], [1.0, 10.0], [0.0, 0.5], eps=3.0)
    [-0.5, 5.5]
    """
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    divisor = math.sqrt(variance + eps)
    return [(value - mean) / divisor * w + b for value, w, b in zip(x, weight, bias, strict=True)]


def rms_norm(x, weight, eps=1e-5):
    """Scale one vector to root mean square 1, then apply the weight. No mean, no bias.

    y_i = x_i / √(Σ_j x_j² / n + eps) · weight_i

    Parameters
    ----------
    x, weight : list [n]
        The vector, and what each of its entries is multiplied by.
    eps : float
        Added to the mean square, inside the root.

    Returns
    -------
    list [n]

    Examples
    --------
    >>> rms_norm([3.0, 4.0], [1.0, 10.0], eps=3.5)
    [0.75, 10.0]
    """
    mean_square = sum(value * value for value in x) / len(x)
    divisor = math.sqrt(mean_square + eps)
    return [value / divisor * w for value, w in zip(x, weight, strict=True)]


def linear(x, w, b=None):
    """Apply one affine map to every row: x w + b.

    Parameters
    ----------
    x : list [T, d_in]
        One row for each position.
    w : list [d_in, d_out]
        Weights, stored so that they are applied from the right.
    b : list [d_out], optional
        Bias, added to every row.

    Returns
    -------
    list [T, d_out]

    Raises
    ------
    ValueError
        If x and w disagree on d_in, or w and b on d_out.

    Examples
    --------
    >>> linear([[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [3.0, 4.0]], [0.5, 0.0])
    [[1.5, 2.0], [3.5, 4.0]]
    """
    y = matmul(x, w)
    return y if b is None else [add_vectors(row, b) for row in y]


# -------------------------------------------------------------------------------------------------------- attention


def causal_mask(T):
    """Return the mask under which no position sees one after it. It is added to the scores.

    Parameters
    ----------
    T : int
        Number of positions.

    Returns
    -------
    list [T, T]
        Entry (i, j) is 0.0 if query i may attend to key j, which is when j ≤ i, and −inf if not.

    Examples
    --------
    >>> causal_mask(2)
    [[0.0, -inf], [0.0, 0.0]]
    """
    return [[0.0 if j <= i else float("-inf") for j in range(T)] for i in range(T)]


def scaled_dot_product_attention(q, k, v, mask=None):
    """Give every query a weighted average of the values, weighted by how well it matches each key.

    softmax(q kᵀ / √d_k + mask) v, with one softmax for each query.

    Parameters
    ----------
    q : list [T, d_k]
        Queries.
    k : list [S, d_k]
        Keys.
    v : list [S, d_v]
        Values, one for each key.
    mask : list [T, S], optional
        Added to the scaled scores: 0 where a query may attend, −inf where it may not.

    Returns
    -------
    list [T, d_v]
        A query that may attend to nothing gets zeros.

    Examples
    --------
    >>> scaled_dot_product_attention([[0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]], [[1.0], [5.0]])
    [[3.0]]
    """
    scale = 1 / math.sqrt(len(q[0]))
    scores = [[score * scale for score in row] for row in matmul(q, transpose(k))]
    if mask is not None:
        scores = add_matrices(scores, mask)
    return matmul([softmax(row) for row in scores], v)


def _split_heads(x, n_heads):
    """Cut the columns of x into n_heads equal slices.

    Head h has columns h · d_head to (h + 1) · d_head − 1, with d_head = d_model / n_heads.

    Parameters
    ----------
    x : list [T, d_model]
        One row for each position.
    n_heads : int
        Number of heads.

    Returns
    -------
    list [n_heads, T, d_head]

    Raises
    ------
    ValueError
        If d_model is not divisible by n_heads.

    Examples
    --------
    >>> _split_heads([[1.0, 2.0, 3.0, 4.0]], 2)
    [[[1.0, 2.0]], [[3.0, 4.0]]]
    """
    d_model = len(x[0])
    if d_model % n_heads:
        raise ValueError(f"d_model = {d_model} is not divisible by n_heads = {n_heads}")
    d_head = d_model // n_heads
    return [[row[h * d_head : (h + 1) * d_head] for row in x] for h in range(n_heads)]


def _concat_heads(heads):
    """Put the heads side by side again: what undoes _split_heads.

    Parameters
    ----------
    heads : list [n_heads, T, d_head]
        One matrix for each head.

    Returns
    -------
    list [T, n_heads · d_head]

    Examples
    --------
    >>> _concat_heads([[[1.0, 2.0]], [[3.0, 4.0]]])
    [[1.0, 2.0, 3.0, 4.0]]
    """
    return [[value for part in rows for value in part] for rows in zip(*heads, strict=True)]


def multi_head_attention(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    """Let n_heads narrow attentions work side by side, then mix their results.

    Project x to queries, keys and values; split each into heads; attend in every head; concatenate; project with w_o.

    Parameters
    ----------
    x : list [T, d_model]
        One row for each position.
    w_q, w_k, w_v, w_o : list [d_model, d_model]
        Weights, applied as x w.
    n_heads : int
        Number of heads.
    mask : list [T, T], optional
        Added to the scores of every head.

    Returns
    -------
    list [T, d_model]

    Raises
    ------
    ValueError
        If d_model is not divisible by n_heads.

    Examples
    --------
    >>> one = [[1.0, 0.0], [0.0, 1.0]]
    >>> multi_head_attention([[1.0, 2.0]], one, one, [[2.0, 0.0], [0.0, 3.0]], one, n_heads=2)
    [[2.0, 6.0]]
    """
    q, k, v = (_split_heads(linear(x, w), n_heads) for w in (w_q, w_k, w_v))
    heads = [scaled_dot_product_attention(q[h], k[h], v[h], mask) for h in range(n_heads)]
    return linear(_concat_heads(heads), w_o)


# -------------------------------------------------------------------------------------------------------- positions


def _rope_vector(x, pos, base=10000.0):
    """Rotate each pair of neighbours (x[2i], x[2i+1]) by the angle pos · base^(−2i/d).

    y[2i] = x[2i] cos − x[2i+1] sin, y[2i+1] = x[2i] sin + x[2i+1] cos

    Parameters
    ----------
    x : list [d]
        One vector of even length d.
    pos : int
        Its position, from 0. At position 0 nothing turns.
    base : float
        How slowly the last pairs turn.

    Returns
    -------
    list [d]
        A vector of the same length √Σx².

    Raises
    ------
    ValueError
        If d is odd.

    Examples
    --------
    >>> [round(value, 4) for value in _rope_vector([1.0, 2.0, 3.0, 4.0], pos=1)]
    [-1.1426, 1.9221, 2.9599, 4.0298]
    """
    d = len(x)
    if d % 2:
        raise ValueError(f"x has {d} entries: rotation needs pairs, so an even number")
    y = []
    for i in range(0, d, 2):
        angle = pos * base ** (-i / d)
        cos, sin = math.cos(angle), math.sin(angle)
        y += [x[i] * cos - x[i + 1] * sin, x[i] * sin + x[i + 1] * cos]
    return y


def rope(x, positions, base=10000.0):
    """Rotate every row to its position.

    Parameters
    ----------
    x : list [T, d]
        One row for each position; d is even.
    positions : list [T] of int
        The position of each row. They need not start at 0, nor be in order.
    base : float
        Handed on to _rope_vector.

    Returns
    -------
    list [T, d]

    Raises
    ------
    ValueError
        If there is not one position for each row.

    Examples
    --------
    >>> rope([[1.0, 2.0]], [0])
    [[1.0, 2.0]]
    """
    if len(x) != len(positions):
        raise ValueError(f"x has {len(x)} rows, but there are {len(positions)} positions")
    return [_rope_vector(row, pos, base) for row, pos in zip(x, positions, strict=True)]


# ----------------------------------------------------------------------------------------------------- feed-forward


def gelu(x):
    """Return GELU of one number, in its tanh form.

    ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))

    Parameters
    ----------
    x : float
        Any number.

    Returns
    -------
    float
        Nearly x far to the right, nearly 0 far to the left.

    Examples
    --------
    >>> round(gelu(-2.7), 6)
    -0.008888
    """
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _silu(z):
    """Return SiLU of one number: z σ(z), with σ(z) = 1 / (1 + exp(−z)).

    Parameters
    ----------
    z : float
        Any number, however large or small.

    Returns
    -------
    float

    Examples
    --------
    >>> round(_silu(1.0), 4), _silu(0.0), abs(_silu(-1000.0))
    (0.7311, 0.0, 0.0)
    """
    if z >= 0:
        return z / (1 + math.exp(-z))
    e = math.exp(z)  # exp(−z) would overflow for very negative z
    return z * e / (1 + e)


def swiglu_ffn(x, w_gate, w_up, w_down):
    """Apply the gated feed-forward layer to every row.

    (SiLU(x w_gate) ⊙ x w_up) w_down, where ⊙ multiplies entry by entry.

    Parameters
    ----------
    x : list [T, d_model]
        One row for each position.
    w_gate, w_up : list [d_model, d_ff]
        The two projections up.
    w_down : list [d_ff, d_model]
        The projection down.

    Returns
    -------
    list [T, d_model]

    Examples
    --------
    >>> swiglu_ffn([[0.0, 2.0]], [[1.0], [0.0]], [[3.0], [1.0]], [[1.0, 1.0]])
    [[0.0, 0.0]]
    """
    gate = [[_silu(value) for value in row] for row in linear(x, w_gate)]
    up = linear(x, w_up)
    hidden = [[g * u for g, u in zip(a, b, strict=True)] for a, b in zip(gate, up, strict=True)]
    return linear(hidden, w_down)


# ---------------------------------------------------------------------------------------------- block and full model


def transformer_block(x, block, mask=None):
    """Add two corrections to the residual stream: attention's, then the feed-forward layer's. Pre-norm.

    x ← x + attention(RMSNorm(x)), then x ← x + FFN(RMSNorm(x))

    Parameters
    ----------
    x : list [T, d_model]
        The residual stream.
    block : dict
        norm1_w [d_model] · w_q, w_k, w_v, w_o [d_model, d_model] · n_heads (int) · norm2_w [d_model] ·
        w_gate, w_up [d_model, d_ff] · w_down [d_ff, d_model].
    mask : list [T, T], optional
        Added to the scores of every head.

    Returns
    -------
    list [T, d_model]
        The stream with both corrections added. It is not normalised itself.

    Examples
    --------
    >>> zero = [[0.0, 0.0], [0.0, 0.0]]
    >>> weights = dict.fromkeys(("w_q", "w_k", "w_v", "w_o", "w_gate", "w_up", "w_down"), zero)
    >>> transformer_block([[1.0, 2.0]], {"norm1_w": [1.0, 1.0], "norm2_w": [1.0, 1.0], "n_heads": 1, **weights})
    [[1.0, 2.0]]
    """
    normed = [rms_norm(row, block["norm1_w"]) for row in x]
    weights = (block["w_q"], block["w_k"], block["w_v"], block["w_o"])
    x = add_matrices(x, multi_head_attention(normed, *weights, block["n_heads"], mask))
    normed = [rms_norm(row, block["norm2_w"]) for row in x]
    return add_matrices(x, swiglu_ffn(normed, block["w_gate"], block["w_up"], block["w_down"]))


def build_params(vocab_size, d_model, n_heads, n_layers, d_ff, seed=0):
    """Draw the weights of a model from one random generator with a seed.

    Parameters
    ----------
    vocab_size, d_model, n_heads, n_layers, d_ff : int
        The sizes of the model.
    seed : int
        The same seed gives the same weights, another seed gives others.

    Returns
    -------
    dict
        embed [vocab_size, d_model] · blocks, a list of n_layers dicts as transformer_block takes them ·
        final_norm_w [d_model] · lm_head [d_model, vocab_size]. Norm weights are 1.0; every other entry is drawn
        from a normal distribution with mean 0 and standard deviation 0.02.

    Examples
    --------
    >>> params = build_params(vocab_size=10, d_model=4, n_heads=2, n_layers=3, d_ff=6)
    >>> sorted(params), len(params["blocks"]), len(params["embed"]), len(params["lm_head"][0])
    (['blocks', 'embed', 'final_norm_w', 'lm_head'], 3, 10, 10)
    """
    rng = random.Random(seed)  # one of its own: the module's is everybody's

    def matrix(rows, columns):
        return [[rng.gauss(0, 0.02) for _ in range(columns)] for _ in range(rows)]

    def block():
        return {
            "norm1_w": [1.0] * d_model,
            "w_q": matrix(d_model, d_model),
            "w_k": matrix(d_model, d_model),
            "w_v": matrix(d_model, d_model),
            "w_o": matrix(d_model, d_model),
            "n_heads": n_heads,
            "norm2_w": [1.0] * d_model,
            "w_gate": matrix(d_model, d_ff),
            "w_up": matrix(d_model, d_ff),
            "w_down": matrix(d_ff, d_model),
        }

    return {
        "embed": matrix(vocab_size, d_model),
        "blocks": [block() for _ in range(n_layers)],
        "final_norm_w": [1.0] * d_model,
        "lm_head": matrix(d_model, vocab_size),
    }


def gpt_forward(token_ids, params):
    """Return a score for every possible next token, at every position.

    embed → rotate to positions 0 … T−1 → every block, under the causal mask → RMSNorm → lm_head

    Parameters
    ----------
    token_ids : list [T] of int
        The tokens, at least one.
    params : dict
        As build_params returns it.

    Returns
    -------
    list [T, vocab_size]
        Logits. Row t depends on tokens 0 … t only.

    Raises
    ------
    ValueError
        If there is no token, or one is not in 0 … vocab_size − 1.

    Examples
    --------
    >>> logits = gpt_forward([1, 5, 9, 2], build_params(10, 4, n_heads=2, n_layers=2, d_ff=6))
    >>> len(logits), len(logits[0])
    (4, 10)
    """
    vocab_size = len(params["embed"])
    if not token_ids or not all(0 <= token < vocab_size for token in token_ids):
        raise ValueError(f"token_ids must hold at least one id, each in 0 … {vocab_size - 1}; got {list(token_ids)}")
    x = [params["embed"][token] for token in token_ids]
    x = rope(x, list(range(len(x))))
    mask = causal_mask(len(x))
    for block in params["blocks"]:
        x = transformer_block(x, block, mask)
    x = [rms_norm(row, params["final_norm_w"]) for row in x]
    return linear(x, params["lm_head"])


# ---------------------------------------------------------------------------------------------------- the key cache


def attention_with_kv_cache(q_new, k_new, v_new, cache_k, cache_v):
    """Attend from one new token, using the keys and values of all tokens before it.

    Append the new key and value to what is cached, then attend over all of it. No mask: nothing lies in the future.

    Parameters
    ----------
    q_new, k_new : list [d_k]
        Query and key of the new token.
    v_new : list [d_v]
        Its value.
    cache_k : list [t, d_k]
        Keys of the t tokens before; empty at first.
    cache_v : list [t, d_v]
        Their values.

    Returns
    -------
    list [d_v]
        The context of the new token: the last row of full causal attention.
    list [t + 1, d_k]
        The keys, grown by one. A new list: the old cache is not changed.
    list [t + 1, d_v]
        The values, grown by one. A new list, too.

    Examples
    --------
    >>> attention_with_kv_cache([0.0], [1.0], [6.0], [[3.0]], [[2.0]])
    ([4.0], [[3.0], [1.0]], [[2.0], [6.0]])
    """
    keys = [*cache_k, k_new]
    values = [*cache_v, v_new]
    return scaled_dot_product_attention([q_new], keys, values)[0], keys, values


# ------------------------------------------------------------------------------------------------------- extensions


def grouped_query_attention(q_heads, k_heads, v_heads, mask=None):
    """Attend with H query heads that share G key/value heads (GQA; MQA when G = 1).

    Query head h uses key/value head h // (H / G): neighbours share.

    Parameters
    ----------
    q_heads : list [H, T, d_k]
        Queries of every query head.
    k_heads : list [G, S, d_k]
        Keys of every key/value head.
    v_heads : list [G, S, d_v]
        Values of every key/value head.
    mask : list [T, S], optional
        Added to the scores of every head.

    Returns
    -------
    list [H, T, d_v]

    Raises
    ------
    ValueError
        If H is not divisible by G.

    Examples
    --------
    >>> grouped_query_attention([[[0.0]]] * 4, [[[0.0]], [[0.0]]], [[[10.0]], [[20.0]]])
    [[[10.0]], [[10.0]], [[20.0]], [[20.0]]]
    """
    if len(q_heads) % len(k_heads):
        raise ValueError(f"{len(q_heads)} query heads cannot share {len(k_heads)} key/value heads evenly")
    size = len(q_heads) // len(k_heads)
    return [
        scaled_dot_product_attention(q, k_heads[h // size], v_heads[h // size], mask) for h, q in enumerate(q_heads)
    ]


def rope_multi_head_attention(x, w_q, w_k, w_v, w_o, n_heads, positions, mask=None):
    """Rotate where real models do: the queries and keys of every head, inside attention.

    As multi_head_attention, with rope on q and k after the split. Values are not rotated.

    Parameters
    ----------
    x : list [T, d_model]
        One row for each position.
    w_q, w_k, w_v, w_o : list [d_model, d_model]
        Weights, applied as x w.
    n_heads : int
        Number of heads; d_head must be even.
    positions : list [T] of int
        The position of each row.
    mask : list [T, T], optional
        Added to the scores of every head.

    Returns
    -------
    list [T, d_model]
        It stays the same when all positions move by one number.

    Examples
    --------
    >>> one = [[1.0, 0.0], [0.0, 1.0]]
    >>> rope_multi_head_attention([[1.0, 2.0]], one, one, one, one, n_heads=1, positions=[7])
    [[1.0, 2.0]]
    """
    q, k, v = (_split_heads(linear(x, w), n_heads) for w in (w_q, w_k, w_v))
    heads = [
        scaled_dot_product_attention(rope(q[h], positions), rope(k[h], positions), v[h], mask) for h in range(n_heads)
    ]
    return linear(_concat_heads(heads), w_o)


def online_softmax_step(m, total, out, scores, values):
    """Fold one more tile of scores and values into a running softmax-weighted sum.

    With m_new = max(m, scores) and e_j = exp(score_j − m_new), all that was summed so far shrinks by exp(m − m_new):
    total_new = total · exp(m − m_new) + Σ e_j, and out_new = out · exp(m − m_new) + Σ e_j · value_j.

    Parameters
    ----------
    m : float
        The largest score so far; −inf at first.
    total : float
        The sum of exponentials so far; 0.0 at first.
    out : list [d_v]
        The weighted sum of values so far, not yet divided by total; zeros at first.
    scores : list [n]
        The scores of this tile. −inf means "not allowed".
    values : list [n, d_v]
        The values of this tile.

    Returns
    -------
    float
        The new m.
    float
        The new total.
    list [d_v]
        The new out. While all scores so far are −inf, the state stays as it was.

    Examples
    --------
    >>> online_softmax_step(float("-inf"), 0.0, [0.0], [5.0, 5.0], [[1.0], [3.0]])
    (5.0, 2.0, [4.0])
    """
    m_new = max(m, *scores)
    if m_new == float("-inf"):
        return m, total, out
    shrink = math.exp(m - m_new)
    e = [math.exp(score - m_new) for score in scores]
    added = [sum(w * row[j] for w, row in zip(e, values, strict=True)) for j in range(len(out))]
    return m_new, total * shrink + sum(e), [o * shrink + a for o, a in zip(out, added, strict=True)]


def tiled_attention(q, load, n_keys, tile_size):
    """Compute attention while holding no more than one tile of keys and values: the heart of FlashAttention.

    Walk over the keys a tile at a time, fold each tile in with online_softmax_step, divide by total at the end.

    Parameters
    ----------
    q : list [T, d_k]
        Queries.
    load : function
        load(start, stop) returns keys and values start … stop − 1, at most tile_size of them. Loading a tile
        overwrites the one before, as in a small fast memory.
    n_keys : int
        How many keys there are. The last tile may be smaller.
    tile_size : int
        How many keys fit.

    Returns
    -------
    list [T, d_v]
        What scaled_dot_product_attention gives.

    Examples
    --------
    >>> keys, values = [[1.0], [2.0], [3.0]], [[3.0], [6.0], [9.0]]
    >>> tiled_attention([[0.0]], lambda start, stop: (keys[start:stop], values[start:stop]), n_keys=3, tile_size=2)
    [[6.0]]
    """
    scale = 1 / math.sqrt(len(q[0]))
    result = []
    for query in q:
        m, total, out = float("-inf"), 0.0, None
        for start in range(0, n_keys, tile_size):
            keys, values = load(start, min(start + tile_size, n_keys))
            scores = [scale * sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]
            m, total, out = online_softmax_step(m, total, out or [0.0] * len(values[0]), scores, values)
        result.append([value / total for value in out])
    return result


def next_token(logits, temperature, u):
    """Choose a token from one row of logits.

    Temperature 0: the largest logit, the first of equals. Otherwise: the first token at which the cumulative sum of
    softmax(logits / temperature) is greater than u.

    Parameters
    ----------
    logits : list [vocab_size]
        Scores; −inf means "never".
    temperature : float
        0 for greedy; small is sharp, large is even.
    u : float
        A random number in [0, 1).

    Returns
    -------
    int
        A token id. Should rounding leave the whole sum below u, the last token that has any weight.

    Examples
    --------
    >>> next_token([0.0, 5.0, 0.0], 0.0, u=0.9), next_token([0.0, 0.0], 1.0, u=0.9)
    (1, 1)
    """
    if temperature == 0:
        return logits.index(max(logits))
    weights = softmax([logit / temperature for logit in logits])
    total, last = 0.0, None
    for token, weight in enumerate(weights):
        if weight > 0:
            total, last = total + weight, token
            if u < total:
                return token
    return last


def generate(params, prompt, n_new, temperature=0.0, seed=0):
    """Continue a prompt, one token at a time.

    Each new token is chosen from the last row of logits of all tokens so far. With a temperature above 0, u is
    rng.random() of one random.Random(seed), drawn once for each new token.

    Parameters
    ----------
    params : dict
        As build_params returns it.
    prompt : list of int
        The tokens to start from.
    n_new : int
        How many to add.
    temperature : float
        0 for greedy.
    seed : int
        The same seed gives the same tokens.

    Returns
    -------
    list of int
        The prompt and the new tokens. The prompt itself is not changed.

    Examples
    --------
    >>> params = build_params(10, 4, n_heads=2, n_layers=1, d_ff=6)
    >>> len(generate(params, [1, 5], n_new=3)), generate(params, [1, 5], n_new=0)
    (5, [1, 5])
    """
    rng, ids = random.Random(seed), list(prompt)
    for _ in range(n_new):
        u = rng.random() if temperature else 0.0
        ids.append(next_token(gpt_forward(ids, params)[-1], temperature, u))
    return ids


def add_positions(x, table, start=0):
    """Add a learned vector for each position: what GPT-2 does in place of rotating.

    Parameters
    ----------
    x : list [T, d_model]
        One row for each token.
    table : list [max_len, d_model]
        Row p belongs to position p.
    start : int
        How many tokens came before. Row t of x is at position start + t.

    Returns
    -------
    list [T, d_model]

    Raises
    ------
    ValueError
        If a position lies past the table.

    Examples
    --------
    >>> add_positions([[1.0], [1.0]], [[10.0], [20.0], [30.0]], start=1)
    [[21.0], [31.0]]
    """
    if start + len(x) > len(table):
        raise ValueError(f"position {start + len(x) - 1} lies past a table of {len(table)} positions")
    return [add_vectors(row, table[start + t]) for t, row in enumerate(x)]


def tied_logits(x, embed):
    """Use the embedding table as the head, too: logit i is the dot product with row i.

    x embedᵀ

    Parameters
    ----------
    x : list [T, d_model]
        The normalised stream.
    embed : list [vocab_size, d_model]
        The embedding table itself, no copy.

    Returns
    -------
    list [T, vocab_size]

    Raises
    ------
    ValueError
        If x and the table disagree on d_model.

    Examples
    --------
    >>> tied_logits([[1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    [[1.0, 2.0, 3.0]]
    """
    return matmul(x, transpose(embed))


def cross_entropy(logits, target):
    """Return the loss of one prediction, in nats: minus the log-probability of the token that came.

    −log softmax(logits)[target] = log Σ_k exp(x_k − max x) − (x_target − max x)

    Parameters
    ----------
    logits : list [vocab_size]
        One row of scores. However far apart, the loss is finite.
    target : int
        The token that came.

    Returns
    -------
    float

    Examples
    --------
    >>> round(cross_entropy([0.0, 0.0, 0.0, 0.0], 2), 4), cross_entropy([0.0, -2000.0], 1)
    (1.3863, 2000.0)
    """
    top = max(logits)
    return math.log(sum(math.exp(logit - top) for logit in logits)) - (logits[target] - top)


def _require_rectangular(name, a):
    if any(len(row) != len(a[0]) for row in a):
        raise ValueError(f"the rows of {name} differ in length: {[len(row) for row in a]}")


# ------------------------------------------------------------------------------------------------- the worked numbers


def _show(value):
    if isinstance(value, list):
        return "[" + ", ".join(_show(item) for item in value) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _worked_numbers():
    """Yield the name of each worked example, and its numbers."""
    yield "softmax of 0 and ln 3", softmax([0.0, math.log(3.0)])
    yield "softmax of 1002, 1000, 999", softmax([1002.0, 1000.0, 999.0])
    yield "softmax of 8, 0.1, −7.9", softmax([8.0, 0.1, -7.9])
    yield "… divided by √16", softmax([2.0, 0.025, -1.975])
    yield "layer_norm of 1, 2, 4, 5", layer_norm([1.0, 2.0, 4.0, 5.0], [1.0] * 4, [0.0] * 4)
    yield "rms_norm of 1, 2, 4, 5", rms_norm([1.0, 2.0, 4.0, 5.0], [1.0] * 4)
    yield "rms_norm of ±0.001 (ε inside)", rms_norm([1e-3, -1e-3], [1.0, 1.0])

    q, k, v = [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0], [2.0, 0.0]], [[1.0], [2.0], [6.0]]
    mask = causal_mask(3)
    yield "causal mask of 3", mask
    full = scaled_dot_product_attention(q, k, v, mask)
    yield "causal attention", full
    cache_k, cache_v, steps = [], [], []
    for q_new, k_new, v_new in zip(q, k, v, strict=True):
        context, cache_k, cache_v = attention_with_kv_cache(q_new, k_new, v_new, cache_k, cache_v)
        steps.append(context)
    yield "… token by token, cached", steps
    yield "… the largest difference is below 1e-12", _largest_difference(full, steps) < 1e-12

    yield "RoPE of 1, 2, 3, 4 at position 1", _rope_vector([1.0, 2.0, 3.0, 4.0], 1)
    yield "q·k rotated to positions 3 and 1", _rotated_score(3, 1)
    yield "… to 103 and 101: the same", _rotated_score(103, 101)
    yield "… to 4 and 1: another", _rotated_score(4, 1)
    yield "gelu(−2.7), tanh form", gelu(-2.7)
    yield "SiLU of −1, 0, 1", [_silu(-1.0), _silu(0.0), _silu(1.0)]

    params = build_params(vocab_size=12, d_model=8, n_heads=2, n_layers=2, d_ff=16, seed=0)
    logits = gpt_forward([1, 5, 9, 2], params)
    yield "gpt_forward: rows × scores", [len(logits), len(logits[0])]
    yield "last row of logits, times 1000", [1000 * logit for logit in logits[-1][:4]] + ["…"]
    losses = [cross_entropy(row, target) for row, target in zip(logits[:3], [5, 9, 2], strict=True)]
    yield "mean loss (ln 12 = 2.485)", sum(losses) / len(losses)
    yield "eight greedy tokens", generate(params, [1, 5, 9, 2], n_new=8)
    yield "eight sampled tokens", generate(params, [1, 5, 9, 2], n_new=8, temperature=1.0, seed=1)

    heads = grouped_query_attention([[[0.0]]] * 4, [[[0.0]]] * 2, [[[10.0]], [[20.0]]])
    yield "GQA, 4 query heads on values 10 and 20", [head[0][0] for head in heads]
    tiled = tiled_attention(q, lambda start, stop: (k[start:stop], v[start:stop]), n_keys=3, tile_size=2)
    yield "tiled attention, tiles of 2", tiled
    untiled = scaled_dot_product_attention(q, k, v)
    yield "… the largest difference is below 1e-12", _largest_difference(untiled, tiled) < 1e-12


def _largest_difference(a, b):
    return max(abs(x - y) for row, line in zip(a, b, strict=True) for x, y in zip(row, line, strict=True))


def _rotated_score(query_position, key_position):
    q = _rope_vector([0.5, -1.0, 2.0, 1.5], query_position)
    k = _rope_vector([1.0, 0.5, -0.5, 2.0], key_position)
    return sum(x * y for x, y in zip(q, k, strict=True))


if __name__ == "__main__":
    for name, numbers in _worked_numbers():
        print(f"{name:<40} {_show(numbers)}")
