import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.sampling import greedy, min_p_filter, sample, top_k_filter, top_p_filter
from labkit.softmax import softmax

INF, NAN = np.inf, np.nan
check = settings(max_examples=60, deadline=None, derandomize=True)
P = np.array([0.05, 0.4, 0.1, 0.25, 0.2])
rows_of_logits = st.lists(st.floats(-20, 20) | st.just(-INF), min_size=1, max_size=8).filter(
    lambda row: max(row) > -INF
)


def generator(seed=0):
    return np.random.default_rng(seed)


def data(*shape, seed=0):
    return generator([seed, *shape]).normal(size=shape)


def kept(filtered):
    return np.flatnonzero(filtered > -INF).tolist()


def shares(logits, n=40_000, **settings):
    drawn = sample(np.broadcast_to(logits, (n, len(logits))), generator(), **settings)
    return np.bincount(drawn, minlength=len(logits)) / n


# --- greedy -------------------------------------------------------------------------------------------------------


def test_greedy_closed_forms():
    assert greedy([0.1, 0.9, 0.3]) == 1
    assert greedy([[0.1, 0.9, 0.9], [2.0, -1.0, 0.0]]).tolist() == [1, 0]
    assert greedy([-INF, -1e300, -INF]) == 1
    assert greedy([5, 7, 7], generator()) == 1
    assert greedy(np.array([0, 200], dtype=np.uint8)) == 1


# --- filters ------------------------------------------------------------------------------------------------------


def test_top_k_closed_forms():
    logits = np.array([1.0, 3.0, 2.0, 3.0])
    assert top_k_filter(logits, 1).tolist() == [-INF, 3, -INF, -INF]
    assert top_k_filter(logits, 2).tolist() == [-INF, 3, -INF, 3]
    assert top_k_filter(logits, 3).tolist() == [-INF, 3, 2, 3]
    assert top_k_filter(logits, 4).tolist() == logits.tolist()
    assert top_k_filter(logits, 99).tolist() == logits.tolist()
    assert top_k_filter(np.zeros(5), 3).tolist() == [0, 0, 0, -INF, -INF]
    assert kept(top_k_filter([-INF, 1.0, -INF, 0.0], 3)) == [1, 3]


def test_top_p_closed_forms():
    # in order of size: 0.4, 0.25, 0.2, 0.1, 0.05 at ids 1, 3, 4, 2, 0
    for p, ids in (
        (1e-9, [1]),
        (0.39, [1]),
        (0.4, [1]),
        (0.41, [1, 3]),
        (0.65, [1, 3]),
        (0.66, [1, 3, 4]),
        (0.96, [0, 1, 2, 3, 4]),
    ):
        assert kept(top_p_filter(np.log(P), p)) == ids
    assert top_p_filter(np.log(P), 0.5)[[1, 3]].tolist() == np.log(P)[[1, 3]].tolist()
    assert kept(top_p_filter([0.0, -1000.0, -INF], 1)) == [0, 1]
    assert kept(top_p_filter([0.0, -INF, -INF], 0.99)) == [0]


