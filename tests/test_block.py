import dataclasses
import math

import numpy as np
import pytest

from labkit.block import (
    AttentionParams,
    BlockCapture,
    BlockConfig,
    NormParams,
    assemble_block,
    attention_sublayer,
    block_shapes,
    ffn_sublayer,
    normalise,
    rotate_heads,
    transformer_block,
)
from labkit.kv_cache import KVCache
from labkit.mask import causal_mask, leaks, sliding_window_mask
from labkit.rope import RopeScaling

T, D = 5, 10  # no size equals another: T, d_model, d_head = 6, d_ff = 14, H = 4, G = 2
SIZES = {"d_model": D, "n_heads": 4, "n_kv_heads": 2, "d_head": 6, "d_ff": 14, "base": 50.0}
CONFIGS = {
    "llama": SIZES,
    "gpt2": SIZES
    | {
        "n_kv_heads": 4,
        "norm": "layer",
        "ffn": "gelu",
        "positions": "learned",
        "attention_bias": True,
        "output_bias": True,
        "ffn_bias": True,
    },
    "gpt2, exact GELU, no biases": SIZES | {"norm": "layer", "ffn": "gelu", "gelu": "none", "positions": "none"},
    "post-norm, RMSNorm": SIZES | {"norm_place": "post"},
    "post-norm, LayerNorm, GELU": SIZES | {"norm_place": "post", "norm": "layer", "ffn": "gelu", "ffn_bias": True},
    "multi-query": SIZES | {"n_kv_heads": 1},
    "multi-head": SIZES | {"n_kv_heads": 4},
    "q/k norm": SIZES | {"qk_norm": True},
    "q/k/v bias": SIZES | {"attention_bias": True},
    "output bias": SIZES | {"output_bias": True},
    "interleaved": SIZES | {"rope_pairing": "interleaved"},
    "linear scaling": SIZES | {"rope_scaling": {"kind": "linear", "factor": 3.0}},
    "large eps": SIZES | {"eps": 0.5},
}


def make(name="llama", **changes):
    return BlockConfig(**(CONFIGS[name] | changes))


def draw_params(config, seed=0, dtype=np.float64):
    """Draw weights none of which is at its default."""
    rng = np.random.default_rng(seed)
    shapes = block_shapes(config)
    return assemble_block({k: rng.normal(len(shape) == 1, 0.4, shape).astype(dtype) for k, shape in shapes.items()})


def draw(*shape, seed=1):
    return np.random.default_rng(seed).normal(0, 1.3, shape)


# A block in plain Python: lists, loops and math, one number at a time.


def dot(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True))


def naive_linear(x, w, b):
    columns = list(zip(*w.tolist(), strict=True))
    bias = [0.0] * len(columns) if b is None else b.tolist()
    return [dot(x, column) + bias[j] for j, column in enumerate(columns)]


def naive_norm(x, params, config, kind=None):
    if (kind or config.norm) == "layer":
        mean = sum(x) / len(x)
        x = [value - mean for value in x]
    root = math.sqrt(dot(x, x) / len(x) + config.eps)
    bias = [0.0] * len(x) if params.bias is None else params.bias
    return [float(value / root * w + b) for value, w, b in zip(x, params.weight, bias, strict=True)]


def naive_rotate(x, position, config):
    half, out = len(x) // 2, list(x)
    for i in range(half):
        first, second = (i, i + half) if config.rope_pairing == "half" else (2 * i, 2 * i + 1)
        angle = position * config.base ** (-2 * i / len(x))
        angle /= config.rope_scaling.factor if config.rope_scaling else 1
        out[first] = x[first] * math.cos(angle) - x[second] * math.sin(angle)
        out[second] = x[first] * math.sin(angle) + x[second] * math.cos(angle)
    return out


def naive_ffn(x, params, config):
    up = naive_linear(x, params.w_up, params.b_up)
    if config.ffn == "swiglu":
        gate = naive_linear(x, params.w_gate, None)
        hidden = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up, strict=True)]
    elif config.gelu == "none":
        hidden = [u * (1 + math.erf(u / math.sqrt(2))) / 2 for u in up]
    else:
        hidden = [u * (1 + math.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3))) / 2 for u in up]
    return naive_linear(hidden, params.w_down, params.b_down)


