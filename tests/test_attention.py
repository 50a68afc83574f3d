import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.attention import linear, masked, project_qkv, scaled_dot_product_attention

INF, NAN = np.inf, np.nan
check = settings(max_examples=40, deadline=None, derandomize=True)


def data(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def naive_attention(q, k, v, may_attend=None, added=None, scale=None):
    """One query, one key, one number at a time, as the formula says."""
    scale = 1 / math.sqrt(len(q[0])) if scale is None else scale
    out, weights = [], []
    for i, query in enumerate(q):
        scores = [sum(a * b for a, b in zip(query, key, strict=True)) * scale for key in k]
        if added is not None:
            scores = [score + added[i][j] for j, score in enumerate(scores)]
        seen = [j for j in range(len(k)) if (may_attend is None or may_attend[i][j]) and scores[j] > -INF]
        top = max((scores[j] for j in seen), default=0)
        shares = [math.exp(scores[j] - top) if j in seen else 0.0 for j in range(len(k))]
        total = sum(shares) or 1.0
        weights.append([share / total for share in shares])
        out.append([sum(weights[-1][j] * v[j][c] for j in seen) for c in range(len(v[0]))])
    return np.array(out), np.array(weights)


# --- linear -------------------------------------------------------------------------------------------------------


def test_linear_closed_form():
    w = np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]])
    assert linear(np.array([1.0, 0.0]), w).tolist() == [1, 2, 5]
    assert linear(np.array([[0.0, 1.0], [2.0, -1.0]]), w, np.array([0.5, 0, -1])).tolist() == [
        [3.5, 4, 5],
        [-0.5, 0, 3],
    ]
    assert linear([1, 0], [[1, 2], [3, 4]]).tolist() == [1, 2]


