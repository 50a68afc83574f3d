"""Chapter 3: softmax and what belongs to it."""

import math
from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake, Sign
from ..oracle import INF


def _lowest(x):
    return min(s for s in x if s > -INF)


def _not_one(args, expected, got):
    return not math.isclose(sum(got), 1, rel_tol=1e-6)


def _not_finite(args, expected, got):
    return any(w != w or w in (INF, -INF) for w in got)


def _leaks(args, expected, got):
    return any(s == -INF and w != 0 for s, w in zip(args[0], got, strict=True))


def _all_masked(args, expected, got):
    return all(s == -INF for s in args[0])


SOFTMAX = Exercise(
    name="softmax",
    chapter=3,
    params=("x",),
    oracle=oracle.softmax,
    cases=(
        Case("softmax_by_hand", ([0.0, math.log(3.0)],), "exp turns differences of scores into ratios of weights."),
        Case("softmax_three_scores", ([1.0, 2.0, 4.0],), "weight j is exp(x_j) / Σ_k exp(x_k)."),
        Case("softmax_sums_to_one", ([0.3, -1.2, 2.0, 0.7],), "the weights of a row sum to 1."),
        Case("softmax_of_one_score", ([-7.5],), "a single score gets all the weight."),
        Case("softmax_shift_invariant", ([3.0, 5.0, 4.5],), "adding the same number to every score changes nothing."),
        Case(
            "softmax_numerically_stable_large_logits",
            ([1002.0, 1000.0, 999.0],),
            "exp(1002) is too large for a float: subtract the maximum first.",
        ),
        Case("softmax_stable_for_very_negative_scores", ([-1002.0, -1001.0],), "subtract the maximum first."),
        Case("softmax_stable_for_a_large_spread", ([0.0, 0.0, 0.0, 1500.0],), "subtract the maximum first."),
        Case("softmax_stable_for_two_large_scores", ([0.0, 800.0, 800.0],), "subtract the maximum first."),
        Case("softmax_minus_infinity_gets_zero", ([0.5, -INF, 1.5],), "a score of −inf gets the weight 0, exactly."),
        Case("softmax_minus_infinity_first", ([-INF, 2.0],), "a score of −inf gets the weight 0, exactly."),
        Case(
            "softmax_row_of_minus_infinity",
            ([-INF, -INF],),
            "a row of nothing but −inf has nothing to share out: return zeros.",
        ),
    ),
    mistakes=(
        Mistake("the maximum is not subtracted before exp.", partial(oracle.softmax, top=lambda x: 0.0)),
        Mistake(
            "the minimum is subtracted, not the maximum: exp still overflows.",
            partial(oracle.softmax, top=min),
            partial(oracle.softmax, top=_lowest),
        ),
        Mistake(
            "the mean is subtracted, not the maximum: exp can still overflow.",
            partial(oracle.softmax, top=lambda x: sum(x) / len(x)),
        ),
        Mistake("the exponentials are not divided by their sum.", partial(oracle.softmax, norm=lambda e: 1.0)),
        Mistake("the exponentials are divided by their number, not by their sum.", partial(oracle.softmax, norm=len)),
        Mistake(
            "the exponentials are divided by their length √Σe², not by their sum.",
            partial(oracle.softmax, norm=lambda e: math.hypot(*e)),
        ),
        Mistake("the base is 2, not e: use math.exp.", partial(oracle.softmax, exp=lambda s: 2.0**s)),
        Mistake("it returns the logarithms of the weights.", oracle.log_softmax),
        Mistake(
            "the sign is turned round: the largest score gets the smallest weight.",
            lambda x: oracle.softmax([-s for s in x]),
        ),
        Mistake(
            "the scores themselves are divided by their sum: exponentiate them first.",
            lambda x: [s / sum(x) for s in x],
        ),
        Mistake(
            "a row of nothing but −inf is shared out evenly. Nothing may be attended to: return zeros.",
            partial(oracle.softmax, masked_row=lambda x: [1 / len(x)] * len(x)),
        ),
        Sign(
            "a row of nothing but −inf gives NaN, since −inf − (−inf) is undefined: return zeros for it.", _all_masked
        ),
        Sign("a score of −inf gets some weight. It must get exactly 0.", _leaks),
        Sign("large scores overflow: the maximum is not subtracted before exp.", _not_finite),
        Sign("the weights do not sum to 1.", _not_one),
    ),
    hints=(
        "Two things matter: weights in the ratio of exponentials, and no overflow.",
        "Softmax does not change when every score is moved by the same number. Which number makes every exponent ≤ 0?",
        "top = max(x); e = [exp(s − top) for s in x]; divide each by sum(e). First set a row of only −inf aside.",
    ),
)

