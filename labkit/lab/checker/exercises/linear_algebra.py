"""The helpers that everything else is written with."""

from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake

_RAGGED = [[1.0, 2.0], [3.0]]


def _anything(a):
    return None


def _rows_by_rows(a, b):
    oracle.matmul(a, b)
    return oracle.matmul(a, oracle.transpose(b), check_inner=False)


MATMUL = Exercise(
    name="matmul",
    chapter=2,
    params=("a", "b"),
    oracle=oracle.matmul,
    cases=(
        Case("matmul_row_times_column", ([[1.0, 2.0, 3.0]], [[4.0], [5.0], [6.0]]), "1·4 + 2·5 + 3·6 = 32."),
        Case(
            "matmul_column_times_row",
            ([[2.0], [3.0]], [[5.0, 7.0]]),
            "a column times a row gives every product of the two.",
        ),
        Case(
            "matmul_by_hand",
            ([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]),
            "entry (i, j) is row i of a times column j of b.",
        ),
        Case(
            "matmul_rectangular",
            (oracle.numbers(1, 2, 3), oracle.numbers(2, 3, 4)),
            "[2, 3] times [3, 4] gives [2, 4].",
        ),
        Case(
            "matmul_identity",
            ([[0.0, 1.0], [2.0, 3.0]], [[1.0, 0.0], [0.0, 1.0]]),
            "times the identity nothing changes.",
        ),
        Case(
            "matmul_rejects_mismatched",
            ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
            "a has 3 columns, b has 2 rows.",
        ),
        Case("matmul_rejects_too_few_columns", ([[1.0]], [[1.0], [2.0]]), "a has 1 column, b has 2 rows."),
        Case("matmul_rejects_ragged_left", (_RAGGED, [[1.0], [2.0]]), "the rows of a differ in length."),
        Case("matmul_rejects_ragged_right", ([[1.0, 2.0]], _RAGGED), "the rows of b differ in length."),
    ),
    mistakes=(
        Mistake(
            "b is transposed: it multiplies rows by rows, not rows by columns.",
            lambda a, b: oracle.matmul(a, oracle.transpose(b)),
            _rows_by_rows,
        ),
        Mistake("a and b have changed places.", lambda a, b: oracle.matmul(b, a)),
        Mistake("the result is transposed.", lambda a, b: oracle.transpose(oracle.matmul(a, b))),
        Mistake("it multiplies entry by entry: sum over the inner axis.", oracle.multiply),
        Mistake(
            "every row of the result is one and the same list: [[0.0] * n] * m makes no new rows.",
            lambda a, b: [oracle.matmul(a, b)[-1]] * len(a),
            lambda a, b: [[sum(column) for column in zip(*oracle.matmul(a, b), strict=True)]] * len(a),
        ),
        Mistake(
            "only the last product is kept: add them up.",
            lambda a, b: oracle.matmul([[0.0] * (len(row) - 1) + row[-1:] for row in a], b),
        ),
        Mistake("the inner sizes are not compared.", partial(oracle.matmul, check_inner=False)),
        Mistake("the rows of a may differ in length.", partial(oracle.matmul, check_a=_anything)),
        Mistake("the rows of b may differ in length.", partial(oracle.matmul, check_b=_anything)),
        Mistake("ragged rows are let through.", partial(oracle.matmul, check_a=_anything, check_b=_anything)),
        Mistake(
            "nothing is checked: mismatched sizes and ragged rows are let through.",
            partial(oracle.matmul, check_a=_anything, check_b=_anything, check_inner=False),
        ),
    ),
    hints=(
        "Three loops: rows of a, columns of b, and the sum over what they share.",
        "Check first: all rows of a one length, all rows of b one length, and len(a[0]) == len(b).",
        "Entry (i, j) is sum(a[i][k] * b[k][j] for k in range(len(b))).",
    ),
)