def test_linear_is_linear():
    x, y, w, b = data(3, 4), data(3, 4, seed=1), data(4, 5), data(5)
    np.testing.assert_allclose(linear(2 * x - 3 * y, w), 2 * linear(x, w) - 3 * linear(y, w), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(linear(x, w, b) - linear(x, w), np.tile(b, (3, 1)), rtol=1e-12)


def test_linear_adds_up_in_float32_when_given_halves():
    x, w = np.ones((1, 4096), dtype=np.float16), np.ones((4096, 1), dtype=np.float16)
    x[0, 0] = 2048  # in float16, 2048 + 1 is 2048
    assert linear(x, w).tolist() == [[6144.0]]


# --- project_qkv --------------------------------------------------------------------------------------------------


def test_projections_are_three_maps_of_one_input():
    x, w_q, w_k, w_v = data(2, 3, 5), data(5, 4), data(5, 4, seed=1), data(5, 6)
    b_q, b_k, b_v = data(4), data(4, seed=1), data(6)
    for got, w, b in zip(
        project_qkv(x, w_q, w_k, w_v, b_q=b_q, b_k=b_k, b_v=b_v), (w_q, w_k, w_v), (b_q, b_k, b_v), strict=True
    ):
        np.testing.assert_allclose(got, np.einsum("btd,de->bte", x, w) + b, rtol=1e-12)
    for got, w in zip(project_qkv(x, w_q, w_k, w_v), (w_q, w_k, w_v), strict=True):
        np.testing.assert_allclose(got, np.einsum("btd,de->bte", x, w), rtol=1e-12)


def test_cross_attention_takes_keys_and_values_from_the_context():
    x, context = data(2, 3, 5), data(2, 7, 4)
    w_q, w_k, w_v = data(5, 6), data(4, 6), data(4, 2)
    q, k, v = project_qkv(x, w_q, w_k, w_v, context=context)
    np.testing.assert_allclose(q, x @ w_q, rtol=1e-12)
    np.testing.assert_allclose(k, context @ w_k, rtol=1e-12)
    np.testing.assert_allclose(v, context @ w_v, rtol=1e-12)
    assert scaled_dot_product_attention(q, k, v).shape == (2, 3, 2)
    again = project_qkv(x, w_q, data(5, 6), data(5, 2), context=x)
    for one, other in zip(again, project_qkv(x, w_q, data(5, 6), data(5, 2)), strict=True):
        assert np.array_equal(one, other)


def test_grouped_projections_may_be_narrower_than_the_queries():
    q, k, v = project_qkv(data(3, 8), data(8, 8), data(8, 2), data(8, 2, seed=1))
    assert (q.shape, k.shape, v.shape) == ((3, 8), (3, 2), (3, 2))


# --- scaled_dot_product_attention ---------------------------------------------------------------------------------


def test_attention_closed_form():
    # scores ln 1, ln 2, ln 5 after the scale 1/√4 = 1/2, so the weights are 1/8, 2/8, 5/8
    q = np.array([[2.0, 0, 0, 0]])
    k = np.zeros((3, 4))
    k[:, 0] = np.log([1, 2, 5])
    v = np.array([[8.0, 0.0], [0.0, 8.0], [16.0, -8.0]])
    out, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    assert weights == pytest.approx(np.array([[1 / 8, 2 / 8, 5 / 8]]), rel=1e-14)
    assert out == pytest.approx(np.array([[11.0, -3.0]]), rel=1e-14)


@pytest.mark.parametrize("scale", [None, 0.3, 1, -2.0, 0])
@pytest.mark.parametrize("kind", ["none", "bool", "float"])
def test_attention_agrees_with_a_loop(scale, kind):
    q, k, v = data(4, 3), data(6, 3), data(6, 2)
    may_attend = data(4, 6, seed=2) > 0
    may_attend[1] = False
    added = np.where(may_attend, data(4, 6, seed=3), -INF)
    chosen = {"none": {}, "bool": {"may_attend": may_attend}, "float": {"added": added}}[kind]
    mask = next(iter(chosen.values()), None)
    out, weights = scaled_dot_product_attention(q, k, v, mask=mask, scale=scale, return_weights=True)
    naive_out, naive_weights = naive_attention(q, k, v, scale=scale, **chosen)
    np.testing.assert_allclose(weights, naive_weights, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(out, naive_out, rtol=1e-12, atol=1e-14)
    if kind != "none":
        assert not weights[~may_attend].any()
        assert not out[1].any()


@check
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(0, 9))
def test_attention_averages_the_values(T, S, d_k, d_v, seed):
    q, k, v = data(T, d_k, seed=seed), data(S, d_k, seed=seed + 1), data(S, d_v, seed=seed + 2)
    out, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    assert out.shape == (T, d_v)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-12)
    assert np.all(out <= v.max(axis=0) + 1e-12)
    assert np.all(out >= v.min(axis=0) - 1e-12)


def test_attention_does_not_see_the_order_of_the_keys():
    q, k, v, order = data(3, 4), data(5, 4), data(5, 2), [3, 0, 4, 2, 1]
    np.testing.assert_allclose(
        scaled_dot_product_attention(q, k[order], v[order]), scaled_dot_product_attention(q, k, v), rtol=1e-12
    )


def test_masking_a_key_is_leaving_it_out():
    q, k, v = data(3, 4), data(5, 4), data(5, 2)
    kept = np.array([True, False, True, True, False])
    expected = scaled_dot_product_attention(q, k[kept], v[kept])
    for mask in (kept, np.where(kept, 0.0, -INF), np.tile(kept, (3, 1)), np.where(kept, 0, -INF).astype(np.float16)):
        np.testing.assert_allclose(scaled_dot_product_attention(q, k, v, mask), expected, rtol=1e-12)


def test_boolean_true_means_may_attend():
    q, k, v = np.zeros((2, 3)), np.zeros((4, 3)), np.array([[1.0], [2.0], [4.0], [8.0]])
    mask = np.array([[True, False, False, False], [False, True, True, False]])
    assert scaled_dot_product_attention(q, k, v, mask).tolist() == [[1.0], [3.0]]


