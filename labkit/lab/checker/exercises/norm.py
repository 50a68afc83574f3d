"""Chapter 8: the two norms."""

import math
from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake


def _mean_and_variance(fn, *args):
    y = fn(*args)
    return [oracle.mean(y), oracle.variance(y)]


def _rms(fn, *args):
    return math.sqrt(oracle.mean([v * v for v in fn(*args)]))


_X = [1.0, 2.0, 4.0, -1.5]
_ONES, _ZEROS = [1.0] * 4, [0.0] * 4
_W, _B = [0.5, 2.0, -1.0, 3.0], [0.1, -0.2, 0.3, 1.0]
_TINY = [1e-3, -1e-3]
_DEFAULT_EPS = 1e-5


def _outside(s, eps):
    return math.sqrt(s) + eps


LAYER_NORM = Exercise(
    name="layer_norm",
    chapter=8,
    params=("x", "weight", "bias", "eps"),
    oracle=oracle.layer_norm,
    cases=(
        Case("layer_norm_by_hand", ([1.0, 3.0], [1.0, 1.0], [0.0, 0.0], 3.0), "mean 2, variance 1, and √(1 + 3) = 2."),
        Case(
            "layer_norm_zero_mean_unit_var",
            (_X, _ONES, _ZEROS, 1e-12),
            "with weight 1 and bias 0 the result has mean 0 and variance 1 (here: mean, variance).",
            drive=_mean_and_variance,
        ),
        Case("layer_norm_weight_and_bias", (_X, _W, _B), "the result is scaled by the weight, then moved by the bias."),
        Case(
            "layer_norm_epsilon_inside_the_root",
            (_TINY, [1.0, 1.0], [0.0, 0.0]),
            "ε is added to the variance, inside the root.",
        ),
        Case(
            "layer_norm_epsilon_argument",
            ([0.5, -0.5, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], 0.5),
            "ε is an argument.",
        ),
        Case(
            "layer_norm_constant_row",
            ([3.0, 3.0], [2.0, 2.0], [0.5, -0.5]),
            "a constant row has variance 0 and gives the bias.",
        ),
        Case(
            "layer_norm_large_offset",
            ([1e8, 1e8 + 1, 1e8 + 3], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]),
            "subtract the mean before squaring: E[x²] − mean² loses every digit here.",
            tolerance=1e-6,
        ),
        Case("layer_norm_three", ([0.2, -0.4, 0.9], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]), "divide by √(variance + ε)."),
    ),
    mistakes=(
        Mistake(
            "the variance is divided by n − 1: LayerNorm divides by n.",
            partial(oracle.layer_norm, spread=lambda x: oracle.variance(x) * len(x) / (len(x) - 1)),
        ),
        Mistake(
            "ε is outside the root: √(variance + ε), not √variance + ε.", partial(oracle.layer_norm, root=_outside)
        ),
        Mistake(
            "ε is left out.",
            partial(oracle.layer_norm, root=lambda s, eps: math.sqrt(s)),
            lambda x, w, b, eps=0: oracle.layer_norm(x, w, b, 0) if oracle.variance(x) else [math.nan] * len(x),
        ),
        Mistake("the argument eps is not used.", lambda x, w, b, eps=0: oracle.layer_norm(x, w, b, _DEFAULT_EPS)),
        Mistake(
            "the mean is not subtracted: that is RMSNorm.",
            partial(oracle.layer_norm, centre=lambda x: 0.0),
            lambda x, w, b, eps=_DEFAULT_EPS: oracle.add_vectors(oracle.rms_norm(x, w, eps), b),
        ),
        Mistake(
            "it divides by the variance: take its square root.", partial(oracle.layer_norm, root=lambda s, eps: s + eps)
        ),
        Mistake("it does not divide by √(variance + ε).", partial(oracle.layer_norm, root=lambda s, eps: 1.0)),
        Mistake(
            "it multiplies by √(variance + ε): divide.",
            partial(oracle.layer_norm, root=lambda s, eps: 1 / math.sqrt(s + eps)),
        ),
        Mistake(
            "the bias is left out.", lambda x, w, b, eps=_DEFAULT_EPS: oracle.layer_norm(x, w, [0.0] * len(x), eps)
        ),
        Mistake(
            "the weight is left out.", lambda x, w, b, eps=_DEFAULT_EPS: oracle.layer_norm(x, [1.0] * len(x), b, eps)
        ),
        Mistake(
            "weight and bias are both left out.",
            lambda x, w, b, eps=_DEFAULT_EPS: oracle.layer_norm(x, [1.0] * len(x), [0.0] * len(x), eps),
        ),
        Mistake(
            "weight and bias have changed places.", lambda x, w, b, eps=_DEFAULT_EPS: oracle.layer_norm(x, b, w, eps)
        ),
        Mistake(
            "the bias is added before the weight multiplies: weight first.",
            lambda x, w, b, eps=_DEFAULT_EPS: oracle.layer_norm(x, w, [c * d for c, d in zip(w, b, strict=True)], eps),
        ),
        Mistake(
            "the variance is computed as E[x²] − mean², which loses its digits when the mean is large.",
            partial(oracle.layer_norm, spread=lambda x: oracle.mean([v * v for v in x]) - oracle.mean(x) ** 2),
            partial(
                oracle.layer_norm, spread=lambda x: max(0.0, oracle.mean([v * v for v in x]) - oracle.mean(x) ** 2)
            ),
            lambda x, w, b, eps=_DEFAULT_EPS: oracle.layer_norm(x, w, b, eps) if max(x) < 1e6 else [math.nan] * len(x),
        ),
    ),
    hints=(
        "Mean, then variance around that mean, then one line for each entry.",
        "variance = Σ (x_i − mean)² / n, with n and not n − 1.",
        "y_i = (x_i − mean) / √(variance + eps) · weight_i + bias_i.",
    ),
)