TRANSPOSE = Exercise(
    name="transpose",
    chapter=2,
    params=("a",),
    oracle=oracle.transpose,
    cases=(
        Case("transpose_row", ([[1.0, 2.0, 3.0]],), "a row becomes a column."),
        Case("transpose_column", ([[1.0], [2.0]],), "a column becomes a row."),
        Case("transpose_rectangular", ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],), "[2, 3] becomes [3, 2]."),
        Case("transpose_square", ([[1.0, 2.0], [3.0, 4.0]],), "entry (i, j) goes to (j, i)."),
        Case("transpose_rejects_ragged", (_RAGGED,), "the rows differ in length."),
        Case("transpose_rejects_ragged_longer_last", ([[1.0], [2.0, 3.0]],), "the rows differ in length."),
    ),
    mistakes=(
        Mistake("the matrix comes back as it was.", lambda a: oracle.transpose(oracle.transpose(a))),
        Mistake(
            "the order of the rows is reversed: that is no transpose.",
            lambda a: oracle.matmul([[1.0]], [[1.0]]) and a[::-1],
        ),
        Mistake(
            "it turns the matrix by a quarter: the columns come in the wrong order.",
            lambda a: oracle.transpose(a)[::-1],
        ),
        Mistake("it turns the matrix by a quarter: each column is upside down.", lambda a: oracle.transpose(a[::-1])),
        Mistake("ragged rows are let through.", partial(oracle.transpose, check=_anything)),
        Mistake(
            "all entries are in one list: make a list of rows.",
            lambda a: [v for row in oracle.transpose(a) for v in row],
        ),
    ),
    hints=(
        "Row i of the result is column i of a.",
        "The result has len(a[0]) rows; row j is [row[j] for row in a]. Check first that all rows have one length.",
    ),
)

ADD_VECTORS = Exercise(
    name="add_vectors",
    chapter=10,
    params=("a", "b"),
    oracle=oracle.add_vectors,
    cases=(
        Case("add_vectors_by_hand", ([1.0, 2.0], [10.0, 30.0]), "the sum is taken entry by entry."),
        Case("add_vectors_one_entry", ([1.5], [-0.25]), "one entry each gives one entry."),
        Case("add_vectors_negative", ([1.0, -2.0, 0.5], [-1.0, 5.0, 0.25]), "the sum is taken entry by entry."),
        Case("add_vectors_rejects_longer_second", ([1.0], [1.0, 2.0]), "the second vector is longer."),
        Case("add_vectors_rejects_longer_first", ([1.0, 2.0, 3.0], [1.0, 2.0]), "the first vector is longer."),
    ),
    mistakes=(
        Mistake("the lists are joined, not added: + joins lists.", lambda a, b: a + b),
        Mistake("the lengths are not compared.", partial(oracle.add_vectors, check=False)),
        Mistake("it subtracts.", partial(oracle.add_vectors, sign=-1)),
        Mistake("it multiplies.", lambda a, b: [x * y for x, y in zip(a, b, strict=True)]),
        Mistake("it adds everything up into one number.", lambda a, b: sum(oracle.add_vectors(a, b))),
        Mistake(
            "a vector of one entry is added to all entries of the other: raise ValueError instead.",
            lambda a, b: [a[0] + y for y in b] if len(a) == 1 else oracle.add_vectors(a, b),
        ),
        Mistake(
            "the shorter vector is filled up with zeros: raise ValueError instead.",
            lambda a, b: oracle.add_vectors(a + [0.0] * (len(b) - len(a)), b + [0.0] * (len(a) - len(b))),
        ),
    ),
    hints=(
        "One loop over both lists at once.",
        "zip(a, b) stops at the shorter list without a word: compare the lengths first.",
    ),
)