@pytest.mark.parametrize("n", [2, 3, 7, 10, 49, 1000])
def test_top_p_of_equal_shares_is_exact(n):
    for k in {1, 2, n // 2, n - 1, n} - {0}:
        assert kept(top_p_filter(np.full(n, -3.3), k / n)) == list(range(k))


def test_min_p_closed_forms():
    for p, ids in (
        (0, [0, 1, 2, 3, 4]),
        (0.125, [0, 1, 2, 3, 4]),
        (0.13, [1, 2, 3, 4]),
        (0.5, [1, 3, 4]),
        (0.51, [1, 3]),
        (1, [1]),
    ):
        assert kept(min_p_filter(np.log(P), p)) == ids
    assert kept(min_p_filter(np.log([0.6, 0.3, 0.1]), 0.5)) == [0, 1]
    assert kept(min_p_filter([2.0, 2.0, -INF], 1)) == [0, 1]
    assert kept(min_p_filter([2.0, 2.0, -INF], 0)) == [0, 1]


@check
@given(rows_of_logits, st.integers(1, 9), st.floats(0.01, 1), st.floats(0, 1))
def test_filters_keep_the_likeliest_and_only_take_away(row, k, p, least):
    row = np.array(row)
    possible = kept(row)
    for filtered in (top_k_filter(row, k), top_p_filter(row, p), min_p_filter(row, least)):
        survivors = kept(filtered)
        assert greedy(row) in survivors
        assert set(survivors) <= set(possible)
        assert filtered[survivors].tolist() == row[survivors].tolist()
        assert row[survivors].min() >= np.delete(row, survivors).max(initial=-INF)
    assert len(kept(top_k_filter(row, k))) == min(k, len(possible))
    weights, survivors = softmax(row), kept(top_p_filter(row, p))
    assert weights[survivors].sum() >= p - 1e-9
    assert weights[survivors].sum() - weights[survivors].min() < p + 1e-9
    assert np.all(weights[kept(min_p_filter(row, least))] >= least * weights.max() - 1e-9)


def test_filters_work_row_by_row():
    logits = data(2, 3, 7)
    for function in (lambda x: top_k_filter(x, 3), lambda x: top_p_filter(x, 0.6), lambda x: min_p_filter(x, 0.3)):
        out = function(logits)
        for index in np.ndindex(2, 3):
            assert np.array_equal(out[index], function(logits[index]))


# --- sample -------------------------------------------------------------------------------------------------------


def close(expected):
    return pytest.approx(expected, abs=4 * math.sqrt(0.25 / 40_000))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_in_proportion_to_the_softmax(temperature):
    expected = P ** (1 / temperature) / (P ** (1 / temperature)).sum()
    assert shares(np.log(P), temperature=temperature) == close(expected)
    assert shares(np.log(P) + 1000, temperature=temperature) == close(expected)


def test_filters_renormalise():
    assert shares(np.log(P), top_k=2) == close([0, 0.4 / 0.65, 0, 0.25 / 0.65, 0])
    assert shares(np.log(P), top_p=0.8) == close([0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85])
    assert shares(np.log(P), min_p=0.6) == close([0, 0.4 / 0.65, 0, 0.25 / 0.65, 0])


def test_the_order_is_temperature_top_k_top_p_min_p():
    # at temperature 1/2 the shares are 0.0025, 0.16, 0.01, 0.0625, 0.04 of 0.275: token 1 alone holds 58 %
    assert shares(np.log(P), temperature=0.5, top_p=0.58) == close([0, 1, 0, 0, 0])
    assert shares(np.log(P), temperature=0.5, min_p=0.26) == close([0, 0.16 / 0.2225, 0, 0.0625 / 0.2225, 0])
    # of the two best, 0.4 and 0.25, the first holds 61.5 %; of all five, only 40 %
    assert shares(np.log(P), top_k=2, top_p=0.6) == close([0, 1, 0, 0, 0])
    assert shares(np.log(P), top_k=3, top_p=0.9, min_p=0.55) == close([0, 0.4 / 0.65, 0, 0.25 / 0.65, 0])


def test_temperature_zero_is_greedy_and_a_cold_one_nearly():
    logits = data(50, 9)
    for temperature in (0, 0.0, 1e-9, 5e-324):
        assert sample(logits, generator(), temperature=temperature).tolist() == greedy(logits).tolist()
    assert sample([1.0, 1.0], generator(), temperature=0) == 0
    assert sample(logits, generator(), temperature=0, top_k=2, top_p=0.5, min_p=0.1).tolist() == greedy(logits).tolist()
    assert shares([3.0, 3.0, 1.0], temperature=1e-300) == close([0.5, 0.5, 0])


def test_a_hot_temperature_draws_evenly():
    assert shares([0.0, 5.0, -INF, -5.0], temperature=1e300) == close([1 / 3, 1 / 3, 0, 1 / 3])


def test_top_k_of_one_is_greedy():
    logits = data(50, 9)
    for settings_ in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1}):
        assert sample(logits, generator(), **settings_).tolist() == greedy(logits).tolist()


@pytest.mark.parametrize("settings_", [{}, {"top_k": 5}, {"top_p": 1}, {"min_p": 0}, {"temperature": 100}])
def test_a_padded_vocabulary_is_never_drawn(settings_):
    logits = np.array([-INF, 0.0, -INF, 1.0, -INF])
    drawn = sample(np.broadcast_to(logits, (5000, 5)), generator(), **settings_)
    assert np.unique(drawn).tolist() == [1, 3]


class Fixed(np.random.Generator):
    """A generator whose draws are known: the ends of [0, 1) included."""

    def __init__(self, value):
        super().__init__(np.random.PCG64(0))
        self.value = value

    def random(self, size=None):
        return np.full(size, self.value)


@pytest.mark.parametrize("n", [3, 10, 1000])
def test_the_ends_of_the_unit_interval_draw_possible_tokens(n):
    logits = np.full(n + 2, 0.1)
    logits[[0, -1]] = -INF
    assert sample(logits, Fixed(0.0)) == 1
    assert sample(logits, Fixed(np.nextafter(1, 0))) == n
    assert sample(np.log(P), Fixed(0.449)) == 1
    assert sample(np.log(P), Fixed(0.451)) == 2


def test_draws_come_from_the_generator_alone_and_one_a_row():
    logits = data(6, 9)
    first, again, other = (sample(logits, generator(seed)).tolist() for seed in (1, 1, 2))
    assert first == again
    assert first != other
    rng = generator(1)
    assert [int(sample(row, rng)) for row in logits] == first


def test_samplers_can_stand_for_one_another():
    logits = data(9)
    for sampler in (greedy, sample, functools.partial(sample, temperature=0.7, top_k=3)):
        token = sampler(logits, generator())
        assert 0 <= token < 9
        assert np.shape(token) == ()
        assert np.issubdtype(np.asarray(token).dtype, np.integer)


