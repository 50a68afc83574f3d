"""Chapter 6: one step of decoding with a cache."""

from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake

_Q, _K, _V = oracle.numbers(31, 4, 3), oracle.numbers(32, 4, 3), oracle.numbers(33, 4, 2)


class EmptyCache(list):
    """A cache without rows, which as an array still has a width."""

    def __init__(self, width):
        super().__init__()
        self.width = width

    def in_arrays(self, numpy):
        """Return the array [0, width]."""
        return numpy.zeros((0, self.width))


def _decode(fn, q, k, v):
    """Feed every position through one step at a time, from an empty cache; return all contexts."""
    cache_k, cache_v, contexts = EmptyCache(len(k[0])), EmptyCache(len(v[0])), []
    for t in range(len(q)):
        context, cache_k, cache_v = fn(q[t], k[t], v[t], cache_k, cache_v)
        contexts.append(context)
    return contexts


def _fork(fn, q, k, v):
    """Grow one cache in two ways, and return what the second continuation sees."""
    _, cache_k, cache_v = fn(q[0], k[0], v[0], EmptyCache(len(k[0])), EmptyCache(len(v[0])))
    fn(q[1], k[1], v[1], cache_k, cache_v)
    return fn(q[2], k[2], v[2], cache_k, cache_v)[0]


def _step(context=lambda c: c, keys=lambda old, new: [*old, new], rows=lambda old, new: [*old, new], **knobs):
    """Return a step that attends over `keys` and `rows` and returns them."""

    def wrong(q, k, v, cache_k, cache_v):
        grown_k, grown_v = keys(cache_k, k), rows(cache_v, v)
        attend = knobs.get("attend", oracle.attention)
        return context(attend([q], grown_k, grown_v)[0]), grown_k, grown_v

    return wrong


def _before_it_grows(q, k, v, cache_k, cache_v):
    context = oracle.attention([q], cache_k, cache_v)[0] if cache_k else [0.0] * len(v)
    return context, [*cache_k, k], [*cache_v, v]


def _only_new(q, k, v, cache_k, cache_v):
    return list(v), [*cache_k, k], [*cache_v, v]


def _unchanged(q, k, v, cache_k, cache_v):
    return oracle.cached_step(q, k, v, cache_k, cache_v)[0], cache_k, cache_v


KV_CACHE = Exercise(
    name="attention_with_kv_cache",
    chapter=6,
    params=("q_new", "k_new", "v_new", "cache_k", "cache_v"),
    oracle=oracle.cached_step,
    needs=("scaled_dot_product_attention",),
    cases=(
        Case(
            "kv_cache_first_step",
            (_Q[0], _K[0], _V[0], EmptyCache(3), EmptyCache(2)),
            "with an empty cache the context is the new value.",
        ),
        Case(
            "kv_cache_second_step",
            ([1.0, 0.0], [0.0, 1.0], [3.0], [[1.0, 0.0]], [[1.0]]),
            "the new query attends to what is cached and to the new token; both caches grow by one row, at the end.",
        ),
        Case("kv_cache_third_step", (_Q[2], _K[2], _V[2], _K[:2], _V[:2]), "keys and values have widths of their own."),
        Case(
            "kv_cache_equals_full_recompute",
            (_Q, _K, _V),
            "token by token gives what causal attention over all tokens gives, at every step.",
            drive=_decode,
            labels=("q", "k", "v"),
        ),
        Case(
            "kv_cache_can_be_forked",
            (_Q, _K, _V),
            "two continuations of one cache must not see each other.",
            drive=_fork,
            labels=("q", "k", "v"),
        ),
    ),
    mistakes=(
        Mistake("the new token is not among those attended to: append first, then attend.", _before_it_grows),
        Mistake("the caches come back as they were: return the grown ones.", _unchanged),
        Mistake("only the new token is attended to: the cache is not used.", _only_new),
        Mistake(
            "the new rows are put at the front: put them at the end.",
            _step(keys=lambda c, n: [n, *c], rows=lambda c, n: [n, *c]),
        ),
        Mistake(
            "the newest cached row is overwritten: append.",
            _step(keys=lambda c, n: [*c[:-1], n], rows=lambda c, n: [*c[:-1], n]),
        ),
        Mistake(
            "the oldest row is dropped: this cache keeps every step.",
            _step(keys=lambda c, n: [*c[1:], n], rows=lambda c, n: [*c[1:], n]),
        ),
        Mistake("the scores are not divided by √d_k.", _step(attend=partial(oracle.attention, scale=lambda d: 1.0))),
        Mistake("the context is a matrix of one row: return the row.", _step(context=lambda c: [c])),
        Mistake(
            "the value cache does not grow.",
            lambda q, k, v, ck, cv: (*oracle.cached_step(q, k, v, ck, cv)[:2], cv),
        ),
        Mistake(
            "the key cache does not grow.",
            lambda q, k, v, ck, cv: (oracle.cached_step(q, k, v, ck, cv)[0], ck, [*cv, v]),
        ),
        Mistake(
            "keys and values have changed places in the caches.",
            lambda q, k, v, ck, cv: tuple(oracle.cached_step(q, k, v, ck, cv)[i] for i in (0, 2, 1)),
        ),
        Mistake(
            "only the context comes back: return (context, keys, values).", lambda *args: oracle.cached_step(*args)[0]
        ),
    ),
    hints=(
        "Append, attend, return all three. Make new lists: someone may still need the old cache.",
        "keys = cache_k + [k_new]; one query row over them; no mask, because nothing in the cache lies in the future.",
    ),
)
