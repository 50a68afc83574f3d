"""The lab: write a GPT forward pass from an empty file, in pure Python.

A vector is a list of floats, a matrix is a list of rows. Take the functions from top to bottom: each uses only those
above it. Replace `raise NotImplementedError` by your own lines, and ask what is right so far:

    python -m labkit.lab check          what passes, and what is likely wrong with what does not
    python -m labkit.lab next           what to do now
    python -m labkit.lab hint NAME      a nudge; hint NAME 2 says more
    pytest test_lab.py -v               the same checks as tests

Where labkit is not installed, `python . check` in this folder does the same.
"""

import math  # noqa: F401
import random  # noqa: F401

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
    # Hint: Three loops: rows of a, columns of b, and the sum over what they share.
    raise NotImplementedError


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
    # Hint: Row i of the result is column i of a.
    raise NotImplementedError


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
    # Hint: One loop over both lists at once.
    raise NotImplementedError


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
    # Hint: Add row to row: you have a function for that.
    raise NotImplementedError


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
    # Hint: Two things matter: weights in the ratio of exponentials, and no overflow.
    raise NotImplementedError


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
    # Hint: Mean, then variance around that mean, then one line for each entry.
    raise NotImplementedError


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
    # Hint: No mean and no bias: one number to divide by, and a weight for each entry.
    raise NotImplementedError


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
    # Hint: One matrix product, and one addition for each row.
    raise NotImplementedError


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
    # Hint: Row i is query i, column j is key j: which j may it see?
    raise NotImplementedError


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
    # Hint: Five steps: scores, scale, mask, softmax of each row, weighted sum of the values.
    raise NotImplementedError


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
    # Hint: d_head = d_model // n_heads; head h owns that many neighbouring columns.
    raise NotImplementedError


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
    # Hint: It undoes _split_heads.
    raise NotImplementedError


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
    # Hint: Six lines: three projections, three splits, a loop over heads, a concatenation, a projection.
    raise NotImplementedError


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
    # Hint: d/2 pairs of neighbours, each a point in a plane, each turned by an angle of its own.
    raise NotImplementedError


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
    # Hint: One call for each row.
    raise NotImplementedError


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
    # Hint: One number in, one out; math.tanh.
    raise NotImplementedError


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
    # Hint: z · σ(z).
    raise NotImplementedError


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
    # Hint: Three projections, one SiLU, one product.
    raise NotImplementedError


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
    # Hint: Twice the same: normalise a copy, compute a correction from it, add that to x.
    raise NotImplementedError


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
    # Hint: A dictionary: embed, blocks, final_norm_w, lm_head. Each block is a dictionary, too.
    raise NotImplementedError


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
    # Hint: Six steps, in the order of the formula; each is one line that calls what you have.
    raise NotImplementedError


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
    # Hint: Append, attend, return all three. Make new lists: someone may still need the old cache.
    raise NotImplementedError


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
    # Hint: H query heads, G key/value heads: each of the latter serves H / G neighbours.
    raise NotImplementedError


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
    # Hint: multi_head_attention with one line more.
    raise NotImplementedError


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
    # Hint: m_new = max(m, largest score). What was summed under m must be brought under m_new.
    raise NotImplementedError


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
    # Hint: For each query: start with m = −inf, total = 0, out = zeros; walk the tiles; divide out by total at the
    # end.
    raise NotImplementedError


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
    # Hint: Temperature 0 is its own case. Otherwise: softmax of logits / temperature, and u picks a point in [0, 1).
    raise NotImplementedError


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
    # Hint: A loop of n_new turns: forward pass, last row, next token, append.
    raise NotImplementedError


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
    # Hint: A lookup by position, and an addition.
    raise NotImplementedError


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
    # Hint: Every row of the table is compared with x.
    raise NotImplementedError


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
    # Hint: One row of logits, one target: minus the log-softmax at the target.
    raise NotImplementedError
