import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.rope import (
    RopeScaling,
    as_scaling,
    attention_factor,
    frequencies,
    half_to_interleaved,
    interleaved_to_half,
    ntk_base,
    rotate,
    rotate_stream_once,
    wavelengths,
)

INF, NAN = np.inf, np.nan
check = settings(max_examples=40, deadline=None, derandomize=True)
pairings = pytest.mark.parametrize("pairing", ["half", "interleaved"])

with np.load(Path(__file__).parent / "golden" / "rope.npz") as file:
    GOLDEN = {name: file[name] for name in file.files}
CASES = json.loads(str(GOLDEN["cases"]))

LINEAR = {"kind": "linear", "factor": 4.0}
DYNAMIC = {"kind": "dynamic", "factor": 2.0, "original_max_len": 512}
YARN = {"kind": "yarn", "factor": 4.0, "original_max_len": 4096}
LLAMA3 = {"kind": "llama3", "factor": 8.0, "original_max_len": 8192}


def data(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def naive_rotate(x, positions, freqs, pairing):
    """One number at a time; pair i of a complex number a + ib is multiplied by e^(i · position · frequency)."""
    half = len(freqs)
    out = np.zeros(x.shape)
    for t, position in enumerate(positions):
        for i in range(half):
            one, other = (i, i + half) if pairing == "half" else (2 * i, 2 * i + 1)
            angle = int(position) * float(freqs[i])
            turned = complex(x[t, one], x[t, other]) * complex(math.cos(angle), math.sin(angle))
            out[t, one], out[t, other] = turned.real, turned.imag
    return out


# --- frequencies --------------------------------------------------------------------------------------------------


def test_frequencies_closed_form():
    assert frequencies(8) == pytest.approx([1, 0.1, 0.01, 0.001], rel=1e-15)
    assert frequencies(6, base=8.0) == pytest.approx([1, 1 / 2, 1 / 4], rel=1e-15)
    assert frequencies(2, base=50).tolist() == [1.0]
    assert frequencies(4, base=10**6) == pytest.approx([1, 1e-3], rel=1e-15)


@check
@given(st.integers(1, 64), st.floats(1.5, 1e7))
def test_frequencies_fall_by_one_factor_from_one(half, base):
    freqs = frequencies(2 * half, base)
    assert (freqs.dtype, freqs.shape, freqs[0]) == (np.float64, (half,), 1.0)
    np.testing.assert_allclose(freqs[1:] / freqs[:-1], base ** (-1 / half), rtol=1e-12)


def test_wavelengths_are_positions_for_a_whole_turn():
    freqs = frequencies(8, base=300.0)
    np.testing.assert_allclose(wavelengths(freqs) * freqs, 2 * np.pi, rtol=1e-15)
    assert wavelengths([1, 2]) == pytest.approx([2 * np.pi, np.pi], rel=1e-15)
    assert wavelengths(np.full((2, 3), 0.5, dtype=np.float32)).shape == (2, 3)


# --- scaling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["key"] for case in CASES])
def test_frequencies_equal_those_of_transformers(case):
    ours = frequencies(case["d_head"], case["base"], case["scaling"], case["length"])
    np.testing.assert_allclose(ours, GOLDEN[case["key"]], rtol=1e-6, atol=0)
    assert attention_factor(case["scaling"]) == pytest.approx(case["attention_factor"], rel=1e-12)


def test_the_frozen_cases_can_tell_the_rules_apart():
    seen = {}
    for case in CASES:
        plain = frequencies(case["d_head"], case["base"])
        kind = (case["scaling"] or {"kind": "plain"})["kind"]
        seen[kind] = max(seen.get(kind, 0), np.abs(GOLDEN[case["key"]] / plain - 1).max())
    assert seen.pop("plain") < 1e-6
    assert set(seen) == {"linear", "dynamic", "yarn", "llama3"}
    assert min(seen.values()) > 0.5


def test_linear_divides_all_frequencies_and_so_all_positions():
    freqs = frequencies(8, scaling=LINEAR)
    np.testing.assert_allclose(freqs, frequencies(8) / 4, rtol=1e-15)
    x = data(3, 8)
    np.testing.assert_allclose(
        rotate(x, np.array([8, 12, 40]), freqs), rotate(x, np.array([2, 3, 10]), frequencies(8)), rtol=1e-12
    )


def test_llama3_blends_linearly_in_one_over_the_wavelength():
    base = (4096 / (2 * np.pi)) ** 2  # the second of two pairs then has the wavelength 4096
    assert wavelengths(frequencies(4, base))[1] == pytest.approx(4096, rel=1e-12)
    ratio = frequencies(4, base, LLAMA3) / frequencies(4, base)
    assert ratio == pytest.approx([1, 5 / 12], rel=1e-12)


@pytest.mark.parametrize(("wavelength", "kept"), [(2048, 1), (8192 / 3, 2 / 3), (4096, 1 / 3), (8192, 0), (9000, 0)])
def test_llama3_at_the_bounds_of_its_bands(wavelength, kept):
    base = (wavelength / (2 * np.pi)) ** 2
    ratio = frequencies(4, base, LLAMA3)[1] / frequencies(4, base)[1]
    assert ratio == pytest.approx(kept + (1 - kept) / 8, rel=1e-9)


def test_llama3_bands_of_the_published_configuration():
    plain = frequencies(128, base=5e5)
    ratio = frequencies(128, 5e5, LLAMA3) / plain
    stay, divided = np.isclose(ratio, 1, rtol=1e-12), np.isclose(ratio, 1 / 8, rtol=1e-12)
    assert np.flatnonzero(stay).tolist() == list(range(29))
    assert np.flatnonzero(divided).tolist() == list(range(35, 64))
    blended = ratio[29:35]
    assert np.all(np.diff(blended) < 0)
    assert 1 / 8 < blended[-1] < blended[0] < 1


def test_dynamic_leaves_short_contexts_alone_and_follows_the_length():
    plain = frequencies(64)
    for length in (None, 1, 511, 512):
        assert np.array_equal(frequencies(64, scaling=DYNAMIC, length=length), plain)
    slowest = [frequencies(64, scaling=DYNAMIC, length=n)[-1] for n in (512, 513, 700, 1024, 5000)]
    assert np.all(np.diff(slowest) < 0)
    assert [frequencies(64, scaling=DYNAMIC, length=n)[0] for n in (513, 5000)] == [1.0, 1.0]
    # at twice the trained length, factor 2: the slowest pair is divided by 2 · 1024/512 − 1 = 3
    assert slowest[3] == pytest.approx(plain[-1] / 3, rel=1e-12)


def test_only_dynamic_listens_to_the_length():
    for scaling in (None, LINEAR, YARN, LLAMA3):
        assert np.array_equal(frequencies(64, scaling=scaling, length=10**6), frequencies(64, scaling=scaling))


@check
@given(st.integers(2, 64), st.floats(1.5, 1e6), st.floats(1, 64))
def test_ntk_base_stretches_the_slowest_pair_alone(half, base, factor):
    plain, stretched = frequencies(2 * half, base), frequencies(2 * half, ntk_base(2 * half, base, factor))
    assert stretched[0] == 1.0
    assert stretched[-1] == pytest.approx(plain[-1] / factor, rel=1e-9)
    shrinkage = plain / stretched
    assert np.all(np.diff(shrinkage) >= -1e-9)


def test_ntk_base_of_one_pair_and_no_stretch():
    assert ntk_base(2, 10000.0, 1) == 10000.0
    assert frequencies(2, scaling=DYNAMIC, length=512).tolist() == [1.0]


def test_yarn_keeps_fast_pairs_divides_slow_ones_and_blends_between():
    ratio = frequencies(128, scaling=YARN) / frequencies(128)
    # pair i turns 4096 / (2π · 10000^(i/64)) times: 32 turns at i = 20.94, 1 turn at i = 45.03
    expected = 1 - np.clip((np.arange(64) - 20) / (46 - 20), 0, 1) * (1 - 1 / 4)
    np.testing.assert_allclose(ratio, expected, rtol=1e-12)
    exact_ends = frequencies(128, scaling=YARN | {"truncate": False}) / frequencies(128)
    ends = [64 * math.log(4096 / (2 * math.pi * turns)) / math.log(10000) for turns in (32, 1)]
    expected = 1 - np.clip((np.arange(64) - ends[0]) / (ends[1] - ends[0]), 0, 1) * (1 - 1 / 4)
    np.testing.assert_allclose(exact_ends, expected, rtol=1e-12)


def test_yarn_bounds_are_in_turns():
    wide = frequencies(128, scaling=YARN | {"beta_fast": 64.0, "beta_slow": 0.5}) / frequencies(128)
    narrow = frequencies(128, scaling=YARN) / frequencies(128)
    assert (wide == 1).sum() < (narrow == 1).sum()
    assert np.isclose(wide, 1 / 4).sum() < np.isclose(narrow, 1 / 4).sum()


@pytest.mark.parametrize("scaling", [LINEAR, YARN, LLAMA3])
def test_a_factor_of_one_changes_nothing(scaling):
    scaling = scaling | {"factor": 1.0}
    np.testing.assert_allclose(frequencies(64, scaling=scaling, length=99999), frequencies(64), rtol=1e-15)
    assert attention_factor(scaling) == 1.0


@check
@given(st.sampled_from([LINEAR, DYNAMIC, YARN, LLAMA3]), st.integers(2, 80), st.floats(2, 1e6), st.floats(1, 100))
def test_scaled_frequencies_lie_between_plain_and_divided(scaling, half, base, factor):
    scaling = scaling | {"factor": factor}
    length = scaling.get("original_max_len")
    scaled, plain = frequencies(2 * half, base, scaling, length and 2 * length), frequencies(2 * half, base)
    least = factor + 1 if scaling["kind"] == "dynamic" else factor  # 2 · factor − (factor − 1) at twice the length
    assert np.all(scaled <= plain * (1 + 1e-12))
    assert np.all(scaled >= plain / least * (1 - 1e-9))
    assert np.all(np.diff(scaled) < 0) or scaling["kind"] in ("yarn", "llama3")


def test_attention_factor_closed_forms():
    assert attention_factor(YARN) == pytest.approx(0.1 * math.log(4) + 1, rel=1e-15)
    assert attention_factor(YARN | {"attention_factor": 1.25}) == 1.25
    assert attention_factor(YARN | {"attention_factor": 1}) == 1.0
    both = YARN | {"factor": math.e**10, "mscale": 2.0, "mscale_all_dim": 0.5}
    assert attention_factor(both) == pytest.approx(3 / 1.5, rel=1e-12)
    assert attention_factor(both | {"mscale_all_dim": None}) == pytest.approx(2, rel=1e-12)
    assert attention_factor(both | {"mscale": None}) == pytest.approx(2, rel=1e-12)
    assert [attention_factor(scaling) for scaling in (None, LINEAR, DYNAMIC, LLAMA3)] == [1.0] * 4


def test_attention_factor_scales_the_scores_by_its_square():
    q, k, freqs, factor = data(3, 8), data(4, 8), frequencies(8), attention_factor(YARN)
    plain = rotate(q, 0, freqs) @ rotate(k, 0, freqs).T
    scaled = (rotate(q, 0, freqs) * factor) @ (rotate(k, 0, freqs) * factor).T
    np.testing.assert_allclose(scaled / plain, (0.1 * math.log(4) + 1) ** 2, rtol=1e-12)


def test_scaling_as_dataclass_and_as_dict_is_the_same():
    for scaling in (LINEAR, DYNAMIC, YARN, LLAMA3):
        made = as_scaling(scaling)
        assert made == RopeScaling(**scaling)
        assert as_scaling(made) is made
        assert np.array_equal(frequencies(64, scaling=made, length=900), frequencies(64, scaling=scaling, length=900))
        assert attention_factor(made) == attention_factor(scaling)
        assert hash(made) == hash(RopeScaling(**scaling))
    assert as_scaling(None) is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.factor = 2.0


# --- rotate -------------------------------------------------------------------------------------------------------


def test_rotate_published_values_of_both_pairings():
    x, freqs = np.array([[1.0, 2.0, 3.0, 4.0]]), frequencies(4)
    np.testing.assert_allclose(
        rotate(x, 1, freqs, "interleaved"), [[-1.142640, 1.922076, 2.959851, 4.029800]], atol=1e-6
    )
    np.testing.assert_allclose(rotate(x, 1, freqs, "half"), [[-1.984111, 1.959901, 2.462378, 4.019800]], atol=1e-6)
    assert np.array_equal(rotate(x, 1, freqs), rotate(x, 1, freqs, "half"))


def test_rotate_a_quarter_turn_goes_from_first_to_second():
    freqs = np.array([np.pi / 2, np.pi])
    np.testing.assert_allclose(rotate([[1.0, 10.0, 0.0, 0.0]], 1, freqs, "half"), [[0, -10, 1, 0]], atol=1e-14)
    np.testing.assert_allclose(rotate([[1.0, 0.0, 10.0, 0.0]], 1, freqs, "interleaved"), [[0, 1, -10, 0]], atol=1e-14)


def test_rotate_equals_transformers_in_both_pairings():
    x, positions, freqs = (GOLDEN[f"rotate/{name}"] for name in ("x", "positions", "freqs"))
    np.testing.assert_allclose(rotate(x, positions[:, None], freqs, "half"), GOLDEN["rotate/half"], rtol=1e-12)
    interleaved = rotate(x, positions[:, None], freqs, "interleaved")
    np.testing.assert_allclose(interleaved, GOLDEN["rotate/interleaved"], rtol=1e-5, atol=1e-6)  # they use float32


@pairings
@pytest.mark.parametrize("positions", [[0, 1, 2, 3, 4], [7, 0, 7, 250, 3], [100000, 99999, 1, 65536, 12]])
def test_rotate_agrees_with_a_loop(pairing, positions):
    x, freqs = data(5, 6), frequencies(6, base=50.0)
    expected = naive_rotate(x, positions, freqs, pairing)
    np.testing.assert_allclose(rotate(x, np.array(positions), freqs, pairing), expected, rtol=1e-12, atol=1e-12)


@pairings
@check
@given(st.integers(1, 6), st.integers(0, 10**6), st.integers(0, 9))
def test_rotate_keeps_norms_and_position_zero_is_the_identity(pairing, half, position, seed):
    x, freqs = data(3, 2 * half, seed=seed), frequencies(2 * half)
    turned = rotate(x, np.full(3, position), freqs, pairing)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-12)
    assert np.array_equal(rotate(x, np.zeros(3, int), freqs, pairing), x)