ADD_MATRICES = Exercise(
    name="add_matrices",
    chapter=10,
    params=("a", "b"),
    oracle=oracle.add_matrices,
    needs=("add_vectors",),
    cases=(
        Case(
            "add_matrices_by_hand",
            ([[1.0, 2.0], [3.0, 4.0]], [[10.0, 20.0], [30.0, 50.0]]),
            "the sum is taken entry by entry.",
        ),
        Case("add_matrices_one_row", ([[1.0, -1.0, 0.5]], [[2.0, 0.25, 0.5]]), "the sum is taken entry by entry."),
        Case("add_matrices_one_column", ([[1.0], [2.0]], [[0.5], [7.0]]), "the sum is taken entry by entry."),
        Case("add_matrices_rejects_mismatched_rows", ([[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]), "b has more rows."),
        Case("add_matrices_rejects_fewer_rows", ([[1.0], [2.0]], [[1.0]]), "b has fewer rows."),
        Case(
            "add_matrices_rejects_mismatched_columns",
            ([[1.0, 2.0], [3.0, 4.0]], [[1.0], [2.0]]),
            "b has fewer columns.",
        ),
        Case("add_matrices_rejects_ragged", (_RAGGED, [[1.0, 2.0], [3.0, 4.0]]), "a is ragged."),
    ),
    mistakes=(
        Mistake("the rows are put below each other, not added: + joins lists.", lambda a, b: a + b),
        Mistake(
            "the rows are put beside each other, not added: + joins lists.",
            lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
            lambda a, b: [x + y for x, y in zip(a, b, strict=False)],
        ),
        Mistake("the number of rows is not compared.", partial(oracle.add_matrices, check_rows=False)),
        Mistake("the lengths of the rows are not compared.", partial(oracle.add_matrices, check_columns=False)),
        Mistake("no sizes are compared.", partial(oracle.add_matrices, check_rows=False, check_columns=False)),
        Mistake("it subtracts.", partial(oracle.add_matrices, sign=-1)),
        Mistake("it multiplies.", oracle.multiply),
        Mistake(
            "a single row is added to all rows of the other: raise ValueError instead.",
            lambda a, b: oracle.add_matrices(a * len(b) if len(a) == 1 else a, b * len(a) if len(b) == 1 else b),
        ),
    ),
    hints=(
        "Add row to row: you have a function for that.",
        "Compare the number of rows first; add_vectors compares their lengths.",
    ),
)

LINEAR = Exercise(
    name="linear",
    chapter=2,
    params=("x", "w", "b"),
    oracle=oracle.linear,
    needs=("matmul", "add_vectors"),
    cases=(
        Case(
            "linear_weights_are_in_by_out",
            ([[1.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]]),
            "w is [d_in, d_out], applied as x w.",
        ),
        Case(
            "linear_rectangular",
            (oracle.numbers(3, 3, 2), oracle.numbers(4, 2, 4)),
            "[3, 2] times [2, 4] gives [3, 4].",
        ),
        Case(
            "linear_bias",
            ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.5], [0.0, 2.0]], [10.0, 20.0]),
            "the bias is added to every row.",
        ),
        Case(
            "linear_bias_other_width",
            ([[1.0, 2.0]], oracle.numbers(5, 2, 3), [1.0, 2.0, 3.0]),
            "the bias has d_out entries.",
        ),
        Case(
            "linear_rejects_mismatched_weights", ([[1.0, 2.0]], [[1.0], [2.0], [3.0]]), "x has 2 columns, w has 3 rows."
        ),
        Case(
            "linear_rejects_mismatched_bias",
            ([[1.0]], [[1.0, 2.0]], [1.0, 2.0, 3.0]),
            "w has 2 columns, b has 3 entries.",
        ),
    ),
    mistakes=(
        Mistake(
            "w is applied transposed: it is stored [d_in, d_out].",
            lambda x, w, b=None: oracle.linear(x, oracle.transpose(w), b),
        ),
        Mistake("the bias is left out.", lambda x, w, b=None: oracle.linear(x, w)),
        Mistake(
            "the bias is added to the first row only.",
            lambda x, w, b=None: oracle.linear(x[:1], w, b) + oracle.matmul(x, w)[1:],
        ),
        Mistake("the bias is subtracted.", lambda x, w, b=None: oracle.linear(x, w, b and oracle.negated(b))),
        Mistake(
            "the bias is added before the weights: x w + b, not (x + b) w.",
            lambda x, w, b=None: oracle.matmul([oracle.add_vectors(row, b) for row in x] if b else x, w),
        ),
        Mistake(
            "the bias multiplies: add it.",
            lambda x, w, b=None: [
                [v * c for v, c in zip(row, b or [1.0] * len(row), strict=True)] for row in oracle.matmul(x, w)
            ],
        ),
        Mistake(
            "the length of the bias is not compared.",
            lambda x, w, b=None: oracle.linear(x, w, b and b[: len(w[0])]),
        ),
    ),
    hints=(
        "One matrix product, and one addition for each row.",
        "x @ W, in the order of the letters: matmul(x, w). b may be None.",
    ),
)
