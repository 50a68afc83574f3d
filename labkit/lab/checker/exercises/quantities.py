"""What is to be computed by hand: a value, why it is that, and the slips that lead elsewhere."""

import math

from ..exercise import Quantity

QUANTITIES = (
    # Chapter 1
    Quantity(
        "embedding_parameters",
        1,
        "One row for each of the 50,257 tokens, 768 numbers in a row.",
        50257 * 768,
        "right: 50,257 rows of 768 numbers are 38,597,376 parameters.",
        (
            (2 * 50257 * 768, "that counts the table twice: GPT-2 ties its head to it."),
            (50257 + 768, "rows times columns, not plus."),
        ),
    ),
    Quantity(
        "untied_tables",
        1,
        "Two tables, embedding and head, each with 128,256 rows of 4,096 numbers.",
        2 * 128256 * 4096,
        "right: 2 · 128,256 · 4,096 = 1,050,673,152, over a billion outside the layers.",
        ((128256 * 4096, "that is one table: an untied head has one of its own."),),
    ),
    # Chapter 2
    Quantity(
        "attention_weights",
        2,
        "Scores: q·k for each key, divided by √d_k = 2. Then exponentials, then shares.",
        [1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1))],
        "right: the scores are 2 and 0, scaled 1 and 0, and e / (e + 1) = 0.7311.",
        (
            (
                [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))],
                "those are the weights without the division by √d_k = 2.",
            ),
            ([1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(0.5))], "that is divided by d_k = 4, not by its root."),
            ([1.0, 0.0], "those are the scaled scores: the softmax is still to come."),
            ([2.0, 0.0], "those are the raw scores."),
        ),
    ),
    Quantity(
        "cross_attention_shape",
        2,
        "One row for each query, as wide as a value.",
        [3, 8],
        "right: T rows, one for each query, of width d_v.",
        (
            ([5, 8], "there is one row for each query, not for each key."),
            ([3, 5], "that is the shape of the weights."),
            ([8, 3], "rows are positions."),
        ),
    ),
    # Chapter 3
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
    # Chapter 4
    Quantity(
        "masked_entries",
        4,
        "Row i has T − 1 − i entries to the right of the diagonal.",
        15,
        "right: 5 + 4 + 3 + 2 + 1 + 0 = T (T − 1) / 2 = 15.",
        (
            (21, "that counts the diagonal, which is open."),
            (36, "that is all of them."),
            (30, "only one side of the diagonal is masked."),
        ),
    ),
    Quantity(
        "keys_seen",
        4,
        "The two queries are the last two of the five positions. Where is the first of them?",
        4,
        "right: it is at position 3 of 0 … 4, and sees 0, 1, 2 and 3.",
        (
            (1, "that is the mask aligned at the top left: the queries are the last positions, not the first."),
            (5, "the last query sees all five, the one before it does not."),
            (3, "it sees itself, too."),
        ),
    ),
    # Chapter 5
    Quantity(
        "head_width",
        5,
        "The heads share the width among them.",
        64,
        "right: 768 / 12 = 64.",
        ((768, "every head works on its own slice of the width."), (9216, "divide, do not multiply.")),
    ),
    Quantity(
        "attention_parameters",
        5,
        "Four matrices of d_model × d_model. How many heads there are does not matter.",
        4 * 512 * 512,
        "right: 4 · 512² = 1,048,576, whatever the number of heads.",
        (
            (3 * 512 * 512, "that is W_Q, W_K and W_V: the output projection W_O is missing."),
            (8 * 4 * 512 * 512, "heads share the width: they do not multiply the parameters."),
            (512 * 512, "that is one of the four matrices."),
        ),
    ),
    # Chapter 6
    Quantity(
        "cache_bytes_per_token",
        6,
        "A key and a value in each of 32 layers, each 4,096 numbers of 2 bytes.",
        2 * 32 * 4096 * 2,
        "right: 2 · 32 · 4,096 · 2 = 524,288 bytes, half a mebibyte for each token.",
        (
            (32 * 4096 * 2, "there is a key and a value, and each number takes 2 bytes: twice that."),
            (2 * 4096 * 2, "that is one layer of 32."),
        ),
    ),
    Quantity(
        "gqa_saving",
        6,
        "What is cached belongs to the key/value heads.",
        4,
        "right: 32 query heads on 8 key/value heads leave 8/32 of the cache, a quarter.",
        (
            (0.25, "that is what is left: the cache is 4 times smaller."),
            (8, "8 is the number of key/value heads: how many query heads share one?"),
            (32, "that would be MQA, with a single key/value head."),
        ),
    ),
    # Chapter 7
    Quantity(
        "rope_angle",
        7,
        "Pair i turns by pos · base^(−2i/d).",
        0.03,
        "right: 3 · 10000^(−2/4) = 3 / 100.",
        (
            (3.0, "that is pair 0: pair 1 turns more slowly."),
            (0.3, "the exponent is −2i/d = −1/2, not −i/d."),
            (0.0003, "the exponent is −2i/d = −1/2, not −1."),
            (300.0, "the exponent is negative."),
        ),
    ),
    Quantity(
        "rope_longest_wavelength",
        7,
        "The last pair is i = d/2 − 1 = 63. It comes round after 2π / θ positions.",
        2 * math.pi * 10000 ** (126 / 128),
        "right: 2π · 10000^(126/128) ≈ 54,410 positions.",
        (
            (2 * math.pi * 10000, "the last pair is i = 63, so the exponent is 126/128, not quite 1."),
            (10000 ** (126 / 128), "that is 1/θ: a full turn is 2π."),
            (2 * math.pi, "that is the fastest pair."),
        ),
        tolerance=1e-3,
    ),
    # Chapter 8
    Quantity(
        "rms_by_hand",
        8,
        "Square, take the mean, take the root.",
        math.sqrt(12.5),
        "right: (9 + 16) / 2 = 12.5, and √12.5 = 3.536.",
        (
            (5.0, "that is the length: take the mean of the squares, not their sum."),
            (3.5, "that is the mean."),
            (12.5, "that is the mean square: take its root."),
            (0.5, "that is the standard deviation: RMS does not subtract the mean."),
        ),
    ),
    Quantity(
        "layer_norm_by_hand",
        8,
        "The mean is 2. How far is each entry from it, and what is the mean square of that?",
        [-1.0, 1.0],
        "right: the mean is 2, the deviations are −1 and 1, and the standard deviation is 1.",
        (
            ([-(0.5**0.5), 0.5**0.5], "the variance is divided by n, not by n − 1."),
            ([1 / 5**0.5, 3 / 5**0.5], "that is RMSNorm: LayerNorm subtracts the mean."),
            ([1.0, -1.0], "the signs are turned round."),
        ),
    ),
    # Chapter 9
    Quantity(
        "swiglu_width",
        9,
        "Three matrices d_model × d_ff are to hold as much as two of d_model × 4 d_model.",
        8 / 3 * 4096,
        "right: 3 d_ff = 8 d_model, so d_ff = 8/3 · 4,096 ≈ 10,923. Models round it up to a handy number.",
        (
            (4 * 4096, "with three matrices of that width there are half as many parameters again."),
            (2 / 3 * 4096, "two thirds of 4 d_model, not of d_model."),
        ),
    ),
    Quantity(
        "ffn_share",
        9,
        "Attention has 4 d², the feed-forward layer 8 d².",
        2 / 3,
        "right: 8 / (4 + 8).",
        (
            (0.5, "8 of what, in all?"),
            (2.0, "that is the ratio to attention: as a share of the layer?"),
            (1 / 3, "that is attention's share."),
        ),
    ),
    # Chapter 10
    Quantity(
        "layer_parameters",
        10,
        "Attention has 4 d², an FFN of two matrices with d_ff = 4d has 8 d².",
        12 * 512 * 512,
        "right: 12 · 512² = 3,145,728.",
        (
            (4 * 512 * 512, "that is attention alone."),
            (8 * 512 * 512, "that is the FFN alone."),
            (6 * 512 * 512, "each of the FFN's two matrices is d × 4d."),
        ),
    ),
    Quantity(
        "residual_gradient",
        10,
        "The derivative of x + f(x) is 1 + f′(x). Three of them, one after the other.",
        1.2**3,
        "right: (1 + 0.2)³ = 1.728.",
        (
            (0.2**3, "that is without the residual path: nearly nothing comes through."),
            (1.6, "the factors multiply."),
            (1.2, "that is one of the three layers."),
        ),
    ),
    # Chapter 11
    Quantity(
        "initial_loss",
        11,
        "A model that knows nothing gives every token the same weight.",
        math.log(50257),
        "right: −ln (1 / 50,257) = 10.82 nats.",
        (
            (math.log2(50257), "that is in bits: use the natural logarithm."),
            (math.log10(50257), "use the natural logarithm."),
            (1 / 50257, "that is the weight: the loss is minus its logarithm."),
        ),
    ),
    Quantity(
        "flops_per_token",
        11,
        "Each parameter is used in one multiplication and one addition.",
        2 * 7e9,
        "right: 2N = 14 · 10⁹ operations for each token, attention's scores apart.",
        (
            (7e9, "a multiplication and an addition are two operations."),
            (6 * 7e9, "6N is training: forward and backward."),
        ),
    ),
    # Chapter 12
    Quantity(
        "causal_tiles",
        12,
        "There are 16 × 16 tiles. Those above the diagonal can be skipped.",
        136,
        "right: 16 · 17 / 2 = 136 of 256.",
        (
            (256, "that is all of them: which hold nothing but masked scores?"),
            (120, "tiles on the diagonal are needed."),
            (128, "the tiles on the diagonal are needed whole: more than half."),
        ),
    ),
    Quantity(
        "rescale_factor",
        12,
        "What was summed under the old maximum is multiplied by exp(m_old − m_new).",
        math.exp(-2.0),
        "right: exp(1 − 3) = 0.1353.",
        (
            (math.exp(2.0), "it is upside down: the old sum must shrink."),
            (1.0, "the maximum has grown by 2."),
            (-2.0, "that is the exponent."),
        ),
    ),
)