def naive_attention(rows, p, config, allowed, positions):
    def heads(row, w, b, n_heads, norm, position):
        flat = naive_linear(row, w, b)
        pieces = [flat[h * config.d_head : (h + 1) * config.d_head] for h in range(n_heads)]
        if norm is not None and config.qk_norm:
            pieces = [naive_norm(piece, NormParams(norm), config, kind="rms") for piece in pieces]
        if position is not None and config.positions == "rope":
            pieces = [naive_rotate(piece, position, config) for piece in pieces]
        return pieces

    q = [heads(r, p.w_q, p.b_q, config.n_heads, p.q_norm, t) for r, t in zip(rows, positions, strict=True)]
    k = [heads(r, p.w_k, p.b_k, config.n_kv_heads, p.k_norm, t) for r, t in zip(rows, positions, strict=True)]
    v = [heads(row, p.w_v, p.b_v, config.n_kv_heads, None, None) for row in rows]
    out, all_weights = [], np.zeros((config.n_heads, len(rows), len(rows)))
    for t in range(len(rows)):
        joined = []
        for h in range(config.n_heads):
            g = h * config.n_kv_heads // config.n_heads
            seen = [s for s in range(len(rows)) if allowed[t][s]]
            scores = [math.exp(dot(q[t][h], k[s][g]) / math.sqrt(config.d_head)) for s in seen]
            for s, score in zip(seen, scores, strict=True):
                all_weights[h, t, s] = score / sum(scores)
            joined += [sum(all_weights[h, t, s] * v[s][g][i] for s in seen) for i in range(config.d_head)]
        out.append(naive_linear(joined, p.w_o, p.b_o))
    return out, all_weights