LOG_SOFTMAX = Exercise(
    name="log_softmax",
    chapter=3,
    params=("x",),
    oracle=oracle.log_softmax,
    cases=(
        Case("log_softmax_by_hand", ([0.0, math.log(3.0)],), "log-weight j is x_j − log Σ_k exp(x_k)."),
        Case("log_softmax_three_scores", ([1.0, 2.0, 4.0],), "log-weight j is x_j − log Σ_k exp(x_k)."),
        Case("log_softmax_large_scores", ([1002.0, 1000.0],), "subtract the maximum before exp."),
        Case("log_softmax_very_negative_scores", ([-1002.0, -1001.0],), "subtract the maximum before exp."),
        Case(
            "log_softmax_large_spread",
            ([0.0, -2000.0],),
            "the weight underflows to 0, its logarithm does not: never form the weight.",
        ),
        Case("log_softmax_minus_infinity", ([0.5, -INF, 1.5],), "a score of −inf keeps the log-weight −inf."),
    ),
    mistakes=(
        Mistake(
            "it takes the logarithm of the finished weights, which have underflowed to 0.",
            lambda x: [math.log(w) for w in oracle.softmax(x)],
            lambda x: [math.log(w) if w else -INF for w in oracle.softmax(x)],
            lambda x: [math.log(w) if s > -INF else s for s, w in zip(x, oracle.softmax(x), strict=True)],
        ),
        Mistake("the maximum is not subtracted before exp.", partial(oracle.log_softmax, top=lambda x: 0.0)),
        Mistake("it returns the weights, not their logarithms.", oracle.softmax),
        Mistake("the logarithm of the sum is left out.", partial(oracle.log_softmax, log=lambda total: 0.0)),
        Mistake(
            "the sum is subtracted where its logarithm should be.", partial(oracle.log_softmax, log=lambda total: total)
        ),
        Mistake("the logarithm is to base 2: use the natural one.", partial(oracle.log_softmax, log=math.log2)),
        Mistake("the logarithm is to base 10: use the natural one.", partial(oracle.log_softmax, log=math.log10)),
        Mistake(
            "the maximum was subtracted before exp and not put back: x_j − max x − log Σ exp(x_k − max x).",
            lambda x: [
                s - b for s, b in zip(x, [math.log(sum(math.exp(t - max(x)) for t in x))] * len(x), strict=True)
            ],
        ),
        Mistake("the sign is wrong: log-weights are at most 0.", lambda x: [-w for w in oracle.log_softmax(x)]),
        Sign("large scores overflow: the maximum is not subtracted before exp.", _not_finite),
    ),
    hints=(
        "log(a / b) = log a − log b: do it on paper before you write code.",
        "log softmax(x)_j = x_j − max x − log Σ_k exp(x_k − max x). The weights are never formed.",
    ),
)

ENTROPY = Exercise(
    name="entropy",
    chapter=3,
    params=("p",),
    oracle=oracle.entropy,
    cases=(
        Case("entropy_two_equal", ([0.5, 0.5],), "two equal weights have the entropy ln 2."),
        Case("entropy_unequal", ([0.75, 0.25],), "H = −Σ p ln p, in nats."),
        Case("entropy_four", ([0.1, 0.2, 0.3, 0.4],), "H = −Σ p ln p, in nats."),
        Case("entropy_one_hot", ([1.0, 0.0, 0.0],), "0 · ln 0 counts as 0: one-hot weights have the entropy 0."),
        Case("entropy_with_a_zero", ([0.5, 0.0, 0.5],), "0 · ln 0 counts as 0."),
    ),
    mistakes=(
        Mistake("it is in bits: use the natural logarithm for nats.", partial(oracle.entropy, log=math.log2)),
        Mistake("the logarithm is to base 10: use the natural one.", partial(oracle.entropy, log=math.log10)),
        Mistake("the minus sign is missing: ln p is never positive.", partial(oracle.entropy, sign=1.0)),
        Mistake("it averages over the entries: the entropy is a sum.", lambda p: oracle.entropy(p) / len(p)),
        Mistake("each term needs its weight: Σ p ln p, not Σ ln p.", lambda p: -sum(math.log(w) for w in p if w > 0)),
        Mistake(
            "a weight of 0 stops it: ln 0 is undefined, and 0 · ln 0 counts as 0.",
            lambda p: -sum(w * math.log(w) for w in p),
            lambda p: math.nan if 0 in p else oracle.entropy(p),
            lambda p: INF if 0 in p else oracle.entropy(p),
        ),
        Mistake("it takes scores: the argument holds weights already.", lambda p: oracle.entropy(oracle.softmax(p))),
        Mistake("the terms are not summed.", lambda p: [-w * math.log(w) if w > 0 else 0.0 for w in p]),
    ),
    hints=("Sum −p ln p over the weights.", "Leave out the weights that are 0, since p ln p goes to 0 with p."),
)