def test_a_float_mask_is_added_after_the_scale():
    q, k, v = np.full((1, 4), 3.0), np.zeros((2, 4)), np.array([[0.0], [1.0]])
    out = scaled_dot_product_attention(q, k, v, mask=np.array([0.0, math.log(3)]))
    assert out == pytest.approx(np.array([[0.75]]), rel=1e-14)


@pytest.mark.parametrize(
    ("shape", "mask_shape"),
    [((2, 3, 4, 6), m) for m in [(), (6,), (1, 6), (4, 1), (4, 6), (3, 1, 6), (3, 4, 6), (2, 1, 4, 6), (2, 3, 4, 6)]],
)
def test_masks_broadcast(shape, mask_shape):
    B, H, T, S = shape
    q, k, v = data(B, H, T, 5), data(B, H, S, 5), data(B, H, S, 2)
    mask = data(*mask_shape) > 0
    full = np.broadcast_to(mask, shape)
    out = scaled_dot_product_attention(q, k, v, mask)
    additive = scaled_dot_product_attention(q, k, v, np.where(mask, 0.0, -INF))
    assert np.array_equal(out, additive)
    for b, h in np.ndindex(B, H):
        expected, _ = naive_attention(q[b, h], k[b, h], v[b, h], may_attend=full[b, h])
        np.testing.assert_allclose(out[b, h], expected, rtol=1e-11, atol=1e-13)


def test_a_mask_may_bring_batch_axes_of_its_own():
    q, k, v, mask = data(4, 3), data(6, 3), data(6, 2), data(5, 4, 6) > 0
    out, weights = scaled_dot_product_attention(q, k, v, mask, return_weights=True)
    assert (out.shape, weights.shape) == ((5, 4, 2), (5, 4, 6))
    np.testing.assert_allclose(out[3], scaled_dot_product_attention(q, k, v, mask[3]), rtol=1e-13)


def test_leading_axes_broadcast_like_a_loop():
    q, k, v = data(5, 1, 4, 3), data(2, 6, 3), data(6, 7)
    out, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    assert (out.shape, weights.shape) == ((5, 2, 4, 7), (5, 2, 4, 6))
    for a, b in np.ndindex(5, 2):
        np.testing.assert_allclose(out[a, b], naive_attention(q[a, 0], k[b], v)[0], rtol=1e-11, atol=1e-13)


