"""Chapters 10 and 11: the block and the forward pass."""

import itertools
import math
import random
from functools import partial

from .. import oracle, values
from ..exercise import Case, Exercise, Mistake

_PARAMS = oracle.build_params(6, 4, 2, 2, 5, seed=61, spread=0.6, norm_spread=0.4)
_BLOCK = _PARAMS["blocks"][0]
_X = oracle.numbers(62, 3, 4)
_MASK = oracle.causal_mask(3)

_norm, _attend, _ffn, _add = oracle.norm_rows, oracle.block_attention, oracle.block_ffn, oracle.add_matrices


def _block(first, second):
    """Return a block from its two halves, each a function of x, the block and the mask."""
    return lambda x, block, mask=None: second(first(x, block, mask), block, mask)


def _first(x, block, mask):
    return _add(x, _attend(_norm(x, block["norm1_w"]), block, mask))


def _second(x, block, mask):
    return _add(x, _ffn(_norm(x, block["norm2_w"]), block))


def _parallel(x, block, mask=None):
    return _add(_first(x, block, mask), _ffn(_norm(x, block["norm2_w"]), block))


def _swapped(block):
    return {**block, "norm1_w": block["norm2_w"], "norm2_w": block["norm1_w"]}


TRANSFORMER_BLOCK = Exercise(
    name="transformer_block",
    chapter=10,
    params=("x", "block", "mask"),
    oracle=oracle.transformer_block,
    needs=("rms_norm", "multi_head_attention", "swiglu_ffn", "add_matrices"),
    cases=(
        Case("block_one_position", (_X[:1], _BLOCK, [[0.0]]), "x + attention(norm(x)), then x + ffn(norm(x))."),
        Case("block_causal", (_X, _BLOCK, _MASK), "x + attention(norm(x)), then x + ffn(norm(x))."),
        Case("block_without_mask", (_X, _BLOCK, None), "without a mask every position sees every other."),
        Case(
            "block_second_of_two",
            (_X[:2], _PARAMS["blocks"][1], oracle.causal_mask(2)),
            "the weights are those of the block.",
        ),
    ),
    mistakes=(
        Mistake(
            "the first residual add starts from norm(x): add to x itself. The stream stays un-normalised.",
            _block(lambda x, b, m: _add(_norm(x, b["norm1_w"]), _attend(_norm(x, b["norm1_w"]), b, m)), _second),
        ),
        Mistake(
            "the second residual add starts from norm(x): add to x itself. The stream stays un-normalised.",
            _block(_first, lambda x, b, m: _add(_norm(x, b["norm2_w"]), _ffn(_norm(x, b["norm2_w"]), b))),
        ),
        Mistake(
            "both residual adds start from norm(x): add to x itself. The stream stays un-normalised.",
            _block(
                lambda x, b, m: _add(_norm(x, b["norm1_w"]), _attend(_norm(x, b["norm1_w"]), b, m)),
                lambda x, b, m: _add(_norm(x, b["norm2_w"]), _ffn(_norm(x, b["norm2_w"]), b)),
            ),
        ),
        Mistake(
            "the norm comes after each add: that is post-norm. This block is pre-norm.",
            _block(
                lambda x, b, m: _norm(_add(x, _attend(x, b, m)), b["norm1_w"]),
                lambda x, b, m: _norm(_add(x, _ffn(x, b)), b["norm2_w"]),
            ),
        ),
        Mistake(
            "the norm comes after each sublayer: it belongs before.",
            _block(
                lambda x, b, m: _add(x, _norm(_attend(x, b, m), b["norm1_w"])),
                lambda x, b, m: _add(x, _norm(_ffn(x, b), b["norm2_w"])),
            ),
        ),
        Mistake(
            "the first residual add is missing.", _block(lambda x, b, m: _attend(_norm(x, b["norm1_w"]), b, m), _second)
        ),
        Mistake("the second residual add is missing.", _block(_first, lambda x, b, m: _ffn(_norm(x, b["norm2_w"]), b))),
        Mistake(
            "both residual adds are missing.",
            _block(
                lambda x, b, m: _attend(_norm(x, b["norm1_w"]), b, m), lambda x, b, m: _ffn(_norm(x, b["norm2_w"]), b)
            ),
        ),
        Mistake("the second half reads the old x: it must read what the first half returned.", _parallel),
        Mistake(
            "the second half adds to the old x: the attention's correction is lost.",
            lambda x, b, m=None: _add(x, _ffn(_norm(_first(x, b, m), b["norm2_w"]), b)),
        ),
        Mistake(
            "the two norms' weights have changed places.",
            lambda x, b, m=None: oracle.transformer_block(x, _swapped(b), m),
        ),
        Mistake(
            "norm1_w is used twice: the second norm has a weight of its own.",
            lambda x, b, m=None: oracle.transformer_block(x, {**b, "norm2_w": b["norm1_w"]}, m),
        ),
        Mistake("the norm before attention is missing.", _block(lambda x, b, m: _add(x, _attend(x, b, m)), _second)),
        Mistake("the norm before the FFN is missing.", _block(_first, lambda x, b, m: _add(x, _ffn(x, b)))),
        Mistake(
            "both norms are missing.",
            _block(lambda x, b, m: _add(x, _attend(x, b, m)), lambda x, b, m: _add(x, _ffn(x, b))),
        ),
        Mistake("the mask does not reach the attention.", lambda x, b, m=None: oracle.transformer_block(x, b)),
        Mistake("the FFN comes before the attention.", _block(_second, _first)),
        Mistake("the FFN is missing.", lambda x, b, m=None: _first(x, b, m)),
        Mistake("the attention is missing.", lambda x, b, m=None: _second(x, b, m)),
        Mistake(
            "n_heads is not used: take it from the block.",
            lambda x, b, m=None: oracle.transformer_block(x, {**b, "n_heads": 1}, m),
        ),
    ),
    hints=(
        "Twice the same: normalise a copy, compute a correction from it, add that to x.",
        "Normalise row by row: [rms_norm(row, block['norm1_w']) for row in x].",
        "x = add_matrices(x, multi_head_attention(normed, …, mask)); then the same with swiglu_ffn and norm2_w.",
    ),
)

