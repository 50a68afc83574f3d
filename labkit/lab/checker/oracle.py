"""The right answers, each with the knobs that make it wrong in the ways in which people get it wrong.

Nothing here is an example of style: `solution.py` is. Knobs are keyword arguments, and their defaults are right.
"""

import math
import random

INF = float("inf")


# Small things that are not exercises.


def numbers(seed, *shape, spread=1.5):
    """Return a nested list of that shape, filled with numbers of one decimal: the data of many cases."""
    return _fill(random.Random(seed), shape, spread)


def _fill(rng, shape, spread):
    if not shape:
        return round(rng.uniform(-spread, spread), 1)
    return [_fill(rng, shape[1:], spread) for _ in range(shape[0])]


def negated(x):
    """Return −x for a nested list."""
    return [negated(item) for item in x] if isinstance(x, list) else -x


def scaled(x, factor):
    """Return factor · x for a nested list."""
    return [scaled(item, factor) for item in x] if isinstance(x, list) else factor * x


def multiply(a, b):
    """Return the product of two matrices, entry by entry."""
    return [[x * y for x, y in zip(row, line, strict=True)] for row, line in zip(a, b, strict=True)]


def require(condition, message):
    """Raise ValueError unless a condition holds."""
    if not condition:
        raise ValueError(message)


def rectangular(a):
    """Raise ValueError unless every row of a has one length."""
    require(len({len(row) for row in a}) < 2, "ragged")


# Linear algebra.


def matmul(a, b, check_a=rectangular, check_b=rectangular, check_inner=True):
    """Return the matrix product of a and b."""
    check_a(a)
    check_b(b)
    require(len(a[0]) == len(b) or not check_inner, "inner sizes differ")
    return [[sum(x * y for x, y in zip(row, column, strict=False)) for column in zip(*b, strict=False)] for row in a]


def transpose(a, check=rectangular):
    """Return the rows of a as columns."""
    check(a)
    return [list(column) for column in zip(*a, strict=False)]


def add_vectors(a, b, check=True, sign=1):
    """Return a + b."""
    require(len(a) == len(b) or not check, "lengths differ")
    return [x + sign * y for x, y in zip(a, b, strict=False)]


def add_matrices(a, b, check_rows=True, check_columns=True, sign=1):
    """Return a + b."""
    require(len(a) == len(b) or not check_rows, "rows differ")
    return [add_vectors(x, y, check_columns, sign) for x, y in zip(a, b, strict=False)]


def linear(x, w, b=None):
    """Return x w + b."""
    y = matmul(x, w)
    return y if b is None else [add_vectors(row, b) for row in y]


# Softmax and norms.


def softmax(x, top=max, exp=math.exp, norm=sum, masked_row=lambda x: [0.0] * len(x)):
    """Return the weights of a row of scores."""
    if all(s == -INF for s in x):
        return masked_row(x)
    shift = top(x)
    e = [exp(s - shift) for s in x]
    total = norm(e)
    return [v / total for v in e]


def log_softmax(x, top=max, log=math.log):
    """Return the log-weights of a row of scores."""
    shift = top(x)
    total = log(sum(math.exp(s - shift) for s in x))
    return [s - shift - total for s in x]


def entropy(p, log=math.log, sign=-1.0):
    """Return −Σ p ln p."""
    return sign * sum(w * log(w) for w in p if w > 0) + 0.0


def softmax_jacobian(p, diagonal=lambda w: w - w * w, beside=lambda a, b: -a * b):
    """Return the matrix p_i (δ_ij − p_j)."""
    return [[diagonal(a) if i == j else beside(a, b) for j, b in enumerate(p)] for i, a in enumerate(p)]


def cross_entropy(logits, target):
    """Return −log softmax(logits)[target]."""
    require(0 <= target < len(logits), "target out of range")
    return -log_softmax(logits)[target]


def mean(x):
    """Return the mean of a list."""
    return sum(x) / len(x)


def variance(x):
    """Return the (biased) variance of a list, in two passes."""
    middle = mean(x)
    return mean([(v - middle) ** 2 for v in x])


def layer_norm(x, weight, bias, eps=1e-5, centre=mean, spread=variance, root=lambda s, eps: math.sqrt(s + eps)):
    """Return (x − mean) / √(variance + eps) · weight + bias."""
    middle, divisor = centre(x), root(spread(x), eps)
    return [(v - middle) / divisor * w + b for v, w, b in zip(x, weight, bias, strict=True)]


def rms_norm(
    x,
    weight,
    eps=1e-5,
    centre=lambda x: 0.0,
    square=lambda x: mean([v * v for v in x]),
    root=lambda s, eps: math.sqrt(s + eps),
):
    """Return x / √(mean of squares + eps) · weight."""
    middle, divisor = centre(x), root(square(x), eps)
    return [(v - middle) / divisor * w for v, w in zip(x, weight, strict=True)]


# Attention.


def causal_mask(T, allowed=lambda i, j: j <= i, yes=0.0, no=-INF):
    """Return 0 where a query may attend, −inf where it may not."""
    return [[yes if allowed(i, j) else no for j in range(T)] for i in range(T)]