@pairings
@check
@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 5000), st.integers(0, 9))
def test_scores_depend_on_the_offset_alone(pairing, m, n, shift, seed):
    q, k, freqs = data(1, 8, seed=seed), data(1, 8, seed=seed + 1), frequencies(8, base=100.0)
    score = (rotate(q, m, freqs, pairing) @ rotate(k, n, freqs, pairing).T)[0, 0]
    shifted = (rotate(q, m + shift, freqs, pairing) @ rotate(k, n + shift, freqs, pairing).T)[0, 0]
    assert shifted == pytest.approx(score, abs=1e-9)
    pairs = [(0, 4), (1, 5), (2, 6), (3, 7)] if pairing == "half" else [(0, 1), (2, 3), (4, 5), (6, 7)]
    expected = 0
    for (a, b), freq in zip(pairs, freqs, strict=True):
        angle = (m - n) * freq
        dot, cross = q[0, a] * k[0, a] + q[0, b] * k[0, b], q[0, a] * k[0, b] - q[0, b] * k[0, a]
        expected += dot * math.cos(angle) + cross * math.sin(angle)
    assert score == pytest.approx(expected, abs=1e-9)


@pairings
def test_scores_do_depend_on_the_offset(pairing):
    q, k, freqs = data(1, 8), data(1, 8, seed=1), frequencies(8)
    scores = [(rotate(q, n, freqs, pairing) @ rotate(k, 0, freqs, pairing).T)[0, 0] for n in range(20)]
    assert len({round(float(score), 9) for score in scores}) == 20
    backwards = (rotate(q, 0, freqs, pairing) @ rotate(k, 3, freqs, pairing).T)[0, 0]
    assert abs(backwards - scores[3]) > 0.1