# What build_params draws is anyone's choice; what is compared is the form, and what the seed does.

_MATRICES = ("w_q", "w_k", "w_v", "w_o", "w_gate", "w_up", "w_down")


def _form(fn, *args):
    """Return the shape of every weight, by its name."""
    params = fn(*args)
    blocks = params.get("blocks", []) if isinstance(params, dict) else []
    if not isinstance(params, dict) or not isinstance(blocks, list):
        return params
    named = {name: _kind(weight) for name, weight in params.items() if name != "blocks"}
    for i, block in enumerate(blocks):
        named |= {f"blocks[{i}].{name}": _kind(weight) for name, weight in block.items()}
    return dict(sorted(named.items()))


def _kind(weight):
    return weight if isinstance(weight, int) else str(values.describe(values.plain(weight)))


def _seeds(fn, *args):
    """Return what a seed does, in words that are true or false."""
    state = random.getstate()
    random.seed(17)
    untouched = random.getstate()
    one, again, other = (values.plain(fn(*args, seed)) for seed in (1, 1, 2))
    left_alone = random.getstate() == untouched
    random.setstate(state)
    embeds = [params["embed"] for params in (one, again, other)]
    return {
        "same seed, same weights": embeds[0] == embeds[1] and one == again,
        "other seed, other weights": embeds[0] != embeds[2] and one["lm_head"] != other["lm_head"],
        "global generator left alone": left_alone,
    }


def _weights(fn, *args):
    """Return what the numbers are like, in words that are true or false."""
    params = values.plain(fn(*args))
    first, last = params["blocks"][0], params["blocks"][-1]
    entries = [v for block in (first, last) for name in _MATRICES for _, v in values.leaves(block[name])]
    entries += [v for name in ("embed", "lm_head") for _, v in values.leaves(params[name])]
    return {
        "norm weights are 1": all(set(w) == {1} for w in (first["norm1_w"], last["norm2_w"], params["final_norm_w"])),
        "entries are of both signs and at most 1 in size": min(entries) < 0 < max(entries)
        and max(map(abs, entries)) <= 1,
        "mean near 0": abs(oracle.mean(entries)) < 0.1 * math.sqrt(oracle.variance(entries)),
        "no two matrices of a block alike": len({str(first[name][0]) for name in _MATRICES}) == len(_MATRICES),
        "no two blocks alike": first != last,
        "no two rows alike": len({str(row) for row in params["embed"]}) == len(params["embed"]),
    }


_COUNT = itertools.count()


def _built(change=lambda params: params, seed=lambda seed: seed, before=lambda seed: None):
    """Return build_params with something changed."""

    def wrong(vocab_size, d_model, n_heads, n_layers, d_ff, s=0):
        before(s)
        return change(oracle.build_params(vocab_size, d_model, n_heads, n_layers, d_ff, seed(s)))

    return wrong


def _each_block(change):
    return lambda params: {**params, "blocks": [change(block) for block in params["blocks"]]}


def _copies_of_one(params):
    return {**params, "blocks": [params["blocks"][0]] * len(params["blocks"])}