# --- what must not leak, overflow or warn -------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [np.zeros((1, 3), dtype=bool), np.full((1, 3), -INF)])
def test_a_query_that_may_attend_to_nothing_gets_zeros(mask):
    v = np.array([[1.0], [2.0], [6.0]])
    out, weights = scaled_dot_product_attention(data(1, 2), data(3, 2), v, mask, return_weights=True)
    assert out.tolist() == [[0.0]]
    assert weights.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("q", "k", "hidden"),
    [
        ([[-20000.0], [0.0]], [[1.0], [0.0]], 1),
        ([[-4e9], [0.0]], [[1.0], [0.0]], 1),
        ([[4e9], [-4e9]], [[1.0], [1e3]], 1),
        ([[-1e38], [-3e38]], [[1.0], [1.0]], 1),
        ([[1e38], [3e38]], [[-1.0], [1.0]], 1),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_mask_beats_any_score(q, k, hidden, dtype):
    q, k, v = (np.array(each, dtype=dtype) for each in (q, k, [[1.0], [100.0]]))
    may_attend = np.array([True, True])
    may_attend[hidden] = False
    for mask in (may_attend, np.where(may_attend, 0.0, -INF)):
        assert scaled_dot_product_attention(q, k, v, mask).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("junk", [NAN, INF, -INF, 1e308])
@pytest.mark.parametrize("additive", [False, True])
def test_what_is_masked_does_not_leak(junk, additive):
    q, k, v = data(4, 3), data(6, 3), data(6, 2)
    may_attend = np.tile([True, True, False, True, True, False], (4, 1))
    may_attend[2] = False
    mask = np.where(may_attend, 0.0, -INF) if additive else may_attend
    clean = scaled_dot_product_attention(q, k, v, mask, return_weights=True)
    k[[2, 5]], v[[2, 5]] = junk, junk
    for got, expected in zip(scaled_dot_product_attention(q, k, v, mask, return_weights=True), clean, strict=True):
        assert np.array_equal(got, expected)


def test_one_bad_query_spoils_no_other():
    q, k, v = data(4, 3), data(6, 3), data(6, 2)
    clean = scaled_dot_product_attention(q, k, v)
    q[1, 2] = NAN
    out = scaled_dot_product_attention(q, k, v)
    assert np.isnan(out[1]).all()
    assert np.array_equal(out[[0, 2, 3]], clean[[0, 2, 3]])


def test_a_nan_that_is_attended_to_shows():
    q, k, v = data(2, 3), data(4, 3), data(4, 2)
    v[3, 1] = NAN
    mask = np.array([[True, True, True, False], [True, True, True, True]])
    out = scaled_dot_product_attention(q, k, v, mask)
    assert np.isnan(out).tolist() == [[False, False], [False, True]]
    k[0] = NAN
    assert np.isnan(scaled_dot_product_attention(q, k, v)).all()


def test_half_precision_scores_do_not_overflow():
    q, k = np.full((1, 64), 40, dtype=np.float16), np.full((2, 64), 40, dtype=np.float16)
    k[1] = 39
    v = np.array([[1.0], [7.0]], dtype=np.float16)
    out, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    assert (weights.tolist(), out.tolist()) == ([[1.0, 0.0]], [[1.0]])
    assert out.dtype == weights.dtype == np.float16


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("mask_dtype", [np.float16, np.float32, np.float64])
def test_the_lowest_finite_mask_of_any_precision(dtype, mask_dtype):
    q, k, v = (each.astype(dtype) for each in (data(2, 3), data(4, 3), data(4, 2)))
    may_attend = np.array([[True, True, False, True], [False, True, True, False]])
    mask = np.where(may_attend, 0, np.finfo(mask_dtype).min).astype(mask_dtype)
    expected = scaled_dot_product_attention(q, k, v, may_attend)
    out = scaled_dot_product_attention(q, k, v, mask)
    assert out.dtype == dtype
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_a_mask_does_not_change_the_dtype():
    q, k, v = (each.astype(np.float32) for each in (data(2, 3), data(4, 3), data(4, 2)))
    assert scaled_dot_product_attention(q, k, v, np.zeros((2, 4))).dtype == np.float32
    assert scaled_dot_product_attention(q, k, v, scale=np.float64(0.5)).dtype == np.float32
    assert scaled_dot_product_attention(q, k, v.astype(np.float64)).dtype == np.float64


# --- masked -------------------------------------------------------------------------------------------------------


def test_masked_closed_forms():
    scores = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert masked(scores, None).tolist() == [[1, 2], [3, 4]]
    assert masked(scores, np.array([[True, False], [False, True]])).tolist() == [[1, -INF], [-INF, 4]]
    assert masked(scores, np.array([0.5, -INF])).tolist() == [[1.5, -INF], [3.5, -INF]]
    assert masked([[1, 2]], [[True, False]]).tolist() == [[1, -INF]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_masked_keeps_the_dtype_of_the_scores(dtype):
    scores = np.array([[1, 2], [3, 4]], dtype=dtype)
    for mask in (None, np.array([True, False]), np.array([0.0, -1e9]), np.array([0, -1], dtype=np.float16)):
        assert masked(scores, mask).dtype == dtype


# --- all ----------------------------------------------------------------------------------------------------------

CALLS = {
    "linear": (lambda x, w, b: linear(x, w, b), ((2, 3, 5), (5, 4), (4,))),
    "project_qkv": (
        lambda x, w, w_v, c, b: np.concatenate(project_qkv(x, w, w, w_v, c, b_q=b, b_k=b), axis=-2),
        ((2, 3, 5), (5, 4), (5, 4), (2, 6, 5), (4,)),
    ),
    "attention": (scaled_dot_product_attention, ((2, 3, 5), (2, 6, 5), (2, 6, 4))),
    "masked": (masked, ((2, 3, 5), (3, 5))),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_leading_axes_and_inputs(name, dtype):
    function, shapes = CALLS[name]
    arrays = [data(*shape, seed=i).astype(dtype) for i, shape in enumerate(shapes)]
    copies = [each.copy() for each in arrays]
    for each in arrays:
        each.flags.writeable = False
    out = function(*arrays)
    assert out.dtype == dtype
    assert not any(np.shares_memory(out, each) for each in arrays)
    assert all(np.array_equal(each, copy) for each, copy in zip(arrays, copies, strict=True))
    tolerance = 8 * np.finfo(dtype).eps
    exact = function(*(each.astype(np.float64) for each in arrays))
    np.testing.assert_allclose(out, exact, rtol=tolerance, atol=tolerance)
    for b in range(2):
        row = function(*(each[b] if each.ndim == 3 else each for each in arrays))
        np.testing.assert_allclose(out[b], row, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CALLS)
def test_integers_become_float64(name):
    function, shapes = CALLS[name]
    arrays = [np.arange(math.prod(shape)).reshape(shape) % 3 for shape in shapes]
    if name == "masked":
        arrays[1] = arrays[1] > 0
    assert function(*arrays).dtype == np.float64


q, k, v, x, w = data(4, 3), data(6, 3), data(6, 2), data(4, 5), data(5, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear(x, data(4, 3)), r"w \[d_in, d_out\] has shape \(4, 3\): axis d_in is 4, but x has d_in = 5"),
        (lambda: linear(x, w.T), r"w .* axis d_in is 3, but x has d_in = 5"),
        (lambda: linear(x, w, data(5)), r"b \[d_out\] has shape \(5,\): axis d_out is 5, but w has d_out = 3"),
        (lambda: linear(x, data(2, 5, 3)), r"w \[d_in, d_out\] needs exactly 2 axes, got shape \(2, 5, 3\)"),
        (lambda: linear(x, w, data(1, 3)), r"b \[d_out\] needs exactly 1 axes"),
        (lambda: linear(3.0, w), r"x \[\.\.\., d_in\] needs at least 1 axes, got shape \(\)"),
        (lambda: linear(np.zeros((2, 0)), np.zeros((0, 3))), "x .* axis d_in is empty"),
        (lambda: linear(x, w.astype(complex)), "w .* must hold real numbers, got dtype complex128"),
        (lambda: linear(x, w.astype(str)), "w .* must hold real numbers"),
        (lambda: project_qkv(x[0], w, w, w), r"x \[\.\.\., T, d_model\] needs at least 2 axes, got shape \(5,\)"),
        (lambda: project_qkv(x, w.T, w, w), "w_q .* axis d_model is 3, but x has d_model = 5"),
        (lambda: project_qkv(x, w, w.T, w), "w_k .* axis d_model is 3, but .* d_model = 5"),
        (lambda: project_qkv(x, w, w, w.T), "w_v .* axis d_model is 3, but .* d_model = 5"),
        (lambda: project_qkv(x, w, w, w, context=q), "w_k .* axis d_context is 5, but context has d_context = 3"),
        (lambda: project_qkv(x, w, w, w, context=q[0]), r"context \[\.\.\., S, d_context\] needs at least 2 axes"),
        (lambda: project_qkv(x, w, w, w, b_q=x), r"b_q \[d_q\] needs exactly 1 axes"),
        (lambda: project_qkv(x, w, w, w, b_k=x[0]), "b_k .* axis d_k is 5, but w_k has d_k = 3"),
        (lambda: project_qkv(x, w, w, w, b_v=x[0]), "b_v .* axis d_v is 5, but w_v has d_v = 3"),
        (lambda: project_qkv(x[:0], w, w, w), "x .* axis T is empty"),
        (lambda: scaled_dot_product_attention(q, x, v), "k .* axis d_k is 5, but q has d_k = 3"),
        (lambda: scaled_dot_product_attention(q, k, v[:5]), "v .* axis S is 5, but k has S = 6"),
        (
            lambda: scaled_dot_product_attention(q[0], k, v),
            r"q \[\.\.\., T, d_k\] needs at least 2 axes, got shape \(3,\)",
        ),
        (lambda: scaled_dot_product_attention(q, k[0], v), r"k \[\.\.\., S, d_k\] needs at least 2 axes"),
        (lambda: scaled_dot_product_attention(q, k, v[0]), r"v \[\.\.\., S, d_v\] needs at least 2 axes"),
        (lambda: scaled_dot_product_attention(q[:0], k, v), "q .* axis T is empty"),
        (lambda: scaled_dot_product_attention(q, k[:0], v[:0]), "k .* axis S is empty"),
        (lambda: scaled_dot_product_attention(q[:, :0], k[:, :0], v), "q .* axis d_k is empty"),
        (
            lambda: scaled_dot_product_attention(data(2, 4, 3), data(5, 6, 3), v),
            r"leading \(batch\) axes do not broadcast together: q \(2,\), k \(5,\), v \(\)",
        ),
        (
            lambda: scaled_dot_product_attention(q, k, v, np.ones((4, 6), int)),
            "mask must be Boolean .* got dtype int64",
        ),
        (lambda: scaled_dot_product_attention(q, k, v, np.ones((4, 6), complex)), "mask must be Boolean .* complex128"),
        (lambda: scaled_dot_product_attention(q, k, v, "causal"), "mask must be Boolean .* got dtype <U6"),
        (lambda: scaled_dot_product_attention(q, k, v, np.ones((6, 4), bool)), r"mask has shape \(6, 4\), .* \(4, 6\)"),
        (lambda: scaled_dot_product_attention(q, k, v, np.ones((4, 1, 6), bool)[:, :, :5]), "mask has shape"),
        (
            lambda: scaled_dot_product_attention(q[:1], k, v, np.ones((4, 6), bool)),
            r"mask has shape \(4, 6\), .* \(1, 6\)",
        ),
        (lambda: scaled_dot_product_attention(q, k[:1], v[:1], np.ones((4, 6), bool)), r"mask has shape .* \(4, 1\)"),
        (lambda: scaled_dot_product_attention(q, k, v, np.full((4, 6), INF)), r"got \+inf"),
        (lambda: scaled_dot_product_attention(1e200 * q**2, 1e200 * k**2, v), r"got \+inf"),
        (lambda: scaled_dot_product_attention(q, k, v, scale=NAN), "scale must be a finite number, got nan"),
        (lambda: scaled_dot_product_attention(q, k, v, scale=INF), "scale must be a finite number, got inf"),
        (lambda: scaled_dot_product_attention(q, k, v, scale="1"), "scale must be a finite number, got '1'"),
        (lambda: scaled_dot_product_attention(q, k, v, scale=True), "scale must be a finite number, got True"),
        (lambda: masked(data(4, 6), np.ones((4, 6), int)), "mask must be Boolean"),
        (lambda: masked(data(4, 6), np.ones(4, bool)), r"mask has shape \(4,\), which does not broadcast .* \(4, 6\)"),
        (lambda: masked(data(6), np.ones(6, bool)), r"scores \[\.\.\., T, S\] needs at least 2 axes"),
    ],
)
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