def attention(
    q,
    k,
    v,
    mask=None,
    scale=lambda d_k: d_k**-0.5,
    weigh=softmax,
    combine=lambda s, m: -INF if m == -INF else s + m,
    over_queries=False,
    mask_after=False,
):
    """Return softmax(q kᵀ · scale + mask) v."""
    s = scale(len(q[0]))
    scores = [[s * sum(a * b for a, b in zip(row, key, strict=True)) for key in k] for row in q]
    if mask is not None and not mask_after:
        pairs = zip(scores, mask, strict=True)
        scores = [[combine(a, m) for a, m in zip(row, line, strict=True)] for row, line in pairs]
    weights = transpose([weigh(col) for col in transpose(scores)]) if over_queries else [weigh(row) for row in scores]
    if mask is not None and mask_after:
        pairs = zip(weights, mask, strict=True)
        weights = [[0.0 if m == -INF else w for w, m in zip(row, line, strict=True)] for row, line in pairs]
    return [[sum(w * value[j] for w, value in zip(row, v, strict=True)) for j in range(len(v[0]))] for row in weights]


def split_heads(x, n_heads, check=True):
    """Return n_heads slices of the columns of x."""
    require(len(x[0]) % n_heads == 0 or not check, "not divisible")
    d = len(x[0]) // n_heads
    return [[row[h * d : (h + 1) * d] for row in x] for h in range(n_heads)]


def concat_heads(heads):
    """Return the heads side by side."""
    return [[v for part in rows for v in part] for rows in zip(*heads, strict=True)]


def multi_head(
    x,
    w_q,
    w_k,
    w_v,
    w_o,
    n_heads,
    mask=None,
    attend=attention,
    split=split_heads,
    concat=concat_heads,
    project=linear,
    out=linear,
    turn_q=lambda q: q,
    turn_k=lambda k: k,
    turn_v=lambda v: v,
):
    """Return multi-head attention; `turn_…` act on each head's queries, keys and values."""
    q, k, v = (split(project(x, w), n_heads) for w in (w_q, w_k, w_v))
    heads = zip(q, k, v, strict=True)
    return out(concat([attend(turn_q(a), turn_k(b), turn_v(c), mask) for a, b, c in heads]), w_o)


def grouped_query(
    q_heads, k_heads, v_heads, mask=None, group_of=lambda h, H, G: h // (H // G), check=True, attend=attention
):
    """Return attention of each query head over the key and value head of its group."""
    H, G = len(q_heads), len(k_heads)
    require(H % G == 0 or not check, "heads not divisible")
    groups = [group_of(h, H, G) for h in range(H)]
    return [attend(q, k_heads[g], v_heads[g], mask) for q, g in zip(q_heads, groups, strict=True)]


def cached_step(q, k, v, cache_k, cache_v, attend=attention):
    """Return one decoding step: the context, and both caches grown by one row."""
    keys, all_values = [*cache_k, k], [*cache_v, v]
    return attend([q], keys, all_values)[0], keys, all_values


# Positions.