def _reseeded(block):
    square = block["w_q"]
    return {**block, **dict.fromkeys(("w_q", "w_k", "w_v", "w_o"), square), "w_up": block["w_gate"]}


BUILD_PARAMS = Exercise(
    name="build_params",
    chapter=11,
    params=("vocab_size", "d_model", "n_heads", "n_layers", "d_ff", "seed"),
    oracle=oracle.build_params,
    cases=(
        Case("build_params_form", (7, 4, 2, 2, 5), "every weight has its name and its shape.", drive=_form),
        Case("build_params_seed", (7, 4, 2, 2, 5), "the seed, and nothing else, decides the weights.", drive=_seeds),
        Case("build_params_weights", (50, 16, 2, 2, 24, 3), "small weights around 0, norm weights 1.", drive=_weights),
        Case("build_params_one_layer", (3, 2, 1, 1, 4), "n_layers blocks.", drive=_form),
    ),
    mistakes=(
        Mistake("the seed is not used: every seed gives the same weights.", _built(seed=lambda s: 0)),
        Mistake(
            "the weights differ from call to call: draw them from one random.Random(seed).",
            _built(seed=lambda s: next(_COUNT)),
        ),
        Mistake(
            "it seeds the generator that everyone shares: use one of your own, random.Random(seed).",
            _built(before=lambda s: random.seed(s)),
        ),
        Mistake("all blocks share one set of weights: draw each block's own.", _built(_copies_of_one)),
        Mistake(
            "matrices of one shape are alike: seed once, not for every matrix.",
            _built(_each_block(_reseeded)),
            _built(lambda params: _each_block(_reseeded)(_copies_of_one(params))),
        ),
        Mistake(
            "all weights are zero: draw them.",
            _built(lambda params: _mapped(params, lambda v: 0.0)),
        ),
        Mistake(
            "w_down is [d_ff, d_model]: it goes back down.",
            _built(_each_block(lambda b: {**b, "w_down": oracle.transpose(b["w_down"])})),
        ),
        Mistake(
            "w_gate and w_up are [d_model, d_ff].",
            _built(_each_block(lambda b: {**b, **{n: oracle.transpose(b[n]) for n in ("w_gate", "w_up")}})),
        ),
        Mistake(
            "lm_head is [d_model, vocab_size]: it is applied as x w.",
            _built(lambda params: {**params, "lm_head": oracle.transpose(params["lm_head"])}),
        ),
        Mistake(
            "embed is [vocab_size, d_model].",
            _built(lambda params: {**params, "embed": oracle.transpose(params["embed"])}),
        ),
        Mistake(
            "norm weights start at 1, not at 0.",
            _built(
                lambda p: {
                    **_each_block(lambda b: {**b, **{n: [0.0] * len(b[n]) for n in ("norm1_w", "norm2_w")}})(p),
                    "final_norm_w": [0.0] * len(p["final_norm_w"]),
                }
            ),
        ),
        Mistake(
            "all weights are positive: draw them around 0.",
            _built(lambda p: _mapped(p, abs)),
            _built(lambda p: _mapped(p, lambda v: 0.5 + 0.1 * math.tanh(v))),
        ),
    ),
    hints=(
        "A dictionary: embed, blocks, final_norm_w, lm_head. Each block is a dictionary, too.",
        "Make rng = random.Random(seed) once, at the top, and draw everything from it.",
        "matrix = lambda rows, columns: [[rng.gauss(0, 0.02) for _ in range(columns)] for _ in range(rows)]",
    ),
)


def _mapped(params, change):
    """Return parameters with `change` done to every entry of every matrix."""

    def over(weight):
        return [over(v) for v in weight] if isinstance(weight, list) else change(weight)

    blocks = [{n: over(w) if n in _MATRICES else w for n, w in block.items()} for block in params["blocks"]]
    return {**params, "blocks": blocks, "embed": over(params["embed"]), "lm_head": over(params["lm_head"])}


_IDS = [1, 5, 0, 2]


def _gpt(**knobs):
    return partial(oracle.gpt_forward, **knobs)


def _prefixes(fn, ids, params):
    """Return the last row of logits of every prefix: it must not depend on what comes after."""
    return [fn(ids[:t], params)[-1] for t in range(1, len(ids) + 1)]


def _twice(fn, ids, params):
    return {
        "same weights, same logits": values.plain(fn(ids, params)) == values.plain(fn(ids, params)),
        "other weights, other logits": values.plain(fn(ids, params)) != values.plain(fn(ids, _OTHER)),
    }


_OTHER = oracle.build_params(6, 4, 2, 2, 5, seed=62, spread=0.6, norm_spread=0.4)