def naive_block(x, params, config, allowed, positions):
    add = lambda a, b: [p + q for p, q in zip(a, b, strict=True)]  # noqa: E731
    rows = x.tolist()
    read = [naive_norm(row, params.attention_norm, config) for row in rows] if config.norm_place == "pre" else rows
    update, weights = naive_attention(read, params.attention, config, allowed, positions)
    rows = [add(row, new) for row, new in zip(rows, update, strict=True)]
    if config.norm_place == "post":
        rows = [naive_norm(row, params.attention_norm, config) for row in rows]
    middle = rows
    read = [naive_norm(row, params.ffn_norm, config) for row in rows] if config.norm_place == "pre" else rows
    rows = [add(row, naive_ffn(new, params.ffn, config)) for row, new in zip(rows, read, strict=True)]
    if config.norm_place == "post":
        rows = [naive_norm(row, params.ffn_norm, config) for row in rows]
    return np.array(middle), np.array(rows), weights


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("window", [None, 2])
def test_block_equals_a_block_in_loops(name, window):
    config = make(name, window=window)
    params, x, positions = draw_params(config), draw(T, D), np.array([3, 4, 5, 6, 7])
    mask = causal_mask(T) if window is None else sliding_window_mask(T, window)
    out, capture = transformer_block(x, params, config, positions, mask, capture=True)
    middle, rows, weights = naive_block(x, params, config, mask, positions.tolist())
    np.testing.assert_allclose(out, rows, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(capture.after_attention, middle, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(capture.after_ffn, out)
    np.testing.assert_allclose(capture.weights, weights, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_weight_and_every_choice_matters(name):
    config = make(name)
    rng, shapes = np.random.default_rng(0), block_shapes(config)
    tensors = {key: rng.normal(len(shape) == 1, 0.4, shape) for key, shape in shapes.items()}
    x, mask = draw(T, D), causal_mask(T)
    out = transformer_block(x, assemble_block(tensors), config, mask=mask)
    for key, array in tensors.items():
        changed = assemble_block(tensors | {key: array + rng.normal(0, 0.1, array.shape)})
        moved = np.abs(transformer_block(x, changed, config, mask=mask) - out).max()
        if key == "attention.b_k" and config.positions != "rope":
            assert moved < 1e-12  # adds q·b to every score of a row, which softmax cancels
        else:
            assert moved > 1e-4, key
    assert np.abs(transformer_block(x, assemble_block(tensors), config) - out).max() > 1e-3  # without the mask
    others = {"norm_place": {"pre": "post", "post": "pre"}[config.norm_place], "eps": config.eps * 100}
    for field, value in others.items():
        other = dataclasses.replace(config, **{field: value})
        assert np.abs(transformer_block(x, assemble_block(tensors), other, mask=mask) - out).max() > 1e-5, field


def test_pre_norm_adds_to_an_untouched_stream():
    config = make()
    params = draw_params(config)
    silent = dataclasses.replace(
        params,
        attention=dataclasses.replace(params.attention, w_o=np.zeros((24, D))),
        ffn=dataclasses.replace(params.ffn, w_down=np.zeros((14, D))),
    )
    x = draw(T, D) * 100
    np.testing.assert_array_equal(transformer_block(x, silent, config), x)
    post = transformer_block(x, silent, dataclasses.replace(config, norm_place="post"))
    assert np.abs(post).max() < 10 < np.abs(x).max()  # post-norm rescales the stream itself


def test_attention_by_hand():
    """With W_q = 0 all scores are equal, so each row gets the mean of the values that it sees."""
    config = BlockConfig(d_model=2, n_heads=1, d_ff=3, positions="none")
    zero, turn = np.zeros((2, 2)), np.array([[0.0, 1.0], [-1.0, 0.0]])
    params = AttentionParams(w_q=zero, w_k=np.ones((2, 2)), w_v=np.array([[2.0, 0.0], [0.0, 3.0]]), w_o=turn)
    x = np.array([[1.0, 1.0], [3.0, -1.0]])
    out, weights = attention_sublayer(x, params, config, mask=causal_mask(2), return_weights=True)
    np.testing.assert_allclose(out, [[-3.0, 2.0], [0.0, 4.0]])  # means [2, 3] and [4, 0], then (a, b) → (−b, a)
    np.testing.assert_allclose(weights, [[[1.0, 0.0], [0.5, 0.5]]])


def test_rope_block_depends_on_offsets_only():
    config = make()
    params, x, mask = draw_params(config), draw(T, D), causal_mask(T)
    out = transformer_block(x, params, config, np.arange(T), mask)
    np.testing.assert_allclose(transformer_block(x, params, config, np.arange(T) + 1000, mask), out, atol=1e-10)
    gaps = transformer_block(x, params, config, np.arange(T) * 2, mask)
    assert np.abs(gaps - out).max() > 1e-3
    np.testing.assert_array_equal(transformer_block(x, params, config, mask=mask), out)  # positions count from 0


def test_without_positions_and_mask_a_block_cannot_tell_order():
    config = make(positions="none")
    params, x, order = draw_params(config), draw(T, D), np.array([3, 0, 4, 1, 2])
    out = transformer_block(x, params, config)
    np.testing.assert_allclose(transformer_block(x[order], params, config), out[order], atol=1e-12)
    rope = transformer_block(x[order], draw_params(make()), make())
    assert np.abs(rope - transformer_block(x, draw_params(make()), make())[order]).max() > 1e-3


def test_no_leak_under_the_mask_and_leaks_without():
    config = make()
    params, x = draw_params(config), draw(T, D)
    assert not leaks(lambda rows: transformer_block(rows, params, config, mask=causal_mask(T)), x).any()
    found = leaks(lambda rows: transformer_block(rows, params, config), x)
    np.testing.assert_array_equal(found, ~np.tri(T, dtype=bool))


@pytest.mark.parametrize("name", CONFIGS)
def test_leading_axes_are_a_loop(name):
    config = make(name)
    params, x, mask = draw_params(config), draw(2, 3, T, D), causal_mask(T)
    out, capture = transformer_block(x, params, config, mask=mask, capture=True)
    assert out.shape == (2, 3, T, D)
    assert capture.weights.shape == (2, 3, 4, T, T)
    for index in np.ndindex(2, 3):
        alone = transformer_block(x[index], params, config, mask=mask)
        np.testing.assert_allclose(out[index], alone, rtol=1e-12, atol=1e-12)


def test_a_mask_and_positions_for_each_sequence():
    config = make()
    params, x = draw_params(config), draw(2, T, D)
    masks = np.stack([causal_mask(T), sliding_window_mask(T, 2)])
    positions = np.array([[0, 1, 2, 3, 4], [7, 9, 11, 12, 30]])
    out = transformer_block(x, params, config, positions, masks[:, None])
    for i in range(2):
        alone = transformer_block(x[i], params, config, positions[i], masks[i])
        np.testing.assert_allclose(out[i], alone, rtol=1e-12, atol=1e-12)


def test_a_mask_for_each_head_and_a_float_mask():
    config = make()
    params, x = draw_params(config), draw(T, D)
    masks = np.stack([causal_mask(T), sliding_window_mask(T, 1), sliding_window_mask(T, 2), np.ones((T, T), bool)])
    out, weights = attention_sublayer(x, params.attention, config, mask=masks, return_weights=True)
    np.testing.assert_array_equal(weights > 0, masks)
    added = attention_sublayer(x, params.attention, config, mask=np.where(masks, 0.0, -np.inf))
    np.testing.assert_array_equal(added, out)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", CONFIGS)
def test_dtype_in_is_dtype_out(name, dtype):
    config = make(name)
    params, x = draw_params(config, dtype=dtype), draw(T, D).astype(dtype)
    out, capture = transformer_block(x, params, config, mask=causal_mask(T), capture=True)
    assert {out.dtype, capture.after_attention.dtype, capture.weights.dtype} == {np.dtype(dtype)}
    exact = transformer_block(x.astype(float), draw_params(config), config, mask=causal_mask(T))
    tolerance = {"float16": 3e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(out, exact, atol=tolerance * np.abs(exact).max())


@pytest.mark.parametrize("name", CONFIGS)
def test_inputs_stay_as_they_were(name):
    config = make(name)
    rng, shapes = np.random.default_rng(0), block_shapes(config)
    tensors = {key: rng.normal(len(shape) == 1, 0.4, shape) for key, shape in shapes.items()}
    x, mask, positions = draw(T, D), causal_mask(T), np.arange(T)
    for array in (*tensors.values(), x, mask, positions):
        array.flags.writeable = False
    before = {key: array.copy() for key, array in tensors.items()}
    out, capture = transformer_block(x, assemble_block(tensors), config, positions, mask, capture=True)
    for key, array in before.items():
        np.testing.assert_array_equal(tensors[key], array)
    assert not np.shares_memory(out, x)
    assert not np.shares_memory(capture.after_attention, x)


def test_cached_block_equals_full_block():
    config = make()
    params, x = draw_params(config), draw(2, T, D)
    full = transformer_block(x, params, config, mask=causal_mask(T))
    cache = KVCache(1, batch=2, n_kv_heads=2, max_len=T, d_head=6, dtype=np.float64)
    pieces = []
    for piece in np.split(x, [2, 3], axis=1):
        size = piece.shape[1]
        pieces.append(transformer_block(piece, params, config, cache.positions(size), cache.mask(size), cache))
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), full, rtol=1e-12, atol=1e-12)


def test_yarn_scales_queries_and_keys():
    plain = make()
    kept = RopeScaling("yarn", factor=1.0, original_max_len=64, attention_factor=1.5)
    x = draw(3, 4, T, 6)
    expected = 1.5 * rotate_heads(x, np.arange(T), plain)
    scaled = rotate_heads(x, np.arange(T), dataclasses.replace(plain, rope_scaling=kept))
    np.testing.assert_allclose(scaled, expected, rtol=1e-12)
    _, flat = attention_sublayer(x[0, 0] @ np.ones((6, D)), draw_params(plain).attention, plain, return_weights=True)
    assert flat.shape == (4, T, T)


def test_dynamic_scaling_follows_the_largest_position():
    config = make(rope_scaling={"kind": "dynamic", "factor": 4.0, "original_max_len": 8})
    x = draw(2, T, 6)
    np.testing.assert_array_equal(rotate_heads(x, np.arange(T), config), rotate_heads(x, np.arange(T), make()))
    far = rotate_heads(x, np.arange(T) + 20, config)
    assert np.abs(far - rotate_heads(x, np.arange(T) + 20, make())).max() > 1e-2


@pytest.mark.parametrize("ffn", ["swiglu", "gelu"])
def test_ffn_sublayer_is_blind_to_other_positions(ffn):
    config = make(ffn=ffn)
    params, x = draw_params(config).ffn, draw(T, D)
    out = ffn_sublayer(x, params, config)
    for t in range(T):
        np.testing.assert_allclose(ffn_sublayer(x[t : t + 1], params, config)[0], out[t], rtol=1e-12, atol=1e-13)


def test_normalise_uses_the_configs_norm_and_eps():
    x = np.array([[1e-3, -1e-3]])
    rms = BlockConfig(d_model=2, n_heads=1, d_ff=3)
    np.testing.assert_allclose(normalise(x, NormParams(np.ones(2)), rms), [[0.301511, -0.301511]], rtol=2e-6)
    wide = dataclasses.replace(rms, eps=1e-6 * 3)
    np.testing.assert_allclose(normalise(x, NormParams(np.ones(2)), wide), [[0.5, -0.5]])
    layer = dataclasses.replace(rms, norm="layer")
    out = normalise(np.array([[2.0, 6.0]]), NormParams(np.array([1.0, 2.0]), np.array([5.0, 0.0])), layer)
    np.testing.assert_allclose(out, [[4.0, 2.0]], atol=1e-5)
    np.testing.assert_allclose(
        normalise(np.array([[2.0, 6.0]]), NormParams(np.ones(2)), layer), [[-1.0, 1.0]], atol=1e-5
    )


def test_block_shapes_by_hand():
    assert block_shapes(make("llama")) == {
        "attention_norm.weight": (10,),
        "ffn_norm.weight": (10,),
        "attention.w_q": (10, 24),
        "attention.w_k": (10, 12),
        "attention.w_v": (10, 12),
        "attention.w_o": (24, 10),
        "ffn.w_up": (10, 14),
        "ffn.w_down": (14, 10),
        "ffn.w_gate": (10, 14),
    }
    assert block_shapes(make("gpt2")) == {
        "attention_norm.weight": (10,),
        "attention_norm.bias": (10,),
        "ffn_norm.weight": (10,),
        "ffn_norm.bias": (10,),
        "attention.w_q": (10, 24),
        "attention.w_k": (10, 24),
        "attention.w_v": (10, 24),
        "attention.w_o": (24, 10),
        "attention.b_q": (24,),
        "attention.b_k": (24,),
        "attention.b_v": (24,),
        "attention.b_o": (10,),
        "ffn.w_up": (10, 14),
        "ffn.w_down": (14, 10),
        "ffn.b_up": (14,),
        "ffn.b_down": (10,),
    }
    extra = block_shapes(make("q/k norm")).items() - block_shapes(make("llama")).items()
    assert extra == {("attention.q_norm", (6,)), ("attention.k_norm", (6,))}


def test_config_fills_in_what_is_left_out():
    config = BlockConfig(d_model=12, n_heads=3, d_ff=32)
    assert (config.n_kv_heads, config.d_head) == (3, 4)
    assert BlockConfig(d_model=10, n_heads=3, d_head=2, d_ff=32).d_head == 2  # d_model need not split
    assert config == BlockConfig(d_model=12, n_heads=3, d_ff=32, n_kv_heads=3, d_head=4)
    assert hash(config) == hash(dataclasses.replace(config))
    scaled = make(rope_scaling={"kind": "linear", "factor": 2.0})
    assert scaled.rope_scaling == RopeScaling("linear", 2.0)
    assert make(positions="none", d_head=5).d_head == 5  # only RoPE needs pairs


BAD_CONFIGS = [
    ({"d_model": 0}, "d_model must be an integer of at least 1, got 0"),
    ({"d_model": 10.0}, "d_model must be an integer"),
    ({"d_model": True}, "d_model must be an integer"),
    ({"n_heads": -4}, "n_heads must be an integer of at least 1, got -4"),
    ({"d_ff": "14"}, "d_ff must be an integer"),
    ({"d_head": 0}, "d_head must be an integer of at least 1, got 0"),
    ({"d_head": None}, "d_model must be divisible by n_heads, got d_model = 10 and n_heads = 4"),
    ({"n_kv_heads": 3}, "n_heads must be divisible by n_kv_heads, got n_heads = 4 and n_kv_heads = 3"),
    ({"n_kv_heads": 8}, "n_heads must be divisible by n_kv_heads"),
    ({"n_kv_heads": 0}, "n_kv_heads must be an integer of at least 1, got 0"),
    ({"d_head": 5}, "d_head must be even"),
    ({"norm": "batch"}, "norm must be one of 'rms', 'layer', got 'batch'"),
    ({"norm_place": "sandwich"}, "norm_place must be one of 'pre', 'post'"),
    ({"ffn": "relu"}, "ffn must be one of 'swiglu', 'gelu'"),
    ({"gelu": "erf"}, "gelu must be one of 'tanh', 'none'"),
    ({"positions": "alibi"}, "positions must be one of 'rope', 'learned', 'none'"),
    ({"rope_pairing": "full"}, "rope_pairing must be one of 'half', 'interleaved'"),
    ({"attention_bias": 1}, "attention_bias must be one of True, False, got 1"),
    ({"output_bias": None}, "output_bias must be one of True, False"),
    ({"ffn_bias": "no", "ffn": "gelu"}, "ffn_bias must be one of True, False"),
    ({"qk_norm": 0.0}, "qk_norm must be one of True, False"),
    ({"window": 0}, "window must be an integer of at least 1, got 0"),
    ({"window": 2.5}, "window must be an integer"),
    ({"eps": -1e-5}, "eps must be a finite number of at least 0"),
    ({"eps": float("nan")}, "eps must be a finite number"),
    ({"base": 0.0}, "base must be a finite number above 0"),
    ({"base": float("inf")}, "base must be a finite number"),
    ({"base": 1.0}, "base must be a finite number above 1"),
    ({"rope_scaling": {"kind": "magic", "factor": 2.0}}, "magic"),
    ({"rope_scaling": "linear"}, "scaling"),
    ({"rope_scaling": {"kind": "linear", "factor": 2.0}, "positions": "none"}, 'rope_scaling needs positions="rope"'),
    ({"ffn_bias": True}, 'ffn_bias needs ffn="gelu"'),
]


@pytest.mark.parametrize(("change", "message"), BAD_CONFIGS)
def test_bad_configs(change, message):
    with pytest.raises(ValueError, match=message):
        BlockConfig(**(SIZES | change))


def parts(**changes):
    config = make()
    params = draw_params(config)
    attention = dataclasses.replace(params.attention, **changes)
    return config, dataclasses.replace(params, attention=attention)


def run(x=None, positions=None, mask=None, cache=None, layer=0, **changes):
    config, params = parts(**changes)
    return transformer_block(draw(T, D) if x is None else x, params, config, positions, mask, cache, layer)


def ffn(**changes):
    config = make()
    return ffn_sublayer(draw(T, D), dataclasses.replace(draw_params(config).ffn, **changes), config)


def cache(**changes):
    sizes = {"n_layers": 1, "batch": 1, "n_kv_heads": 2, "max_len": 4, "d_head": 6, "dtype": np.float64}
    return KVCache(**(sizes | changes))


BAD_CALLS = [
    (lambda: run(x=draw(D)), r"x \[..., T, 10\] needs at least 2 axes, got shape \(10,\)"),
    (lambda: run(x=draw(T, D + 1)), r"axis 10 is 11, expected 10"),
    (lambda: run(x=draw(0, D)), "axis T is empty"),
    (lambda: run(x=draw(T, D).astype(str)), "x .* must hold real numbers"),
    (lambda: run(x=draw(T, D) + 1j), "x .* must hold real numbers"),
    (lambda: run(positions=np.arange(T - 1)), "positions has shape"),
    (lambda: run(positions=np.arange(T) - 1), "positions must be at least 0"),
    (lambda: run(positions=np.arange(T) / 2), "positions must hold integers"),
    (lambda: run(positions=np.zeros((0,), int)), "positions .* is empty"),
    (lambda: run(positions=np.array(3)), "positions .* needs at least 1 axes"),
    (lambda: run(mask=np.ones((T, T), int)), "mask must be Boolean"),
    (lambda: run(mask=causal_mask(T, T + 1)), "mask has shape"),
    (lambda: run(mask=np.ones((3, T, T), bool)), "mask has shape"),
    (lambda: run(w_q=np.ones((D, 12))), r"attention.w_q: expected shape \(10, 24\), got shape \(10, 12\)"),
    (lambda: run(w_k=np.ones((D, 24))), r"attention.w_k: expected shape \(10, 12\), got shape \(10, 24\)"),
    (lambda: run(w_v=None), r"attention.w_v: expected shape \(10, 12\), got no such weight"),
    (lambda: run(w_o=np.ones((D, 24))), r"attention.w_o: expected shape \(24, 10\), got shape \(10, 24\)"),
    (lambda: run(b_q=np.ones(24)), r"attention.b_q: expected no such weight, got shape \(24,\)"),
    (lambda: run(q_norm=np.ones(6)), r"attention.q_norm: expected no such weight, got shape \(6,\)"),
    (lambda: run(cache=cache()), r"k .* needs exactly 4 axes"),
    (lambda: run(x=draw(1, T, D), cache=cache()), "overflow"),
    (lambda: run(x=draw(1, 2, D), cache=cache(n_kv_heads=4)), "k .* axis 4 is 2, expected 4"),
    (lambda: run(x=draw(1, 2, D), cache=cache(), layer=1), "layer must be an integer of at least 0 and at most 0"),
    (lambda: run(x=draw(1, 2, D), cache=cache(dtype=np.float32)), "k must have the cache's dtype float32"),
    (lambda: assemble_block({"attention_norm.weight": np.ones(2), "attention.w_q": np.ones((2, 2))}), "w_k"),
    (lambda: assemble_block({"ffn.w_sideways": np.ones(2)}), "tensors do not make a block"),
    (lambda: assemble_block({"mlp.w_up": np.ones(2)}), "tensors has 'mlp.w_up', which is not the name"),
    (lambda: normalise(draw(T, D), NormParams(np.ones(D - 1)), make()), "weight"),
    (lambda: ffn(w_down=np.ones((13, D))), r"ffn.w_down: expected shape \(14, 10\), got shape \(13, 10\)"),
    (lambda: ffn(w_gate=None), r"ffn.w_gate: expected shape \(10, 14\), got no such weight"),
    (lambda: ffn(b_up=np.ones(14)), r"ffn.b_up: expected no such weight"),
    (lambda: ffn_sublayer(draw(T, 3), draw_params(make()).ffn, make()), "axis 10 is 3"),
    (lambda: rotate_heads(draw(2, T, 5), np.arange(T), make()), "d_head"),
]


@pytest.mark.parametrize(("call", "message"), BAD_CALLS)
def test_bad_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_capture_is_what_it_says():
    config = make()
    params, x = draw_params(config), draw(T, D)
    out, capture = transformer_block(x, params, config, mask=causal_mask(T), capture=True)
    assert isinstance(capture, BlockCapture)
    np.testing.assert_array_equal(transformer_block(x, params, config, mask=causal_mask(T)), out)
    np.testing.assert_allclose(capture.weights.sum(axis=-1), 1, rtol=1e-12)
    read = normalise(x, params.attention_norm, config)
    update = attention_sublayer(read, params.attention, config, mask=causal_mask(T))
    np.testing.assert_allclose(capture.after_attention - x, update, atol=1e-12)