@pairings
def test_two_rotations_add_up(pairing):
    x, freqs = data(4, 6), frequencies(6)
    twice = rotate(rotate(x, 5, freqs, pairing), np.array([9, 0, 2, 7]), freqs, pairing)
    np.testing.assert_allclose(twice, rotate(x, np.array([14, 6, 9, 15]), freqs, pairing), rtol=1e-11, atol=1e-12)


@pairings
def test_a_start_position_continues_a_sequence(pairing):
    x, freqs = data(2, 9, 6), frequencies(6)
    whole = rotate(x, 0, freqs, pairing)
    chunks = [rotate(x[:, :4], 0, freqs, pairing), rotate(x[:, 4:5], 4, freqs, pairing)]
    chunks.append(rotate(x[:, 5:], np.int32(5), freqs, pairing))
    assert np.array_equal(np.concatenate(chunks, axis=1), whole)
    assert np.array_equal(rotate(x, np.arange(9), freqs, pairing), whole)
    for dtype in (np.uint8, np.int16, np.uint64):
        assert np.array_equal(rotate(x, np.arange(9).astype(dtype), freqs, pairing), whole)


@pairings
def test_each_row_may_have_positions_of_its_own(pairing):
    x, freqs = data(3, 2, 4, 6), frequencies(6)
    positions = np.array([[0, 1, 2, 3], [5, 6, 7, 8], [0, 0, 90, 4]])
    turned = rotate(x, positions[:, None], freqs, pairing)
    by_head = rotate(x, np.broadcast_to(positions[:, None], (3, 2, 4)), freqs, pairing)
    for b in range(3):
        expected = rotate(x[b], positions[b], freqs, pairing)
        assert np.array_equal(turned[b], expected)
        assert np.array_equal(by_head[b], expected)
    assert np.array_equal(rotate(x[:, 0], positions, freqs, pairing), turned[:, 0])
    shared = rotate(x, np.array([[[1, 4, 9, 16]]]), freqs, pairing)
    assert np.array_equal(shared, rotate(x, np.array([1, 4, 9, 16]), freqs, pairing))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pairings