SOFTMAX_JACOBIAN = Exercise(
    name="softmax_jacobian",
    chapter=3,
    params=("p",),
    oracle=oracle.softmax_jacobian,
    cases=(
        Case("softmax_jacobian_two", ([0.75, 0.25],), "entry (i, j) is p_i (δ_ij − p_j)."),
        Case("softmax_jacobian_three", ([0.2, 0.3, 0.5],), "entry (i, j) is p_i (δ_ij − p_j)."),
        Case("softmax_jacobian_saturated", ([1.0, 0.0],), "where softmax is one-hot, its gradient is dead: all zeros."),
    ),
    mistakes=(
        Mistake(
            "only the diagonal is filled: raising one score also lowers every other weight.",
            partial(oracle.softmax_jacobian, beside=lambda a, b: 0.0),
            lambda p: [w - w * w for w in p],
        ),
        Mistake(
            "the diagonal lacks its −p_i²: it is p_i (1 − p_i).", partial(oracle.softmax_jacobian, diagonal=lambda w: w)
        ),
        Mistake(
            "the diagonal lacks its p_i: δ_ij is 1 there.", partial(oracle.softmax_jacobian, diagonal=lambda w: -w * w)
        ),
        Mistake(
            "off the diagonal the sign is wrong: −p_i p_j.", partial(oracle.softmax_jacobian, beside=lambda a, b: a * b)
        ),
        Mistake(
            "every sign is turned round: the diagonal is positive.",
            lambda p: [[-v for v in row] for row in oracle.softmax_jacobian(p)],
        ),
        Mistake(
            "the first factor p_i is missing.",
            lambda p: [[(i == j) - b for j, b in enumerate(p)] for i in range(len(p))],
        ),
        Mistake(
            "the argument holds weights already, not scores.", lambda p: oracle.softmax_jacobian(oracle.softmax(p))
        ),
    ),
    hints=(
        "On the diagonal p_i (1 − p_i), off it −p_i p_j.",
        "The matrix is symmetric, and each of its rows sums to 0.",
    ),
)

CROSS_ENTROPY = Exercise(
    name="cross_entropy",
    chapter=3,
    params=("logits", "target"),
    oracle=oracle.cross_entropy,
    cases=(
        Case("cross_entropy_by_hand", ([0.0, math.log(3.0)], 0), "the loss is −ln of the weight of what came."),
        Case("cross_entropy_three", ([1.0, 2.0, 4.0], 1), "the loss is −ln softmax(logits)[target]."),
        Case("cross_entropy_last", ([0.5, -1.0, 2.5, 1.0], 3), "the loss is −ln softmax(logits)[target]."),
        Case("cross_entropy_large_logits", ([1002.0, 1000.0], 1), "subtract the maximum before exp."),
        Case(
            "cross_entropy_large_spread", ([0.0, -2000.0], 1), "use the log-softmax: the weight itself underflows to 0."
        ),
    ),
    mistakes=(
        Mistake(
            "it takes the logarithm of a finished weight, which has underflowed to 0.",
            lambda x, t: -math.log(oracle.softmax(x)[t]),
            lambda x, t: -math.log(oracle.softmax(x)[t] or 5e-324),
            lambda x, t: -math.log(oracle.softmax(x)[t]) if oracle.softmax(x)[t] else INF,
        ),
        Mistake("the minus sign is missing: a loss is not negative.", lambda x, t: oracle.log_softmax(x)[t]),
        Mistake(
            "it is in bits: use the natural logarithm for nats.", lambda x, t: oracle.cross_entropy(x, t) / math.log(2)
        ),
        Mistake("it returns the weight, not minus its logarithm.", lambda x, t: oracle.softmax(x)[t]),
        Mistake("it is divided by the number of logits.", lambda x, t: oracle.cross_entropy(x, t) / len(x)),
        Mistake("the target is taken to count from 1: it counts from 0.", lambda x, t: -oracle.log_softmax(x)[t - 1]),
        Mistake("the sum of exponentials is left out: that is the negated logit alone.", lambda x, t: -x[t]),
        Mistake("the largest weight is used, not the target's.", lambda x, t: -max(oracle.log_softmax(x))),
        Mistake("the losses of all targets are added up.", lambda x, t: -sum(oracle.log_softmax(x))),
        Mistake("the maximum is not subtracted before exp.", lambda x, t: math.log(sum(math.exp(s) for s in x)) - x[t]),
        Sign(
            "large logits overflow: the maximum is not subtracted before exp.",
            lambda args, expected, got: got != got or got in (INF, -INF),
        ),
    ),
    hints=(
        "One row of logits, one target: minus the log-softmax at the target.",
        "log Σ_k exp(x_k − max x) + max x − x[target].",
    ),
    extension=True,
)
