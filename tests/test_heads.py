import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.attention import project_qkv, scaled_dot_product_attention
from labkit.heads import concat_heads, multi_head_attention, split_heads
from labkit.mask import causal_mask

check = settings(max_examples=40, deadline=None, derandomize=True)


def data(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def weights_for(d_model, width, d_context=None):
    d_context = d_model if d_context is None else d_context
    return (
        data(d_model, width, seed=1),
        data(d_context, width, seed=2),
        data(d_context, width, seed=3),
        data(width, d_model, seed=4),
    )


def naive_multi_head(x, w_q, w_k, w_v, w_o, n_heads, mask=None, context=None, kept=None):
    """One head after the other, each on its own columns of the projections and its own rows of W_O."""
    context = x if context is None else context
    d_head = w_q.shape[1] // n_heads
    out, weights = 0, []
    for h in range(n_heads):
        own = slice(h * d_head, (h + 1) * d_head)
        scores = (x @ w_q[:, own]) @ (context @ w_k[:, own]).T / math.sqrt(d_head)
        if mask is not None:
            scores = np.where(mask[h] if mask.ndim == 3 else mask, scores, -np.inf)
        shares = np.exp(scores)
        weights.append(shares / shares.sum(axis=-1, keepdims=True))
        if kept is None or kept[h]:
            out = out + weights[-1] @ (context @ w_v[:, own]) @ w_o[own]
    return out, np.array(weights)


# --- split and concatenate ----------------------------------------------------------------------------------------


def test_split_closed_form():
    x = np.arange(12).reshape(2, 6)
    assert split_heads(x, 3).tolist() == [[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]
    assert split_heads(x, 2).tolist() == [[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]]
    assert split_heads(x, 1).tolist() == [x.tolist()]
    assert concat_heads(split_heads(x, 3)).tolist() == x.tolist()


@check
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.lists(st.integers(1, 3), max_size=2))
def test_concat_undoes_split(T, n_heads, d_head, batch):
    x = data(*batch, T, n_heads * d_head)
    heads = split_heads(x, n_heads)
    assert heads.shape == (*batch, n_heads, T, d_head)
    assert np.array_equal(concat_heads(heads), x)
    for h in range(n_heads):
        assert np.array_equal(heads[..., h, :, :], x[..., h * d_head : (h + 1) * d_head])


def test_split_computes_and_copies_nothing():
    x = data(2, 5, 6)
    assert np.shares_memory(split_heads(x, 3), x)
    assert x.size == split_heads(x, 3).size


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_split_and_concat_keep_the_dtype(dtype):
    x = np.arange(12).reshape(2, 6).astype(dtype)
    assert split_heads(x, 2).dtype == concat_heads(split_heads(x, 2)).dtype == dtype
    assert concat_heads(split_heads(x.tolist(), 2)).tolist() == x.tolist()


# --- multi-head attention -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", [1, 2, 3, 6])
@pytest.mark.parametrize("masking", ["none", "causal", "per head"])
def test_multi_head_agrees_with_a_loop_over_heads(n_heads, masking):
    x, (w_q, w_k, w_v, w_o) = data(4, 5), weights_for(5, 6)
    per_head = data(n_heads, 4, 4) > 0
    per_head[:, range(4), range(4)] = True
    mask = {"none": None, "causal": causal_mask(4), "per head": per_head}[masking]
    out, weights = multi_head_attention(x, w_q, w_k, w_v, w_o, n_heads, mask=mask, return_weights=True)
    naive_out, naive_weights = naive_multi_head(x, w_q, w_k, w_v, w_o, n_heads, mask=mask)
    np.testing.assert_allclose(weights, naive_weights, rtol=1e-11)
    np.testing.assert_allclose(out, naive_out, rtol=1e-11, atol=1e-13)
    assert np.array_equal(out, multi_head_attention(x, w_q, w_k, w_v, w_o, n_heads, mask=mask))


def test_one_head_is_plain_attention():
    x, (w_q, w_k, w_v, w_o) = data(4, 5), weights_for(5, 6)
    plain = scaled_dot_product_attention(*project_qkv(x, w_q, w_k, w_v)) @ w_o
    np.testing.assert_allclose(multi_head_attention(x, w_q, w_k, w_v, w_o, 1), plain, rtol=1e-12)


def test_more_heads_are_another_function_of_the_same_parameters():
    x, weights = data(4, 5), weights_for(5, 6)
    outs = [multi_head_attention(x, *weights, n_heads) for n_heads in (1, 2, 3, 6)]
    assert min(np.abs(outs[a] - outs[b]).max() for a in range(4) for b in range(a)) > 0.1


def test_each_head_scales_by_its_own_width():
    # one position of two: scores of head 0 are q·k = ln 3 · √2 and 0, so after 1/√2 its weights are 3/4 and 1/4
    x = np.eye(2)
    w_q, w_k = np.zeros((2, 4)), np.zeros((2, 4))
    w_q[0, 0], w_k[0, 0] = 1, math.log(3) * math.sqrt(2)
    _, weights = multi_head_attention(x, w_q, w_k, np.eye(2, 4), np.eye(4, 2), 2, return_weights=True)
    np.testing.assert_allclose(weights, [[[0.75, 0.25], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]], rtol=1e-14)


def test_cross_attention_over_heads():
    x, context = data(3, 5), data(7, 4)
    w_q, w_k, w_v, w_o = weights_for(5, 6, d_context=4)
    mask = np.arange(7) < 5
    out, weights = multi_head_attention(x, w_q, w_k, w_v, w_o, 2, mask=mask, context=context, return_weights=True)
    naive_out, naive_weights = naive_multi_head(x, w_q, w_k, w_v, w_o, 2, mask=mask, context=context)
    assert (out.shape, weights.shape) == ((3, 5), (2, 3, 7))
    np.testing.assert_allclose(weights, naive_weights, rtol=1e-11)
    np.testing.assert_allclose(out, naive_out, rtol=1e-11, atol=1e-13)


def test_a_mask_for_each_sequence_needs_an_axis_of_heads():
    x, weights = data(2, 4, 5), weights_for(5, 6)
    mask = np.array([[True, True, True, False], [True, False, True, True]])[:, None, None, :]
    out = multi_head_attention(x, *weights, 2, mask=mask)
    for b in range(2):
        np.testing.assert_allclose(out[b], multi_head_attention(x[b], *weights, 2, mask=mask[b]), rtol=1e-12)


def test_values_may_have_a_width_of_their_own():
    x, (w_q, w_k, _, _) = data(4, 5), weights_for(5, 6)
    w_v, w_o = data(5, 4), data(4, 5)
    assert multi_head_attention(x, w_q, w_k, w_v, w_o, 2).shape == (4, 5)


# --- ablation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [[True, True, True], [True, False, True], [False, False, True], [False, False, False]])
def test_ablation_silences_a_head_and_only_that_one(kept):
    x, weights = data(4, 5), weights_for(5, 6)
    out, shares = multi_head_attention(x, *weights, 3, keep_heads=np.array(kept), return_weights=True)
    full, all_shares = multi_head_attention(x, *weights, 3, return_weights=True)
    np.testing.assert_allclose(out, naive_multi_head(x, *weights, 3, kept=kept)[0], rtol=1e-11, atol=1e-13)
    assert np.array_equal(shares, all_shares)
    assert np.array_equal(out, full) == all(kept)
    assert np.array_equal(out, multi_head_attention(x, *weights, 3, keep_heads=kept))


def test_the_heads_outputs_add_up():
    x, weights = data(4, 5), weights_for(5, 6)
    alone = [multi_head_attention(x, *weights, 3, keep_heads=np.arange(3) == h) for h in range(3)]
    np.testing.assert_allclose(sum(alone), multi_head_attention(x, *weights, 3), rtol=1e-10, atol=1e-12)


def test_a_silenced_head_may_hold_nan():
    x, (w_q, w_k, w_v, w_o) = data(4, 5), weights_for(5, 6)
    w_v[:, 2:4] = np.nan
    out = multi_head_attention(x, w_q, w_k, w_v, w_o, 3, keep_heads=[True, False, True])
    assert np.isfinite(out).all()
    assert np.isnan(multi_head_attention(x, w_q, w_k, w_v, w_o, 3)).all()


# --- all ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_leading_axes_and_inputs(dtype):
    arrays = [each.astype(dtype) for each in (data(2, 3, 4, 5), *weights_for(5, 6))]
    copies = [each.copy() for each in arrays]
    for each in arrays:
        each.flags.writeable = False
    out, weights = multi_head_attention(*arrays, 3, mask=causal_mask(4), return_weights=True)
    assert out.dtype == weights.dtype == dtype
    assert (out.shape, weights.shape) == ((2, 3, 4, 5), (2, 3, 3, 4, 4))
    assert all(np.array_equal(each, copy) for each, copy in zip(arrays, copies, strict=True))
    tolerance = 8 * np.finfo(dtype).eps
    for a, b in np.ndindex(2, 3):
        row = multi_head_attention(arrays[0][a, b], *arrays[1:], 3, mask=causal_mask(4))
        np.testing.assert_allclose(out[a, b], row, rtol=tolerance, atol=tolerance)
    exact = multi_head_attention(*(each.astype(np.float64) for each in arrays), 3, mask=causal_mask(4))
    np.testing.assert_allclose(out, exact, rtol=tolerance, atol=tolerance * np.abs(exact).max())


def test_halves_do_not_overflow_on_the_way():
    x, w = np.full((3, 64), 60, dtype=np.float16), np.full((64, 64), 60, dtype=np.float16)  # q = 230400 > 65504
    w_o = np.zeros((64, 64), dtype=np.float16)
    w_o[0, 0] = 2**-10
    out = multi_head_attention(x, w, w, w, w_o, 4)
    assert out.dtype == np.float16
    assert out[:, 0].tolist() == [225.0] * 3


def test_integers_become_float64():
    x, w = np.arange(12).reshape(3, 4), np.arange(16).reshape(4, 4)
    assert multi_head_attention(x, w, w.T, w, w, 2).dtype == np.float64


def test_a_row_that_may_attend_to_nothing_gives_zeros():
    x, weights = data(4, 5), weights_for(5, 6)
    mask = causal_mask(4)
    mask[2] = False
    out = multi_head_attention(x, *weights, 2, mask=mask)
    assert not out[2].any()
    assert out[3].any()


x, (w_q, w_k, w_v, w_o) = data(4, 5), weights_for(5, 6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: split_heads(data(4, 10), 4), "x has a last axis of 10, which n_heads = 4 does not divide evenly"),
        (lambda: split_heads(data(4, 2), 4), "x has a last axis of 2, which n_heads = 4 does not divide"),
        (lambda: split_heads(data(4, 6), 0), "n_heads must be an integer of at least 1, got 0"),
        (lambda: split_heads(data(4, 6), -2), "n_heads must be an integer of at least 1, got -2"),
        (lambda: split_heads(data(4, 6), 2.0), "n_heads must be an integer of at least 1, got 2.0"),
        (lambda: split_heads(data(4, 6), True), "n_heads must be an integer of at least 1, got True"),
        (lambda: split_heads(data(4, 6), None), "n_heads must be an integer of at least 1, got None"),
        (lambda: split_heads(data(6), 2), r"x \[\.\.\., T, d_model\] needs at least 2 axes, got shape \(6,\)"),
        (lambda: split_heads(data(4, 6)[:0], 2), "x .* axis T is empty"),
        (lambda: split_heads(data(4, 6)[:, :0], 2), "x .* axis d_model is empty"),
        (lambda: concat_heads(data(4, 6)), r"x \[.*n_heads, T, d_head\] needs at least 3 axes, got shape \(4, 6\)"),
        (lambda: concat_heads(data(2, 4, 6)[:, :0]), "x .* axis T is empty"),
        (lambda: concat_heads(data(2, 4, 6)[:0]), "x .* axis n_heads is empty"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 4), "last axis of 6, which n_heads = 4 does not divide"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 0), "n_heads must be an integer of at least 1, got 0"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 2.0), "n_heads must be an integer of at least 1, got 2.0"),
        (lambda: multi_head_attention(x, w_q.T, w_k, w_v, w_o, 2), "w_q .* axis d_model is 6, but x has d_model = 5"),
        (lambda: multi_head_attention(x, w_q, w_k.T, w_v, w_o, 2), "w_k .* axis d_model is 6, but .* d_model = 5"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v.T, w_o, 2), "w_o .* axis d_heads is 6, but w_v has d_heads = 5"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o.T, 2), "w_o .* axis d_heads is 5, but w_v has d_heads = 6"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, data(6, 4), 2), "w_o .* axis d_model is 4, but x has .* 5"),
        (lambda: multi_head_attention(x, w_q, w_k[:, :4], w_v, w_o, 2), "k .* axis d_k is 2, but q has d_k = 3"),
        (lambda: multi_head_attention(x[0], w_q, w_k, w_v, w_o, 2), r"x \[\.\.\., T, d_model\] needs at least 2 axes"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 2, context=data(7, 4)), "w_k .* d_context"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 2, mask=np.ones((3, 4), bool)), "mask has shape"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 2, mask=np.ones((3, 4, 4), bool)), "mask has shape"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 2, mask=np.ones((4, 4), int)), "mask must be Boolean"),
        (
            lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 2, keep_heads=[True]),
            r"keep_heads must be one Boolean for each of n_heads = 2 heads, got bool \(1,\)",
        ),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 2, keep_heads=[1, 0]), r"got int64 \(2,\)"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 2, keep_heads=True), r"got bool \(\)"),
        (lambda: multi_head_attention(x, w_q, w_k, w_v, w_o, 2, keep_heads=[[True, True]]), r"got bool \(1, 2\)"),
    ],
)  # fmt: skip
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