def test_far_positions_are_exact_in_every_dtype(dtype, pairing):
    x, freqs = data(3, 8).astype(dtype), frequencies(8)
    positions = [2049, 123457, 16777217]  # the first cannot be held in float16, the last not in float32
    expected = naive_rotate(x.astype(np.float64), positions, freqs, pairing)
    turned = rotate(x, np.array(positions), freqs, pairing)
    assert turned.dtype == dtype
    np.testing.assert_allclose(turned, expected, rtol=0, atol=4 * np.finfo(dtype).eps)


def test_frequencies_in_low_precision_are_still_multiplied_in_float64():
    freqs = np.array([1.0, 0.5], dtype=np.float16)
    expected = naive_rotate(data(1, 4), [4099], freqs.astype(np.float64), "half")
    np.testing.assert_allclose(rotate(data(1, 4), 4099, freqs), expected, rtol=1e-12)


def test_one_bad_entry_spoils_its_own_pair_alone():
    x, freqs = data(3, 6), frequencies(6)
    clean = rotate(x, 5, freqs)
    for junk in (NAN, INF, -INF):
        x[1, 1] = junk
        turned = rotate(x, 5, freqs)
        touched = ~np.isclose(turned, clean)
        assert np.argwhere(touched).tolist() == [[1, 1], [1, 4]]


