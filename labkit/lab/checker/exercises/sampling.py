"""Chapter 11: from logits to tokens."""

from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake
from ..oracle import INF

_LOGITS = [1.0, 3.0, 2.0, 0.5]


def _over_u(fn, logits, temperature):
    """Return the token for ten evenly spaced u."""
    return [fn(logits, temperature, (i + 0.5) / 10) for i in range(10)]


NEXT_TOKEN = Exercise(
    name="next_token",
    chapter=11,
    params=("logits", "temperature", "u"),
    oracle=oracle.next_token,
    needs=("softmax",),
    extension=True,
    cases=(
        Case("next_token_greedy", (_LOGITS, 0.0, 0.9), "temperature 0 takes the largest logit."),
        Case("next_token_greedy_tie", ([1.0, 2.0, 2.0], 0.0, 0.9), "of equal logits the first is taken."),
        Case("next_token_two_halves", ([0.0, 0.0], 1.0, 0.25), "u = 0.25 falls into the first half."),
        Case("next_token_second_half", ([0.0, 0.0], 1.0, 0.75), "u = 0.75 falls into the second half."),
        Case(
            "next_token_on_the_edge",
            ([0.0, 0.0], 1.0, 0.5),
            "the first token whose cumulative weight is greater than u.",
        ),
        Case(
            "next_token_over_u",
            (_LOGITS, 1.0),
            "each token gets a share of the u as large as its weight.",
            drive=_over_u,
            labels=("logits", "temperature"),
        ),
        Case(
            "next_token_hot",
            (_LOGITS, 5.0),
            "a high temperature evens the weights out: divide the logits by it.",
            drive=_over_u,
            labels=("logits", "temperature"),
        ),
        Case(
            "next_token_cold",
            (_LOGITS, 0.5),
            "a low temperature sharpens the weights.",
            drive=_over_u,
            labels=("logits", "temperature"),
        ),
        Case(
            "next_token_never_a_masked_one",
            ([0.0, 1.0, -INF], 1.0, 1 - 2**-53),
            "a logit of −inf is never drawn, not even for the largest u.",
        ),
    ),
    mistakes=(
        Mistake(
            "the logits are multiplied by the temperature: divide.",
            lambda x, t, u: oracle.next_token([s * t for s in x] if t else x, 1.0 if t else 0.0, u),
        ),
        Mistake("the temperature is not used.", lambda x, t, u: oracle.next_token(x, 1.0 if t else 0.0, u)),
        Mistake("u is not used: it always takes the most likely token.", lambda x, t, u: oracle.next_token(x, 0.0, u)),
        Mistake(
            "the weights are divided by the temperature: divide the logits, before the softmax.",
            lambda x, t, u: (
                oracle.next_token(x, t, u, weigh=lambda s: [w / t for w in oracle.softmax(x)])
                if t
                else oracle.next_token(x, t, u)
            ),
        ),
        Mistake(
            "temperature 0 divides by zero: take the largest logit then.",
            lambda x, t, u: oracle.next_token([s / t for s in x], 1.0, u),
        ),
        Mistake(
            "of equal logits the last is taken: take the first.",
            lambda x, t, u: oracle.next_token(x, t, u) if t else len(x) - 1 - x[::-1].index(max(x)),
        ),
        Mistake(
            "at temperature 0 the smallest logit is taken.",
            lambda x, t, u: oracle.next_token(x, t, u) if t else x.index(min(x)),
        ),
        Mistake(
            "it returns the logit or its weight: return the token id.", lambda x, t, u: x[oracle.next_token(x, t, u)]
        ),
        Mistake(
            "the edges belong to the token below: take the first whose cumulative weight is greater than u.",
            lambda x, t, u: oracle.next_token(x, t, max(0.0, u - 1e-12)),
        ),
        Mistake(
            "rounding can leave the sum below u: then take the last token that has any weight.",
            lambda x, t, u: len(x) - 1 if u > 0.999 else oracle.next_token(x, t, u),
            lambda x, t, u: None if u > 0.999 and t else oracle.next_token(x, t, u),
        ),
        Mistake(
            "the cumulative weights are not cumulative: add them up.",
            lambda x, t, u: (
                next((i for i, w in enumerate(oracle.softmax([s / t for s in x])) if u < w), len(x) - 1)
                if t
                else oracle.next_token(x, t, u)
            ),
        ),
    ),
    hints=(
        "Temperature 0 is its own case. Otherwise: softmax of logits / temperature, and u picks a point in [0, 1).",
        "Walk along the weights, adding them up; the first sum above u is the token.",
    ),
)

