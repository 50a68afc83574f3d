"""Chapter 1: tables that are looked up, added and shared."""

from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake

_TABLE = oracle.numbers(91, 5, 3)
_X = oracle.numbers(92, 2, 3)

EMBED = Exercise(
    name="embed",
    chapter=1,
    params=("token_ids", "table"),
    oracle=oracle.embed,
    cases=(
        Case("embed_one", ([1], [[1.0, 2.0], [3.0, 4.0]]), "row i of the table is the vector of token i."),
        Case("embed_several", ([4, 0, 4, 2], _TABLE), "one row for each token, in the order of the tokens."),
        Case("embed_rejects_token_past_the_table", ([1, 5], _TABLE), "the table has 5 rows: token 5 is past its end."),
        Case(
            "embed_rejects_negative_token",
            ([-1], _TABLE),
            "a token id is not negative: −1 would silently take the last row.",
        ),
    ),
    mistakes=(
        Mistake("columns are taken, not rows.", lambda ids, table: oracle.embed(ids, oracle.transpose(table))),
        Mistake(
            "tokens count from 1: they count from 0.", lambda ids, table: oracle.embed([t - 1 for t in ids], table)
        ),
        Mistake(
            "the rows come in the order of the table: keep the order of the tokens.",
            lambda ids, table: oracle.embed(sorted(ids), table),
        ),
        Mistake(
            "a token that comes twice is looked up once: one row for each token.",
            lambda ids, table: oracle.embed(list(dict.fromkeys(ids)), table),
        ),
        Mistake(
            "token ids are not checked: a negative one silently takes a row from the end.",
            partial(oracle.embed, check=False),
            lambda ids, table: (
                oracle.embed(ids, table) if max(ids) >= len(table) else oracle.embed(ids, table, check=False)
            ),
        ),
        Mistake(
            "an id out of range is brought back into range: raise ValueError.",
            lambda ids, table: oracle.embed([t % len(table) for t in ids], table),
            lambda ids, table: oracle.embed([min(max(t, 0), len(table) - 1) for t in ids], table),
        ),
    ),
    hints=("No arithmetic at all: take rows.", "[table[t] for t in token_ids], after checking 0 <= t < len(table)."),
)

ADD_POSITIONS = Exercise(
    name="add_positions",
    chapter=1,
    params=("x", "table", "start"),
    oracle=oracle.add_positions,
    needs=("add_vectors",),
    extension=True,
    cases=(
        Case(
            "add_positions_by_hand",
            ([[1.0, 2.0]], [[10.0, 20.0], [30.0, 40.0]]),
            "row 0 gets the vector of position 0.",
        ),
        Case("add_positions_two_rows", (_X, _TABLE), "row t gets the vector of position t."),
        Case("add_positions_start", (_X, _TABLE, 2), "with `start` tokens cached, row t is at position start + t."),
        Case("add_positions_last_that_fit", (_X, _TABLE, 3), "positions 3 and 4 are the last of 5."),
        Case(
            "add_positions_rejects_past_the_table",
            (_X, _TABLE, 4),
            "position 5 is past a table of 5: it was never learned.",
        ),
    ),
    mistakes=(
        Mistake(
            "start is not used: positions go on after the cached tokens.",
            lambda x, table, start=0: oracle.add_positions(x, table),
        ),
        Mistake(
            "every row gets the same position.",
            lambda x, table, start=0: [oracle.add_vectors(row, table[start]) for row in x],
        ),
        Mistake("positions count from 1.", lambda x, table, start=0: oracle.add_positions(x, table, start + 1)),
        Mistake(
            "a position past the table is let through: raise ValueError.",
            lambda x, table, start=0: [
                oracle.add_vectors(row, table[(start + t) % len(table)]) for t, row in enumerate(x)
            ],
            lambda x, table, start=0: [
                oracle.add_vectors(row, table[min(start + t, len(table) - 1)]) for t, row in enumerate(x)
            ],
            lambda x, table, start=0: oracle.add_positions(x[: len(table) - start], table, start),
            partial(oracle.add_positions, check=False),
        ),
        Mistake(
            "the position vectors replace x: add them.",
            lambda x, table, start=0: (
                table[start : start + len(x)] if start + len(x) <= len(table) else oracle.add_positions(x, table, start)
            ),
        ),
        Mistake(
            "the position vectors multiply x: add them.",
            lambda x, table, start=0: (
                oracle.multiply(x, table[start : start + len(x)])
                if start + len(x) <= len(table)
                else oracle.add_positions(x, table, start)
            ),
        ),
        Mistake(
            "the position vectors are subtracted.",
            lambda x, table, start=0: oracle.add_positions(x, oracle.negated(table), start),
        ),
    ),
    hints=(
        "A lookup by position, and an addition.",
        "Row t gets table[start + t]; check that start + len(x) <= len(table).",
    ),
)

TIED_LOGITS = Exercise(
    name="tied_logits",
    chapter=1,
    params=("x", "embed"),
    oracle=oracle.tied_logits,
    needs=("matmul", "transpose"),
    extension=True,
    cases=(
        Case(
            "tied_logits_by_hand",
            ([[1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0], [3.0, 1.0]]),
            "logit i is the dot product of x with row i of the table.",
        ),
        Case(
            "tied_logits_square",
            ([[1.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]]),
            "the table is transposed: logit i comes from row i.",
        ),
        Case("tied_logits_rectangular", (_X, _TABLE), "[2, 3] with a table [5, 3] gives [2, 5]."),
        Case("tied_logits_rejects_mismatched", ([[1.0, 2.0]], _TABLE), "x has 2 columns, the table 3."),
    ),
    mistakes=(
        Mistake("the table is not transposed.", lambda x, e: oracle.matmul(x, e)),
        Mistake(
            "it returns weights: logits are asked for, without a softmax.",
            lambda x, e: [oracle.softmax(row) for row in oracle.tied_logits(x, e)],
        ),
        Mistake(
            "it is divided by √d_model: attention's scores are, logits are not.",
            lambda x, e: oracle.scaled(oracle.tied_logits(x, e), len(x[0]) ** -0.5),
        ),
        Mistake(
            "only the last row comes back.",
            lambda x, e: oracle.tied_logits(x[-1:], e),
            lambda x, e: oracle.tied_logits(x[-1:], e)[0],
        ),
        Mistake(
            "the result is transposed: one row for each position.",
            lambda x, e: oracle.transpose(oracle.tied_logits(x, e)),
        ),
        Mistake(
            "the rows of the table are normalised first: take them as they are.",
            lambda x, e: oracle.tied_logits(x, [oracle.scaled(row, sum(v * v for v in row) ** -0.5) for row in e]),
        ),
        Mistake(
            "widths that differ are let through: raise ValueError.",
            lambda x, e: oracle.matmul(x, oracle.transpose(e), check_inner=False),
        ),
    ),
    hints=("Every row of the table is compared with x.", "matmul(x, transpose(embed)): no weights of its own."),
)