def test_a_float16_that_grows_past_its_range_does_so_without_a_warning():
    largest = np.full((1, 2), 65504, dtype=np.float16)
    assert rotate(largest, 1, np.array([np.pi / 4]))[0, 1] == INF


# --- the two pairings ---------------------------------------------------------------------------------------------


def test_permutations_by_hand():
    w = np.array([[0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15]])
    assert interleaved_to_half(w, 1).tolist() == [[0, 2, 4, 1, 3, 5], [10, 12, 14, 11, 13, 15]]
    assert half_to_interleaved(w, 1).tolist() == [[0, 3, 1, 4, 2, 5], [10, 13, 11, 14, 12, 15]]
    assert interleaved_to_half(np.arange(12), 2).tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
    assert half_to_interleaved(np.arange(12), 2).tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    assert interleaved_to_half(np.arange(12), 6).tolist() == list(range(12))


@pytest.mark.parametrize(("n_heads", "d_head"), [(1, 8), (3, 4), (4, 6), (2, 2)])
def test_permutations_undo_each_other(n_heads, d_head):
    w = data(2, 5, n_heads * d_head)
    assert np.array_equal(half_to_interleaved(interleaved_to_half(w, n_heads), n_heads), w)
    assert np.array_equal(interleaved_to_half(half_to_interleaved(w, n_heads), n_heads), w)