def rotate(
    x, pos, base=10000.0, angle=lambda pos, i, d, base: pos * base ** (-2 * i / d), half_split=False, check=True
):
    """Return x with each pair of entries rotated by its angle."""
    d = len(x)
    require(d % 2 == 0 or not check, "odd")
    y = list(x)
    for i in range(d // 2):
        a, b = (i, i + d // 2) if half_split else (2 * i, 2 * i + 1)
        c, s = math.cos(angle(pos, i, d, base)), math.sin(angle(pos, i, d, base))
        y[a], y[b] = x[a] * c - x[b] * s, x[a] * s + x[b] * c
    return y


def rope(x, positions, base=10000.0, turn=rotate, check=True):
    """Return each row of x rotated to its position."""
    require(len(x) == len(positions) or not check, "positions")
    return [turn(row, pos, base) for row, pos in zip(x, positions, strict=False)]


# Feed-forward.


def gelu(x, k=(2 / math.pi) ** 0.5, c=0.044715):
    """Return the tanh form of GELU."""
    return 0.5 * x * (1 + math.tanh(k * (x + c * x**3)))


def silu(z):
    """Return z σ(z), with no overflow."""
    return z / (1 + math.exp(-z)) if z > 0 else z * math.exp(z) / (1 + math.exp(z))


def swiglu(x, w_gate, w_up, w_down, gate=silu, up=lambda v: v, join=lambda g, u: g * u, down=linear):
    """Return (gate(x w_gate) ⊙ up(x w_up)) w_down."""
    pairs = zip(linear(x, w_gate), linear(x, w_up), strict=True)
    return down([[join(gate(g), up(u)) for g, u in zip(a, b, strict=True)] for a, b in pairs], w_down)


# Block and model.


def norm_rows(x, weight):
    """Return RMSNorm of every row."""
    return [rms_norm(row, weight) for row in x]


def block_attention(x, block, mask):
    """Return multi-head attention with a block's weights."""
    return multi_head(x, *(block[name] for name in ("w_q", "w_k", "w_v", "w_o")), block["n_heads"], mask)


def block_ffn(x, block):
    """Return SwiGLU with a block's weights."""
    return swiglu(x, block["w_gate"], block["w_up"], block["w_down"])


def transformer_block(x, block, mask=None):
    """Return one pre-norm block."""
    x = add_matrices(x, block_attention(norm_rows(x, block["norm1_w"]), block, mask))
    return add_matrices(x, block_ffn(norm_rows(x, block["norm2_w"]), block))


def build_params(vocab_size, d_model, n_heads, n_layers, d_ff, seed=0, spread=0.02, norm_spread=0.0):
    """Return seeded weights; a larger spread, also of the norm weights, makes an oracle that can tell things apart."""
    rng = random.Random(seed)

    def matrix(rows, columns):
        return [[round(rng.gauss(0, spread), 4) for _ in range(columns)] for _ in range(rows)]

    def norm():
        return [round(1 + rng.gauss(0, norm_spread), 4) for _ in range(d_model)]

    def block():
        return {
            "n_heads": n_heads,
            "norm1_w": norm(),
            **{name: matrix(d_model, d_model) for name in ("w_q", "w_k", "w_v", "w_o")},
            "norm2_w": norm(),
            "w_gate": matrix(d_model, d_ff),
            "w_up": matrix(d_model, d_ff),
            "w_down": matrix(d_ff, d_model),
        }

    return {
        "embed": matrix(vocab_size, d_model),
        "blocks": [block() for _ in range(n_layers)],
        "final_norm_w": norm(),
        "lm_head": matrix(d_model, vocab_size),
    }


def gpt_forward(
    token_ids,
    params,
    check=True,
    embed=lambda params, token: params["embed"][token],
    position=lambda x: rope(x, range(len(x))),
    mask=causal_mask,
    blocks=lambda params: params["blocks"],
    block=transformer_block,
    final_norm=norm_rows,
    head=lambda x, params: linear(x, params["lm_head"]),
):
    """Return the logits of every position."""
    require(len(token_ids) > 0 or not check, "empty")
    require(all(0 <= token < len(params["embed"]) for token in token_ids) or not check, "token id")
    x = position([embed(params, token) for token in token_ids])
    for weights in blocks(params):
        x = block(x, weights, mask(len(x)))
    return head(final_norm(x, params["final_norm_w"]), params)


# Extensions.


def online_softmax_step(m, total, out, scores, rows, rescale_total=True, rescale_out=True, top=max, power=1):
    """Return the running maximum, normaliser and (unnormalised) output after one more tile of scores and values."""
    new = top(m, max(scores))
    if new == -INF:
        return m, total, out
    shrink = math.exp(m - new) ** power
    e = [math.exp(s - new) for s in scores]
    total = total * (shrink if rescale_total else 1) + sum(e)
    tile = [sum(w * row[j] for w, row in zip(e, rows, strict=True)) for j in range(len(out))]
    return new, total, [old * (shrink if rescale_out else 1) + v for old, v in zip(out, tile, strict=True)]


def tiled_attention(
    q,
    load,
    n_keys,
    tile_size,
    step=online_softmax_step,
    finish=lambda out, total: [v / total for v in out],
    scale=lambda d: d**-0.5,
    end=lambda n_keys, tile_size: n_keys,
    until=min,
):
    """Return attention over keys and values that are loaded a tile at a time."""
    result = []
    for row in q:
        m, total, out = -INF, 0.0, None
        for start in range(0, end(n_keys, tile_size), tile_size):
            keys, rows = load(start, until(start + tile_size, n_keys))
            scores = [scale(len(row)) * sum(a * b for a, b in zip(row, key, strict=True)) for key in keys]
            m, total, out = step(m, total, out or [0.0] * len(rows[0]), scores, rows)
        result.append(finish(out, total))
    return result


def next_token(logits, temperature, u, weigh=softmax):
    """Return the most likely token (temperature 0), or the one at which the cumulative weight passes u."""
    if temperature == 0:
        return max(range(len(logits)), key=logits.__getitem__)
    total = 0.0
    for token, weight in enumerate(weigh([s / temperature for s in logits])):
        total += weight
        if u < total:
            return token
    return max(token for token, s in enumerate(logits) if s > -INF)


def generate(params, prompt, n_new, temperature=0.0, seed=0, logits_of=lambda rows: rows[-1], context=lambda ids: ids):
    """Return the prompt and n_new tokens after it."""
    rng, ids = random.Random(seed), list(prompt)
    for _ in range(n_new):
        u = rng.random() if temperature else 0.0
        ids.append(next_token(logits_of(gpt_forward(context(ids), params)), temperature, u))
    return ids


def embed(token_ids, table, check=True):
    """Return the rows of a table."""
    require(all(0 <= token < len(table) for token in token_ids) or not check, "token id")
    return [list(table[token]) for token in token_ids]


def add_positions(x, table, start=0, check=True):
    """Return x plus the rows of a table from `start` on."""
    require(start + len(x) <= len(table) or not check, "past the table")
    return [add_vectors(row, table[start + t]) for t, row in enumerate(x)]


def tied_logits(x, embed):
    """Return the dot product of every row of x with every row of embed."""
    return matmul(x, transpose(embed))