GPT_FORWARD = Exercise(
    name="gpt_forward",
    chapter=11,
    params=("token_ids", "params"),
    oracle=oracle.gpt_forward,
    needs=("rope", "causal_mask", "transformer_block", "rms_norm", "linear"),
    cases=(
        Case("gpt_forward_one_token", ([3], _PARAMS), "embed, position, blocks, final norm, head."),
        Case(
            "gpt_forward_logits",
            (_IDS, _PARAMS),
            "embed, position, blocks, final norm, head: one row of logits for each token.",
        ),
        Case(
            "gpt_forward_repeated_token", ([2, 2, 2], _PARAMS), "the same token at other positions gives other logits."
        ),
        Case(
            "gpt_forward_is_causal",
            (_IDS, _PARAMS),
            "the logits of a position do not depend on what comes after it.",
            drive=_prefixes,
        ),
        Case(
            "gpt_forward_deterministic",
            (_IDS, _PARAMS),
            "the same weights give the same logits, other weights give others.",
            drive=_twice,
        ),
        Case(
            "gpt_forward_rejects_token_past_the_table",
            ([1, 6], _PARAMS),
            "the table has 6 rows: token 6 is past its end.",
        ),
        Case(
            "gpt_forward_rejects_negative_token",
            ([-1, 2], _PARAMS),
            "a token id is not negative: −1 would silently take the last row.",
        ),
        Case("gpt_forward_rejects_no_tokens", ([], _PARAMS), "there must be at least one token."),
    ),
    mistakes=(
        Mistake("positions are missing: rotate the embeddings before the first block.", _gpt(position=lambda x: x)),
        Mistake(
            "positions count from 1: the first token is at 0.",
            _gpt(position=lambda x: oracle.rope(x, range(1, len(x) + 1))),
        ),
        Mistake(
            "every token is rotated to the last position.",
            _gpt(position=lambda x: oracle.rope(x, [len(x) - 1] * len(x))),
        ),
        Mistake("the causal mask is missing: positions see the future.", _gpt(mask=lambda T: None)),
        Mistake("the final norm is missing.", _gpt(final_norm=lambda x, w: x)),
        Mistake("only the first block is used.", _gpt(blocks=lambda params: params["blocks"][:1])),
        Mistake(
            "only the last block counts: feed each block what the one before returned.",
            _gpt(blocks=lambda params: params["blocks"][-1:]),
        ),
        Mistake(
            "the first block is used every time: loop over the blocks.",
            _gpt(blocks=lambda params: params["blocks"][:1] * len(params["blocks"])),
        ),
        Mistake("the blocks come in reverse order.", _gpt(blocks=lambda params: params["blocks"][::-1])),
        Mistake("there are no blocks.", _gpt(blocks=lambda params: [])),
        Mistake(
            "it returns weights: logits are asked for, without a softmax.",
            lambda ids, params: [oracle.softmax(row) for row in oracle.gpt_forward(ids, params)],
        ),
        Mistake(
            "only the last row comes back: every position has its logits.",
            lambda ids, params: oracle.gpt_forward(ids, params)[-1:],
            lambda ids, params: oracle.gpt_forward(ids, params)[-1],
        ),
        Mistake(
            "the head is the embedding table: this model has a head of its own, lm_head.",
            _gpt(head=lambda x, params: oracle.tied_logits(x, params["embed"])),
        ),
        Mistake("the head is missing: the last stream comes back.", _gpt(head=lambda x, params: x)),
        Mistake(
            "the embeddings are multiplied by √d_model.",
            _gpt(embed=lambda params, token: oracle.scaled(params["embed"][token], 2.0)),
        ),
        Mistake(
            "positions are rotated anew in every block: once, before the first.",
            _gpt(
                position=lambda x: x,
                block=lambda x, b, m: oracle.transformer_block(oracle.rope(x, range(len(x))), b, m),
            ),
        ),
        Mistake(
            "token ids are not checked: a negative one silently takes a row from the end.",
            _gpt(check=False),
            lambda ids, params: [] if not ids else oracle.gpt_forward(ids, params, check=False),
            lambda ids, params: (
                oracle.gpt_forward(ids, params) if not ids else oracle.gpt_forward(ids, params, check=False)
            ),
            lambda ids, params: (
                oracle.gpt_forward(ids, params)
                if max(ids, default=9) > 5
                else oracle.gpt_forward(ids, params, check=False)
            ),
        ),
    ),
    hints=(
        "Six steps, in the order of the formula; each is one line that calls what you have.",
        "x = [params['embed'][t] for t in token_ids]; x = rope(x, range(len(x))); mask = causal_mask(len(x)).",
        "x = transformer_block(x, block, mask) for every block; then rms_norm of each row, and linear with lm_head.",
    ),
)