@pytest.mark.parametrize("n_heads", [1, 3])
def test_the_pairings_agree_after_permuting_the_weights(n_heads):
    T, d_model, d_head = 5, 7, 6
    x, w, b = data(T, d_model), data(d_model, n_heads * d_head), data(n_heads * d_head)
    freqs = frequencies(d_head, base=30.0)

    def heads(w, b):
        return (x @ w + b).reshape(T, n_heads, d_head).transpose(1, 0, 2)

    interleaved = rotate(heads(w, b), 3, freqs, "interleaved")
    half = rotate(heads(interleaved_to_half(w, n_heads), interleaved_to_half(b, n_heads)), 3, freqs, "half")
    scores = interleaved @ interleaved.transpose(0, 2, 1)
    np.testing.assert_allclose(half @ half.transpose(0, 2, 1), scores, rtol=1e-11, atol=1e-12)
    order = [0, 2, 4, 1, 3, 5]
    np.testing.assert_allclose(half, interleaved[..., order], rtol=1e-12)
    back = half_to_interleaved(interleaved_to_half(w, n_heads), n_heads)
    assert np.array_equal(rotate(heads(back, b), 3, freqs, "interleaved"), interleaved)
    unpermuted = rotate(heads(w, b), 3, freqs, "half")
    assert np.abs(unpermuted @ unpermuted.transpose(0, 2, 1) - scores).max() > 0.5


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_permutations_copy_and_keep_the_dtype(dtype):
    w = np.arange(24).reshape(2, 12).astype(dtype)
    for function in (interleaved_to_half, half_to_interleaved):
        for n_heads in (2, 6):
            out, before = function(w, n_heads), w.copy()
            assert out.dtype == dtype
            assert not np.shares_memory(out, w)
            out[:] = 0
            assert np.array_equal(w, before)
            assert np.array_equal(function(w, n_heads)[1], function(w[1], n_heads))


# --- the residual stream, turned once -----------------------------------------------------------------------------


def test_rotating_the_stream_once_is_one_rotation_of_full_width():
    x = data(2, 4, 6)
    assert np.array_equal(rotate_stream_once(x), rotate(x, 0, frequencies(6), "interleaved"))
    assert np.array_equal(rotate_stream_once(x, 50.0, 9, "half"), rotate(x, 9, frequencies(6, 50.0), "half"))
    assert np.array_equal(rotate_stream_once(x[..., :1, :]), x[..., :1, :])


def test_rotating_the_stream_once_makes_scores_depend_on_where_they_are():
    x, w_q, w_k = data(2, 6), data(6, 4), data(6, 4, seed=1)

    def score(start, w_q, w_k):
        turned = rotate_stream_once(x, base=10.0, start=start)
        return (turned[1] @ w_q) @ (turned[0] @ w_k)

    assert abs(score(0, w_q, w_k) - score(7, w_q, w_k)) > 0.5
    assert score(0, np.eye(6), np.eye(6)) == pytest.approx(score(7, np.eye(6), np.eye(6)), rel=1e-12)


# --- all ----------------------------------------------------------------------------------------------------------