# --- all ----------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "greedy": greedy,
    "sample": lambda x: sample(x, generator(), temperature=0.8, top_k=4, top_p=0.9, min_p=0.05),
    "top_k": lambda x: top_k_filter(x, 3),
    "top_p": lambda x: top_p_filter(x, 0.7),
    "min_p": lambda x: min_p_filter(x, 0.2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes_and_inputs(name, dtype):
    logits = data(2, 3, 7).astype(dtype)
    before = logits.copy()
    logits.flags.writeable = False
    out = FUNCTIONS[name](logits)
    assert np.array_equal(logits, before)
    assert not np.shares_memory(out, logits)
    if name in ("greedy", "sample"):
        assert (out.shape, out.dtype.kind) == ((2, 3), "i")
    else:
        assert (out.shape, out.dtype) == ((2, 3, 7), dtype)


@pytest.mark.parametrize("name", ["top_k", "top_p", "min_p"])
def test_integer_logits_become_float64(name):
    assert FUNCTIONS[name](np.array([3, 1, 2, 7])).dtype == np.float64


rng = generator()


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([1.0, NAN], r"logits must be finite or −inf, got NaN or \+inf"),
        ([1.0, INF], r"logits must be finite or −inf, got NaN or \+inf"),
        ([-INF, -INF], "logits must leave at least one token in each row"),
        ([[1.0, 2.0], [-INF, -INF]], "logits must leave at least one token in each row"),
        ([], r"logits \[\.\.\., vocab_size\] has shape \(0,\): axis vocab_size is empty"),
        (1.0, r"logits \[\.\.\., vocab_size\] needs at least 1 axes"),
        (["a", "b"], "logits .* must hold real numbers"),
        ([1j, 2], "logits .* must hold real numbers, got dtype complex128"),
    ],
)
def test_bad_logits(function, logits, message):
    with pytest.raises(ValueError, match=message):
        function(logits)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample(P, rng, temperature=-0.1), "temperature must be a finite number of at least 0, got -0.1"),
        (lambda: sample(P, rng, temperature=NAN), "temperature must be a finite number of at least 0, got nan"),
        (lambda: sample(P, rng, temperature=INF), "temperature must be a finite number of at least 0, got inf"),
        (lambda: sample(P, rng, temperature="1"), "temperature must be a finite number of at least 0, got '1'"),
        (lambda: sample(P, rng, temperature=None), "temperature must be a finite number of at least 0, got None"),
        (lambda: sample(P, rng, temperature=True), "temperature must be a finite number of at least 0, got True"),
        (lambda: sample(P, 0), r"rng must be a numpy\.random\.Generator, got 0"),
        (lambda: sample(P, None), r"rng must be a numpy\.random\.Generator, got None"),
        (lambda: sample(P, np.random), r"rng must be a numpy\.random\.Generator"),
        (lambda: sample(P, None, temperature=0), r"rng must be a numpy\.random\.Generator, got None"),
        (lambda: sample(P, rng, top_k=0), "top_k must be an integer of at least 1, got 0"),
        (lambda: sample(P, rng, top_k=2.0), "top_k must be an integer of at least 1, got 2.0"),
        (lambda: sample(P, rng, top_p=0), "top_p must be a finite number above 0, got 0"),
        (lambda: sample(P, rng, top_p=1.1), "top_p must be at most 1, got 1.1"),
        (lambda: sample(P, rng, min_p=-0.1), "min_p must be a finite number of at least 0, got -0.1"),
        (lambda: sample(P, rng, min_p=2), "min_p must be at most 1, got 2"),
        (lambda: sample(P, rng, temperature=0, top_k=0), "top_k must be an integer of at least 1, got 0"),
        (lambda: top_k_filter(P, 0), "top_k must be an integer of at least 1, got 0"),
        (lambda: top_k_filter(P, -1), "top_k must be an integer of at least 1, got -1"),
        (lambda: top_k_filter(P, 1.5), "top_k must be an integer of at least 1, got 1.5"),
        (lambda: top_k_filter(P, None), "top_k must be an integer of at least 1, got None"),
        (lambda: top_k_filter(P, True), "top_k must be an integer of at least 1, got True"),
        (lambda: top_p_filter(P, 0), "top_p must be a finite number above 0, got 0"),
        (lambda: top_p_filter(P, -0.5), "top_p must be a finite number above 0, got -0.5"),
        (lambda: top_p_filter(P, 1.0001), "top_p must be at most 1, got 1.0001"),
        (lambda: top_p_filter(P, NAN), "top_p must be a finite number above 0, got nan"),
        (lambda: top_p_filter(P, None), "top_p must be a finite number above 0, got None"),
        (lambda: min_p_filter(P, -0.5), "min_p must be a finite number of at least 0, got -0.5"),
        (lambda: min_p_filter(P, 1.5), "min_p must be at most 1, got 1.5"),
        (lambda: min_p_filter(P, INF), "min_p must be a finite number of at least 0, got inf"),
    ],
)
def test_bad_settings_say_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
