import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.embedding import add_positions, embed, one_hot, unembed

IDS = np.array([1, 5, 9, 2])
check = settings(max_examples=40, deadline=None, derandomize=True)


def data(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


# --- embed --------------------------------------------------------------------------------------------------------


def test_embed_gathers_rows():
    table = data(10, 3)
    assert embed(IDS, table).tolist() == [table[1].tolist(), table[5].tolist(), table[9].tolist(), table[2].tolist()]
    assert embed([0, 9, 0], table)[0].tolist() == embed([0, 9, 0], table)[2].tolist() == table[0].tolist()


@check
@given(st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=4))
def test_embed_is_one_hot_times_table(rows):
    table = data(7, 5)
    assert np.array_equal(embed(rows, table), one_hot(rows, 7) @ table)
    assert embed(rows, table).shape == (len(rows), 3, 5)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.uint64])
def test_embed_takes_ids_of_any_integer_kind(dtype):
    assert np.array_equal(embed(IDS.astype(dtype), data(10, 3)), data(10, 3)[IDS])


def test_the_same_id_gets_the_same_vector_wherever_it_stands():
    table, order = data(10, 3), [2, 0, 3, 1]
    assert np.array_equal(embed(IDS[order], table), embed(IDS, table)[order])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_embed_keeps_the_dtype_and_copies(dtype):
    table = (10 * data(10, 3)).astype(dtype)
    out = embed(np.array([[1, 5], [9, 2]]), table)
    assert (out.dtype, out.shape) == (dtype, (2, 2, 3))
    assert not np.shares_memory(out, table)


# --- one_hot ------------------------------------------------------------------------------------------------------