_PARAMS = oracle.build_params(6, 4, 2, 2, 5, seed=81, spread=0.8, norm_spread=0.4)


def _gen(**knobs):
    return partial(oracle.generate, **knobs)


def _u_ignored(seed):
    return lambda params, prompt, n_new, temperature=0.0, s=0: oracle.generate(params, prompt, n_new, temperature, seed)


def _reseeded(params, prompt, n_new, temperature=0.0, seed=0):
    ids = list(prompt)
    for _ in range(n_new):
        ids = oracle.generate(params, ids, 1, temperature, seed)
    return ids


def _by_seed(fn, params, prompt, n_new, temperature):
    return [fn(params, prompt, n_new, temperature, seed) for seed in (0, 1, 2, 1)]


GENERATE = Exercise(
    name="generate",
    chapter=11,
    params=("params", "prompt", "n_new", "temperature", "seed"),
    oracle=oracle.generate,
    needs=("gpt_forward", "next_token"),
    extension=True,
    cases=(
        Case("generate_one_greedy_token", (_PARAMS, [1], 1), "the last row of logits decides what comes next."),
        Case("generate_greedy", (_PARAMS, [1, 5, 0], 5), "each new token is appended, and all of them are read again."),
        Case("generate_nothing", (_PARAMS, [4, 2], 0), "no new tokens: the prompt comes back."),
        Case(
            "generate_sampled",
            (_PARAMS, [1, 5], 6, 1.0, 3),
            "one u = rng.random() for each new token, from random.Random(seed).",
        ),
        Case("generate_seeds", (_PARAMS, [3], 6, 2.0), "seeds 0, 1, 2, 1: the seed decides.", drive=_by_seed),
    ),
    mistakes=(
        Mistake("the seed is not used.", _u_ignored(0)),
        Mistake("the generator is seeded anew for every token, so that u is always the same.", _reseeded),
        Mistake("only the newest token is read: the model has to see all of them.", _gen(context=lambda ids: ids[-1:])),
        Mistake(
            "only the prompt is read: append each new token and read it, too.",
            lambda p, prompt, *rest: oracle.generate(p, prompt, *rest, context=lambda ids: ids[: len(prompt)]),
        ),
        Mistake(
            "the first row of logits is used: the last position predicts what comes next.",
            _gen(logits_of=lambda rows: rows[0]),
        ),
        Mistake(
            "only the new tokens come back: return the prompt as well.",
            lambda p, prompt, *rest: oracle.generate(p, prompt, *rest)[len(prompt) :],
        ),
        Mistake("one token too many.", lambda p, prompt, n, *rest: oracle.generate(p, prompt, n + 1, *rest)),
        Mistake("one token too few.", lambda p, prompt, n, *rest: oracle.generate(p, prompt, max(0, n - 1), *rest)),
        Mistake(
            "the temperature is not used: it is always greedy.",
            lambda p, prompt, n, t=0.0, s=0: oracle.generate(p, prompt, n),
        ),
        Mistake(
            "it always samples: temperature 0 is greedy.",
            lambda p, prompt, n, t=0.0, s=0: oracle.generate(p, prompt, n, t or 1.0, s),
        ),
        Mistake(
            "n_new is taken for the length of the result: it counts new tokens.",
            lambda p, prompt, n, *rest: oracle.generate(p, prompt, max(0, n - len(prompt)), *rest),
        ),
    ),
    hints=(
        "A loop of n_new turns: forward pass, last row, next token, append.",
        "Copy the prompt first. rng = random.Random(seed) stands before the loop; u = rng.random() inside it.",
    ),
)
