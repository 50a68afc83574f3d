"""What is to be computed by hand: a value, why it is that, and the slips that lead elsewhere."""

import math

from ..exercise import Quantity

QUANTITIES = (
    Quantity(
        "std_of_scores",
        3,
        "Each of the 64 products q_i k_i has mean 0 and variance 1. What is the variance of their sum?",
        8.0,
        "8 is right: 64 independent products of variance 1 sum to the variance 64, and √64 = 8.",
        (
            (64.0, "64 is the variance: the standard deviation is its square root."),
            (1.0, "1 is the standard deviation of one product, and of the sum after dividing by √d_k."),
            (0.125, "0.125 = 1/√d_k is the factor that undoes it."),
            (4096.0, "4096 is d_k squared: independent variances add up, d_k of them."),
        ),
    ),
    Quantity(
        "softmax_by_hand",
        3,
        "exp(0) = 1 and exp(ln 3) = 3. What share of their sum does each have?",
        [0.25, 0.75],
        "right: the exponentials are 1 and 3, and their sum is 4.",
        (
            ([1.0, 3.0], "those are the exponentials: divide each by their sum."),
            ([0.75, 0.25], "the larger score gets the larger weight."),
        ),
    ),
    Quantity(
        "weight_ratio",
        3,
        "The ratio of two weights depends on the difference of their scores only.",
        math.exp(2.0),
        "right: the weights stand in the ratio exp(difference) = e² ≈ 7.389.",
        (
            (2.0, "2 is the difference of the scores: softmax exponentiates it."),
            (math.exp(-2.0), "that is the ratio the other way round."),
            (4.0, "the base is e, not 2."),
        ),
    ),
)