RMS_NORM = Exercise(
    name="rms_norm",
    chapter=8,
    params=("x", "weight", "eps"),
    oracle=oracle.rms_norm,
    cases=(
        Case("rms_norm_by_hand", ([3.0, 4.0], [1.0, 1.0], 3.5), "the mean square is 12.5, and √(12.5 + 3.5) = 4."),
        Case(
            "rms_norm_scales_to_unit_rms",
            (_X, _ONES, 1e-12),
            "with weight 1 the result has root mean square 1.",
            drive=_rms,
        ),
        Case("rms_norm_weight", (_X, _W), "every entry has its own weight."),
        Case(
            "rms_norm_epsilon_inside_the_root",
            (_TINY, [1.0, 1.0]),
            "ε is added to the mean square, inside the root: ±0.3015.",
        ),
        Case("rms_norm_epsilon_argument", ([0.5, -0.5, 1.0], [1.0, 1.0, 1.0], 0.5), "ε is an argument."),
        Case("rms_norm_zeros", ([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]), "ε keeps a row of zeros from dividing by zero."),
        Case(
            "rms_norm_three",
            ([1.0, 2.0, 2.0], [1.0, 1.0, 2.0]),
            "divide by the root of the mean square, not of the sum.",
        ),
    ),
    mistakes=(
        Mistake(
            "ε is outside the root: √(mean square + ε), not √(mean square) + ε.",
            partial(oracle.rms_norm, root=_outside),
        ),
        Mistake(
            "ε is left out.",
            partial(oracle.rms_norm, root=lambda s, eps: math.sqrt(s)),
            lambda x, w, eps=0: oracle.rms_norm(x, w, 0) if any(x) else [math.nan] * len(x),
        ),
        Mistake("the argument eps is not used.", lambda x, w, eps=0: oracle.rms_norm(x, w, _DEFAULT_EPS)),
        Mistake(
            "the mean is subtracted: RMSNorm does not centre.",
            partial(oracle.rms_norm, centre=oracle.mean, square=oracle.variance),
            partial(oracle.rms_norm, centre=oracle.mean),
        ),
        Mistake(
            "it divides by the mean square: take its square root.",
            partial(oracle.rms_norm, root=lambda s, eps: s + eps),
        ),
        Mistake(
            "it divides by the length √Σx²: take the mean of the squares, not their sum.",
            partial(oracle.rms_norm, square=lambda x: sum(v * v for v in x)),
        ),
        Mistake(
            "the sum of squares is divided by n − 1: divide by n.",
            partial(oracle.rms_norm, square=lambda x: sum(v * v for v in x) / (len(x) - 1)),
        ),
        Mistake(
            "it divides by the standard deviation: RMSNorm does not centre.",
            partial(oracle.rms_norm, square=oracle.variance),
        ),
        Mistake(
            "it divides by the mean of the absolute values.",
            partial(oracle.rms_norm, square=lambda x: oracle.mean([abs(v) for v in x]) ** 2),
        ),
        Mistake("the weight is left out.", lambda x, w, eps=_DEFAULT_EPS: oracle.rms_norm(x, [1.0] * len(x), eps)),
        Mistake(
            "the weight divides: multiply.", lambda x, w, eps=_DEFAULT_EPS: oracle.rms_norm(x, [1 / c for c in w], eps)
        ),
        Mistake(
            "the weight is added: multiply.",
            lambda x, w, eps=_DEFAULT_EPS: oracle.add_vectors(oracle.rms_norm(x, [1.0] * len(x), eps), w),
        ),
    ),
    hints=(
        "No mean and no bias: one number to divide by, and a weight for each entry.",
        "y_i = x_i / √(Σ x_j² / n + eps) · weight_i.",
    ),
)