CALLS = {
    "half": lambda x: rotate(x, 3, frequencies(6), "half"),
    "interleaved": lambda x: rotate(x, 3, frequencies(6), "interleaved"),
    "stream": lambda x: rotate_stream_once(x, start=3),
    "to half": lambda x: interleaved_to_half(x, 3),
    "to interleaved": lambda x: half_to_interleaved(x, 1),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_leading_axes_and_inputs(name, dtype):
    function, x = CALLS[name], data(2, 3, 5, 6).astype(dtype)
    before = x.copy()
    x.flags.writeable = False
    out = function(x)
    assert (out.dtype, out.shape) == (dtype, x.shape)
    assert not np.shares_memory(out, x)
    assert np.array_equal(x, before)
    np.testing.assert_allclose(out, function(x.astype(np.float64)), rtol=0, atol=4 * np.finfo(dtype).eps)
    for b, h in np.ndindex(2, 3):
        assert np.array_equal(out[b, h], function(x[b, h]))


def test_arguments_other_than_x_are_not_changed():
    positions, freqs, scaling = np.array([3, 1, 2]), frequencies(6), dict(YARN)
    copies = positions.copy(), freqs.copy()
    positions.flags.writeable = freqs.flags.writeable = False
    rotate(data(3, 6), positions, freqs)
    frequencies(6, scaling=scaling)
    wavelengths(freqs)
    assert np.array_equal(positions, copies[0])
    assert np.array_equal(freqs, copies[1])
    assert scaling == YARN


def test_integers_become_float64():
    assert rotate(np.ones((2, 4), int), 0, frequencies(4)).dtype == np.float64
    assert rotate([[1, 2, 3, 4]], [1], frequencies(4)).dtype == np.float64


x, freqs = data(2, 3, 4, 6), frequencies(6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: frequencies(7), "d_head must be even, because its entries turn in pairs, got 7"),
        (lambda: frequencies(0), "d_head must be an integer of at least 2, got 0"),
        (lambda: frequencies(-4), "d_head must be an integer of at least 2, got -4"),
        (lambda: frequencies(8.0), r"d_head must be an integer of at least 2, got 8\.0"),
        (lambda: frequencies(8, base=1), "base must be a finite number above 1, got 1"),
        (lambda: frequencies(8, base=-10.0), "base must be a finite number above 1"),
        (lambda: frequencies(8, base=NAN), "base must be a finite number above 1, got nan"),
        (lambda: frequencies(8, base=INF), "base must be a finite number above 1, got inf"),
        (lambda: frequencies(8, base="10000"), "base must be a finite number above 1"),
        (lambda: frequencies(8, length=0), "length must be an integer of at least 1, got 0"),
        (lambda: frequencies(8, scaling=DYNAMIC, length=2.5), r"length must be an integer of at least 1, got 2\.5"),
        (lambda: frequencies(2, scaling=DYNAMIC, length=600), "d_head must be an integer of at least 4, got 2"),
        (lambda: frequencies(8, scaling="linear"), "scaling must be a RopeScaling, a dict .*, got 'linear'"),
        (lambda: frequencies(8, scaling={"kind": "ntk", "factor": 2.0}), "kind must be one of .*'llama3', got 'ntk'"),
        (lambda: frequencies(8, scaling={"factor": 2.0}), r"scaling needs the field 'kind', got \['factor'\]"),
        (lambda: frequencies(8, scaling={"kind": "linear"}), "scaling needs the field 'factor'"),
        (lambda: frequencies(8, scaling=LINEAR | {"rope_type": "linear"}), "scaling has no field 'rope_type'; its"),
        (lambda: attention_factor({"kind": "yarn", "factor": 2.0}), "original_max_len must be an integer .* got None"),
        (lambda: attention_factor(4.0), r"scaling must be a RopeScaling, a dict .*, got 4\.0"),
        (lambda: RopeScaling("linear", 0.5), r"factor must be a finite number of at least 1, got 0\.5"),
        (lambda: RopeScaling("linear", NAN), "factor must be a finite number of at least 1, got nan"),
        (lambda: RopeScaling("linear", None), "factor must be a finite number of at least 1, got None"),
        (lambda: RopeScaling("linear", 2, original_max_len=0), "original_max_len must be an integer of at least 1"),
        (lambda: RopeScaling("dynamic", 2.0), "original_max_len must be an integer of at least 1, got None"),
        (lambda: RopeScaling("llama3", 2.0, 8192.0), r"original_max_len must be an integer .* got 8192\.0"),
        (lambda: RopeScaling(**LLAMA3, low_freq_factor=0), "low_freq_factor must be a finite number above 0, got 0"),
        (lambda: RopeScaling(**LLAMA3, low_freq_factor=4.0), r"high_freq_factor must be .* above 4\.0, got 4\.0"),
        (lambda: RopeScaling(**LLAMA3, high_freq_factor=1), r"high_freq_factor must be .* above 1\.0, got 1"),
        (lambda: RopeScaling(**YARN, beta_slow=0), "beta_slow must be a finite number above 0, got 0"),
        (lambda: RopeScaling(**YARN, beta_fast=0.5), r"beta_fast must be a finite number above 1\.0, got 0\.5"),
        (lambda: RopeScaling(**YARN, attention_factor=-1.0), "attention_factor must be a finite number above 0"),
        (lambda: RopeScaling(**YARN, mscale=0), "mscale must be a finite number above 0, got 0"),
        (lambda: RopeScaling(**YARN, mscale_all_dim=INF), "mscale_all_dim must be a finite number above 0, got inf"),
        (lambda: RopeScaling(**YARN, truncate=1), "truncate must be one of True, False, got 1"),
        (lambda: RopeScaling(**LLAMA3, attention_factor=1.2), "attention_factor belongs to yarn, got it with llama3"),
        (lambda: RopeScaling(**LINEAR, mscale=1.0), "mscale belongs to yarn, got it with linear"),
        (lambda: ntk_base(7, 1e4, 2.0), "d_head must be even"),
        (lambda: ntk_base(2, 1e4, 2.0), "d_head must be an integer of at least 4, got 2"),
        (lambda: ntk_base(8, 1.0, 2.0), "base must be a finite number above 1"),
        (lambda: ntk_base(8, 1e4, 0.9), "factor must be a finite number of at least 1"),
        (lambda: wavelengths(np.array([1.0, 0.0])), r"freqs must be above 0, got 0\.0"),
        (lambda: wavelengths(np.array([1.0, NAN])), "freqs must be above 0, got nan"),
        (lambda: wavelengths(np.zeros(0)), "freqs .* axis pairs is empty"),
        (lambda: rotate(x[..., :5], 0, freqs), "d_head must be even, because its entries turn in pairs, got 5"),
        (lambda: rotate(x[..., :4], 0, freqs), r"freqs \[2\] has shape \(3,\): axis 2 is 3, expected 2"),
        (lambda: rotate(x, 0, freqs[None]), r"freqs \[3\] needs exactly 1 axes, got shape \(1, 3\)"),
        (lambda: rotate(x[0, 0, 0], 0, freqs), r"x \[\.\.\., T, d_head\] needs at least 2 axes, got shape \(6,\)"),
        (lambda: rotate(x[:, :, :0], 0, freqs), "x .* axis T is empty"),
        (lambda: rotate(x.astype(complex), 0, freqs), "x .* must hold real numbers, got dtype complex128"),
        (lambda: rotate(x, -1, freqs), "positions must be an integer of at least 0, got -1"),
        (lambda: rotate(x, 1.0, freqs), r"positions must be an integer of at least 0, got 1\.0"),
        (lambda: rotate(x, True, freqs), "positions must be an integer of at least 0, got True"),
        (lambda: rotate(x, None, freqs), "positions must be an integer of at least 0, got None"),
        (lambda: rotate(x, np.arange(4) - 1, freqs), "positions must be at least 0, got -1"),
        (lambda: rotate(x, np.arange(4.0), freqs), "positions must hold integers, got dtype float64"),
        (lambda: rotate(x, np.ones(4, bool), freqs), "positions must hold integers, got dtype bool"),
        (lambda: rotate(x, np.arange(5), freqs), r"positions has shape \(5,\), expected \(4,\) or \(2, 3, 4\)"),
        (lambda: rotate(x, np.zeros(1, int), freqs), r"positions has shape \(1,\), expected \(4,\)"),
        (lambda: rotate(x, np.zeros(0, int), freqs), r"positions has shape \(0,\), expected \(4,\)"),
        (lambda: rotate(x, np.zeros((2, 4), int), freqs), r"positions has shape \(2, 4\), .* or \(2, 3, 4\)"),
        (lambda: rotate(x, np.zeros((3, 4), int), freqs), r"positions has shape \(3, 4\), .* or \(2, 3, 4\)"),
        (lambda: rotate(x[:, :2], np.zeros((2, 4), int), freqs), r"positions has shape \(2, 4\), .* or \(2, 2, 4\)"),
        (lambda: rotate(x, np.zeros((2, 3, 1), int), freqs), r"positions has shape \(2, 3, 1\)"),
        (lambda: rotate(x, np.zeros((1, 2, 3, 4), int), freqs), r"positions has shape \(1, 2, 3, 4\)"),
        (lambda: rotate(x, 0, freqs, "halves"), "pairing must be one of 'half', 'interleaved', got 'halves'"),
        (lambda: rotate(x, 0, freqs, None), "pairing must be one of 'half', 'interleaved', got None"),
        (lambda: interleaved_to_half(data(5, 12), 5), "w has 12 columns, which do not split into 5 heads of even"),
        (lambda: half_to_interleaved(data(5, 12), 4), "w has 12 columns, which do not split into 4 heads of even"),
        (lambda: interleaved_to_half(data(5, 12), 0), "n_heads must be an integer of at least 1, got 0"),
        (lambda: half_to_interleaved(data(5, 12), 2.0), r"n_heads must be an integer of at least 1, got 2\.0"),
        (lambda: interleaved_to_half(3.0, 1), r"w \[\.\.\., columns\] needs at least 1 axes, got shape \(\)"),
        (lambda: rotate_stream_once(data(4, 7)), "d_model must be even, because its entries turn in pairs, got 7"),
        (lambda: rotate_stream_once(data(6)), r"x \[\.\.\., T, d_model\] needs at least 2 axes"),
        (lambda: rotate_stream_once(data(4, 6), start=-1), "positions must be an integer of at least 0, got -1"),
        (lambda: rotate_stream_once(data(4, 6), base=0.5), "base must be a finite number above 1"),
    ],
)
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