def test_one_hot_closed_form():
    assert one_hot([2, 0], 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert one_hot([[1], [0]], 2).tolist() == [[[0, 1]], [[1, 0]]]
    assert one_hot([2, 0], 3).dtype == np.float64
    assert one_hot([0], 1).tolist() == [[1]]


# --- unembed ------------------------------------------------------------------------------------------------------


def test_unembed_is_a_dot_product_with_every_row():
    x, table = data(2, 3, 4), data(7, 4)
    naive = [[[sum(a * b for a, b in zip(vector, row, strict=True)) for row in table] for vector in seq] for seq in x]
    np.testing.assert_allclose(unembed(x, table), naive, rtol=1e-12)
    assert unembed(np.array([1.0, 2.0]), np.array([[3.0, 4.0], [5.0, 6.0], [0.0, -1.0]])).tolist() == [11, 17, -2]


def test_tied_and_untied_heads_are_one_function():
    table, head = data(10, 32), data(10, 32, seed=1)
    x = embed(IDS, table)
    assert unembed(x, table).argmax(axis=-1).tolist() == IDS.tolist()
    np.testing.assert_allclose(unembed(x, head), one_hot(IDS, 10) @ table @ head.T, rtol=1e-12)


def test_halves_add_up_in_float32():
    x = np.ones(4096, dtype=np.float16)
    x[0] = 2048  # in float16, 2048 + 1 is 2048
    assert unembed(x, np.ones((2, 4096), dtype=np.float16)).tolist() == [6144, 6144]


# --- add_positions ------------------------------------------------------------------------------------------------


def test_add_positions_closed_form():
    x, table = np.array([[10.0, 20.0], [30.0, 40.0]]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert add_positions(x, table).tolist() == [[11, 22], [33, 44]]
    assert add_positions(x, table, start=1).tolist() == [[13, 24], [35, 46]]


def test_positions_go_on_where_the_cache_ends():
    x, table = data(2, 7, 3), data(7, 3)
    whole = add_positions(x, table)
    for cuts in ([3, 4], [1, 1, 1, 1, 1, 1, 1], [5, 2], [7]):
        ends = np.cumsum(cuts)
        parts = [
            add_positions(x[:, end - cut : end], table, start=end - cut) for cut, end in zip(cuts, ends, strict=True)
        ]
        assert np.array_equal(np.concatenate(parts, axis=1), whole)
    assert np.array_equal(add_positions(x[:, :1], table, start=6), x[:, :1] + table[6])


def test_a_token_alone_does_not_know_its_position_but_after_this_it_does():
    table, positions = data(10, 3), data(4, 3, seed=1)
    x = embed([5, 5, 5, 5], table)
    assert np.unique(x, axis=0).shape == (1, 3)
    assert np.unique(add_positions(x, positions), axis=0).shape == (4, 3)


# --- all ----------------------------------------------------------------------------------------------------------

CALLS = {
    "unembed": (unembed, ((2, 3, 5), (7, 5))),
    "add_positions": (add_positions, ((2, 3, 5), (7, 5))),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_leading_axes_and_inputs(name, dtype):
    function, shapes = CALLS[name]
    arrays = [data(*shape).astype(dtype) for shape in shapes]
    copies = [each.copy() for each in arrays]
    for each in arrays:
        each.flags.writeable = False
    out = function(*arrays)
    assert out.dtype == dtype
    assert all(np.array_equal(each, copy) for each, copy in zip(arrays, copies, strict=True))
    assert not any(np.shares_memory(out, each) for each in arrays)
    tolerance = 8 * np.finfo(dtype).eps
    exact = function(*(each.astype(np.float64) for each in arrays))
    np.testing.assert_allclose(out, exact, rtol=tolerance, atol=tolerance)
    for b in range(2):
        np.testing.assert_allclose(out[b], function(arrays[0][b], arrays[1]), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("function", [embed, one_hot])
def test_ids_are_batched_and_stay_as_they_are(function):
    ids = np.array([[[1, 5, 2], [0, 0, 3]], [[4, 4, 6], [6, 1, 0]]])
    before = ids.copy()
    ids.flags.writeable = False
    second = {embed: data(7, 5), one_hot: 7}[function]
    out = function(ids, second)
    assert np.array_equal(ids, before)
    for index in np.ndindex(2, 2):
        assert np.array_equal(out[index], function(ids[index], second))


@pytest.mark.parametrize("function", [unembed, add_positions])
def test_integers_become_float64(function):
    assert function(np.arange(6).reshape(2, 3), np.arange(12).reshape(4, 3)).dtype == np.float64


x, table = data(4, 3), data(10, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: embed([1, 10], table), r"token_ids must lie in 0 … 9 \(vocab_size = 10\), got 10"),
        (lambda: embed([1, -1], table), "token_ids must lie in 0 … 9 .* got -1"),
        (lambda: embed([[1, 2], [3, -7]], table), "token_ids must lie in 0 … 9 .* got -7"),
        (lambda: embed([1.0, 2.0], table), "token_ids must hold integers, got dtype float64"),
        (lambda: embed([1.5, 2.0], table), "token_ids must hold integers, got dtype float64"),
        (lambda: embed([True, False], table), "token_ids must hold integers, got dtype bool"),
        (lambda: embed(["a"], table), r"token_ids \[\.\.\., T\] must hold real numbers"),
        (lambda: embed([], table), r"token_ids \[\.\.\., T\] has shape \(0,\): axis T is empty"),
        (lambda: embed(np.zeros((2, 0), int), table), "token_ids .* axis T is empty"),
        (lambda: embed(5, table), r"token_ids \[\.\.\., T\] needs at least 1 axes, got shape \(\)"),
        (lambda: embed([np.nan], table), "token_ids must hold integers, got dtype float64"),
        (lambda: embed([1], table[0]), r"table \[vocab_size, d_model\] needs exactly 2 axes, got shape \(3,\)"),
        (lambda: embed([1], table[None]), r"table \[vocab_size, d_model\] needs exactly 2 axes"),
        (lambda: embed([0], table[:0]), "table .* axis vocab_size is empty"),
        (lambda: embed([0], table[:, :0]), "table .* axis d_model is empty"),
        (lambda: one_hot([1, 3], 3), r"token_ids must lie in 0 … 2 \(vocab_size = 3\), got 3"),
        (lambda: one_hot([1, -1], 3), "token_ids must lie in 0 … 2 .* got -1"),
        (lambda: one_hot([1.0], 3), "token_ids must hold integers, got dtype float64"),
        (lambda: one_hot([], 3), "token_ids .* axis T is empty"),
        (lambda: one_hot(1, 3), "token_ids .* needs at least 1 axes"),
        (lambda: one_hot([1], 0), "vocab_size must be an integer of at least 1, got 0"),
        (lambda: one_hot([1], 3.0), "vocab_size must be an integer of at least 1, got 3.0"),
        (lambda: one_hot([1], None), "vocab_size must be an integer of at least 1, got None"),
        (lambda: unembed(x, data(10, 4)), "table .* axis d_model is 4, but x has d_model = 3"),
        (lambda: unembed(x, table.T), "table .* axis d_model is 10, but x has d_model = 3"),
        (lambda: unembed(2.0, table), r"x \[\.\.\., d_model\] needs at least 1 axes"),
        (lambda: unembed(x, table[None]), "table .* needs exactly 2 axes"),
        (lambda: unembed(x + 1j, table), "x .* must hold real numbers"),
        (lambda: add_positions(x, data(10, 4)), "table .* axis d_model is 4, but x has d_model = 3"),
        (lambda: add_positions(x, data(3, 3)), "positions 0 … 3 do not fit a table of max_len = 3"),
        (lambda: add_positions(x, table, start=7), "positions 7 … 10 do not fit a table of max_len = 10"),
        (lambda: add_positions(x[:1], table, start=10), "positions 10 … 10 do not fit a table of max_len = 10"),
        (lambda: add_positions(x, table, start=-1), "start must be an integer of at least 0, got -1"),
        (lambda: add_positions(x, table, start=1.0), "start must be an integer of at least 0, got 1.0"),
        (lambda: add_positions(x, table, start=True), "start must be an integer of at least 0, got True"),
        (lambda: add_positions(x, table, start=None), "start must be an integer of at least 0, got None"),
        (lambda: add_positions(x[0], table), r"x \[\.\.\., T, d_model\] needs at least 2 axes"),
        (lambda: add_positions(x[:0], table), "x .* axis T is empty"),
        (lambda: add_positions(x, table[None]), "table .* needs exactly 2 axes"),
    ],
)  # fmt: skip
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
