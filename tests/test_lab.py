"""The lab: its checks refuse what is wrong, for the right reason, accept what is right, and survive what is neither."""

import ast
import builtins
import doctest
import inspect
import io
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from lab.alternatives import ALTERNATIVES
from lab.mutants import MUTANTS
from lab.page import PAGE, filled
from lab.stubs import stubs

import labkit.attention
import labkit.block
import labkit.embedding
import labkit.ffn
import labkit.flash
import labkit.heads
import labkit.kv_cache
import labkit.mask
import labkit.norm
import labkit.rope
import labkit.softmax
from labkit.lab import check, run_check, solution
from labkit.lab.checker import EVERYTHING, LAB, course
from labkit.lab.checker.command import main
from labkit.lab.checker.contain import OutOfTime, contain
from labkit.lab.checker.exercise import Exercise, Mistake, Sign, call
from labkit.lab.checker.exercises import CHAPTERS, QUANTITIES
from labkit.lab.checker.judge import judge

FOLDER = Path(course.__file__).parents[1]
EXERCISES = [*LAB, *CHAPTERS]
CASES = sum(len(exercise.cases) for exercise in LAB)
INF = float("inf")

by_name = {"ids": lambda item: item.name}


# ------------------------------------------------------------------------------------- refuse what is wrong


def _check(mutant, strict):
    """Return what a check says of a mutant. Only one that never ends is stopped early, however busy the machine is."""
    seconds = 0.5 if "does not come back" in mutant.diagnosis else 60
    return run_check(mutant.exercise, mutant.answer, seconds, strict)


@pytest.mark.parametrize("mutant", MUTANTS, **by_name)
def test_mutant_is_refused_with_the_right_diagnosis(mutant):
    result = _check(mutant, strict=not mutant.arrays)
    assert result.status == "failed", result
    assert mutant.diagnosis in result.message, result
    assert str(result) == str(_check(mutant, strict=not mutant.arrays))
    assert "0x" not in str(result)


ACCEPTED_IN_A_CHAPTER = {"booleans"}  # a chapter's mask may be Boolean; the lab adds its masks


@pytest.mark.parametrize("mutant", MUTANTS, **by_name)
def test_mutant_is_refused_in_a_chapter_too(mutant):
    result = _check(mutant, strict=False)
    assert result.passed == (mutant.name in ACCEPTED_IN_A_CHAPTER), result


@pytest.mark.parametrize("exercise", EXERCISES, **by_name)
def test_there_are_enough_mutants_and_alternatives(exercise):
    assert sum(mutant.exercise == exercise.name for mutant in MUTANTS) >= 3
    assert sum(alternative.exercise == exercise.name for alternative in ALTERNATIVES) >= 2


def _some_mutants(exercise):
    mutants = [mutant for mutant in MUTANTS if mutant.exercise == exercise.name and not mutant.arrays]
    return [mutant for mutant in mutants if "does not come back" not in mutant.diagnosis][:2]


@pytest.mark.parametrize("exercise", LAB, **by_name)
def test_the_right_function_of_a_module_is_blamed(exercise):
    for mutant in _some_mutants(exercise):
        module, _ = course.load(FOLDER / "solution.py")
        setattr(module, exercise.name, mutant.answer)
        known = {}
        for other in LAB:
            if other is exercise or _depends_on(other, exercise):
                course.verdict(module, other, known, seconds=60)
        failed = [name for name, result in known.items() if result.status == "failed"]
        assert failed == [exercise.name], {name: str(result) for name, result in known.items() if not result.passed}
        assert mutant.diagnosis in known[exercise.name].message
        waiting = [result.message for result in known.values() if result.status == "waiting"]
        assert all(message == f"waits for {exercise.name}, which is not right yet." for message in waiting)


def _depends_on(exercise, other):
    return any(need == other.name or _depends_on(course.BY_NAME[need], other) for need in exercise.needs)


@pytest.mark.parametrize("exercise", EXERCISES, **by_name)
def test_every_known_mistake_is_named_as_itself(exercise):
    for mistake in exercise.mistakes:
        for wrong in getattr(mistake, "wrongs", ()):
            result = judge(exercise, wrong, seconds=60, strict=True)
            assert (result.status, result.message) == ("failed", mistake.message)


def _changed(change):
    """Return a way to spoil an oracle: a change to one leaf of each result, by its index, or to all of them."""

    def over(value, count=None):
        count = iter(range(10**6)) if count is None else count
        if isinstance(value, dict):
            return {key: over(item, count) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [over(item, count) for item in value]
        return change(value, next(count)) if isinstance(value, float | int) else value

    return lambda oracle: lambda *args: over(oracle(*args))


SPOILS = {
    "zeros of the right shape": _changed(lambda v, i: 0.0),
    "ones of the right shape": _changed(lambda v, i: 1.0),
    "the first entry off by a millionth": _changed(lambda v, i: v + 1e-6 * max(1, abs(v)) if i == 0 else v),
    "every entry off by a hundred-thousandth": _changed(lambda v, i: v * (1 + 1e-5) + 1e-5),
    "NaN": _changed(lambda v, i: math.nan),
    "words": _changed(lambda v, i: str(v)),
    "one level deeper": lambda oracle: lambda *args: [oracle(*args)],
    "its first argument": lambda oracle: lambda *args: args[0],
    "nothing": lambda oracle: lambda *args: None,
    "always ValueError": lambda oracle: lambda *args: (_ for _ in ()).throw(ValueError("no")),
    "right once only": lambda oracle: _wears_off(oracle),
}


def _wears_off(oracle):
    calls = []

    def answer(*args):
        calls.append(args)
        return oracle(*args) if len(calls) == 1 else None

    return answer


SPOILT = [
    (exercise, spoil)
    for exercise in EXERCISES
    for spoil in SPOILS
    # which weights are drawn is anyone's choice, and a constant of GELU's may be rounded
    if not (exercise.name == "build_params" and "off by" in spoil)
    if not (exercise.name == "gelu" and "millionth" in spoil)
]


@pytest.mark.parametrize(("exercise", "spoil"), SPOILT, ids=[f"{exercise.name}-{spoil}" for exercise, spoil in SPOILT])
def test_no_check_accepts_a_spoilt_oracle(exercise, spoil):
    result = judge(exercise, SPOILS[spoil](exercise.oracle), seconds=60, strict=True)
    assert result.status in ("failed", "not started"), result
    assert (result.status == "not started") == (spoil == "nothing")


# ------------------------------------------------------------------------------------- accept what is right


@pytest.mark.parametrize("alternative", ALTERNATIVES, **by_name)
def test_alternative_is_accepted(alternative):
    result = run_check(alternative.exercise, alternative.answer, seconds=60)
    assert result.passed, result
    if not alternative.arrays:
        assert run_check(alternative.exercise, alternative.answer, seconds=60, strict=True).passed


@pytest.mark.parametrize("exercise", EXERCISES, **by_name)
def test_oracle_passes_its_own_check_on_lists_and_on_arrays(exercise):
    assert judge(exercise, exercise.oracle, seconds=60, strict=True).passed


def test_solution_passes_every_check():
    module, fault = course.load(FOLDER / "solution.py")
    assert not fault
    known = {}
    assert all(course.verdict(module, exercise, known, seconds=60).passed for exercise in LAB)
    assert [known[exercise.name].total for exercise in LAB] == [len(exercise.cases) for exercise in LAB]


# What the lab computes with lists, labkit computes with arrays. Random inputs, none of them square.

RNG = np.random.default_rng(4)


def _array(*shape):
    return RNG.normal(size=shape)


Q, K, V, MASK = _array(5, 6), _array(7, 6), _array(7, 3), np.triu(np.full((5, 7), -np.inf), k=3)
X, W_Q, W_K, W_V, W_O = _array(5, 12), _array(12, 12), _array(12, 12), _array(12, 12), _array(12, 12)
CAUSAL = np.triu(np.full((5, 5), -np.inf), k=1)
GATE, UP, DOWN = _array(12, 17), _array(12, 17), _array(17, 12)
Q_HEADS, K_HEADS, V_HEADS = _array(6, 5, 4), _array(2, 7, 4), _array(2, 7, 3)
TABLE, IDS, POSITIONS = _array(9, 12), [4, 0, 8, 4, 2], [3, 0, 11, 4, 7]
FREQUENCIES = labkit.rope.frequencies(12)


def _interleaved(x, positions):
    return labkit.rope.rotate(x, np.asarray(positions), FREQUENCIES, pairing="interleaved")


AGREE = {
    "softmax": (solution.softmax, labkit.softmax.softmax, (Q[0] * 30,)),
    "cross_entropy": (solution.cross_entropy, labkit.softmax.cross_entropy, (Q[0] * 300, 4)),
    "layer_norm": (solution.layer_norm, labkit.norm.layer_norm, (X[0], X[1], X[2], 1e-3)),
    "rms_norm": (solution.rms_norm, labkit.norm.rms_norm, (X[0], X[1], 1e-3)),
    "linear": (solution.linear, labkit.attention.linear, (X, GATE, GATE[0])),
    "attention": (solution.scaled_dot_product_attention, labkit.attention.scaled_dot_product_attention, (Q, K, V)),
    "masked attention": (
        solution.scaled_dot_product_attention,
        labkit.attention.scaled_dot_product_attention,
        (Q, K, V, MASK),
    ),
    "causal_mask": (
        solution.causal_mask,
        lambda T: np.where(labkit.mask.causal_mask(T), 0.0, -np.inf),
        (6,),
    ),
    "split_heads": (solution._split_heads, labkit.heads.split_heads, (X, 3)),
    "concat_heads": (solution._concat_heads, labkit.heads.concat_heads, (Q_HEADS,)),
    "multi_head_attention": (
        solution.multi_head_attention,
        labkit.heads.multi_head_attention,
        (X, W_Q, W_K, W_V, W_O, 3, CAUSAL),
    ),
    "rope": (solution.rope, _interleaved, (X, POSITIONS)),
    "gelu": (solution.gelu, labkit.ffn.gelu, (-2.7,)),
    "silu": (solution._silu, labkit.ffn.silu, (-31.5,)),
    "swiglu": (solution.swiglu_ffn, labkit.ffn.swiglu, (X, GATE, UP, DOWN)),
    "grouped_query_attention": (
        solution.grouped_query_attention,
        labkit.kv_cache.grouped_query_attention,
        (Q_HEADS, K_HEADS, V_HEADS, MASK),
    ),
    "embedding": (EVERYTHING["embed"].oracle, labkit.embedding.embed, (IDS, TABLE)),
    "add_positions": (solution.add_positions, labkit.embedding.add_positions, (X, TABLE, 4)),
    "tied_logits": (solution.tied_logits, labkit.embedding.unembed, (X, TABLE)),
}


@pytest.mark.parametrize("name", AGREE)
def test_solution_agrees_with_labkit(name):
    lists, arrays, args = AGREE[name]
    got = lists(*[arg.tolist() if isinstance(arg, np.ndarray) else arg for arg in args])
    want = np.asarray(arrays(*args), dtype=np.float64)
    assert np.shape(got) == want.shape
    finite = np.isfinite(want)
    assert np.array_equal(np.isfinite(got), finite)
    assert np.abs(np.asarray(got)[finite] - want[finite]).max() < 1e-12


def test_tiled_attention_agrees_with_labkit():
    k, v = K.tolist(), V.tolist()
    got = solution.tiled_attention(Q.tolist(), lambda a, b: (k[a:b], v[a:b]), n_keys=7, tile_size=3)
    want = labkit.flash.flash_attention(Q, K, V, block_q=2, block_k=3)
    assert np.abs(np.array(got) - want).max() < 1e-12
    assert np.abs(np.array(got) - labkit.attention.scaled_dot_product_attention(Q, K, V)).max() < 1e-12


def test_forward_pass_agrees_with_labkit_layer_by_layer():
    """The lab's model from labkit's parts: the stream rotated once, RMSNorm, SwiGLU, a head of its own."""
    params = EVERYTHING["gpt_forward"].cases[1].args[1]  # weights large enough to tell things apart
    ids = [1, 5, 0, 2, 2]
    d_model = len(params["embed"][0])
    x = labkit.embedding.embed(np.array(ids), np.array(params["embed"]))
    x = labkit.rope.rotate(x, np.arange(len(ids)), labkit.rope.frequencies(d_model), pairing="interleaved")
    mask = labkit.mask.causal_mask(len(ids))
    for block in params["blocks"]:
        w = {name: np.array(weight) for name, weight in block.items()}
        normed = labkit.norm.rms_norm(x, w["norm1_w"])
        weights = (w["w_q"], w["w_k"], w["w_v"], w["w_o"])
        x = x + labkit.heads.multi_head_attention(normed, *weights, block["n_heads"], mask=mask)
        x = x + labkit.ffn.swiglu(labkit.norm.rms_norm(x, w["norm2_w"]), w["w_gate"], w["w_up"], w["w_down"])
    want = labkit.norm.rms_norm(x, np.array(params["final_norm_w"])) @ np.array(params["lm_head"])
    got = np.array(solution.gpt_forward(ids, params))
    assert got.std() > 0.5
    assert np.abs(got - want).max() < 1e-12


# ---------------------------------------------------------------------------- survive what is neither


def _loops(x):
    while True:
        pass


def _loops_and_swallows(x):
    end = time.monotonic() + 3  # by then the check is long over
    while time.monotonic() < end:
        try:
            while time.monotonic() < end:
                pass
        except:  # noqa: E722
            pass


def _sleeps(x):
    time.sleep(5)


def _recurses(x):
    return _recurses(x)


def _raises(x):
    raise KeyError("oops")


class _Rude(Exception):
    def __str__(self):
        raise RuntimeError("no text for you")


def _raises_rudely(x):
    raise _Rude


class _Odd:
    """A result that answers every question with an error."""

    def __getattr__(self, name):
        raise RuntimeError("ask me nothing")

    def __eq__(self, other):
        raise RuntimeError("compare me with nothing")

    __hash__ = None


class _Nameless(_Odd):
    """It can be called, and will not say what it is."""

    def __call__(self, x):
        raise NotImplementedError


def _contains_itself(x):
    x = [1.0]
    x.append(x)
    return x


def _infinite(x):
    return [INF for _ in x]


UNRULY = {
    "loop": (_loops, "it does not come back"),
    "loop that swallows everything": (_loops_and_swallows, "it does not come back"),
    "sleep": (_sleeps, "it does not come back"),
    "recursion": (_recurses, "it calls itself without end"),
    "exit": (lambda x: sys.exit(3), "it ends the program"),
    "exit by another name": (lambda x: quit(), "it ends the program"),
    "input": (lambda x: input("x = "), "it waits for something to be typed"),
    "exception": (_raises, "it stops with KeyError"),
    "exception without text": (_raises_rudely, "it stops with _Rude"),
    "keyboard interrupt": (lambda x: (_ for _ in ()).throw(KeyboardInterrupt), "it stops with KeyboardInterrupt"),
    "generator": (lambda x: (v for v in x), "it returns a generator object"),
    "map": (lambda x: map(float, x), "it returns a map object"),
    "number": (lambda x: 0.5, "it returns a single number"),
    "text": (lambda x: "0.5", "it returns a str object"),
    "words": (lambda x: ["a"] * len(x), "its result holds a str object at [0]"),
    "Booleans": (lambda x: [True] * len(x), "its result holds a bool object at [0]"),
    "complex numbers": (lambda x: [1j] * len(x), "its result holds a complex object at [0]"),
    "strange object": (lambda x: _Odd(), "it stops with RuntimeError"),
    "strange objects": (lambda x: [object()] * len(x), "its result holds a object object at [0]"),
    "too long": (lambda x: [1.0] * (len(x) + 1), "its result has shape [2], where shape [1] is asked for"),
    "ragged": (lambda x: [[1.0], 2.0], "its result has rows of unequal length"),
    "contains itself": (_contains_itself, "it calls itself without end"),
    "huge integers": (lambda x: [10**400] * len(x), "it stops with OverflowError"),
    "infinite": (_infinite, "large scores overflow"),
    "no arguments": (lambda: [1.0], "it does not take the arguments that it is called with"),
    "too many arguments": (lambda x, y: [1.0], "it does not take the arguments that it is called with"),
    "a number": (7, "the answer should be a function of (x), not a single number"),
    "a result": ([0.25, 0.75], "the answer should be a function of (x), not a list of shape [2]"),
    "a module": (math, "the answer should be a function of (x), not a module object"),
    "an object without a name": (_Nameless(), "it cannot be judged: RuntimeError"),
    "None on one path": (lambda x: solution.softmax(x) if len(x) != 2 else None, "is there a path without a return"),
}


@pytest.mark.parametrize("kind", UNRULY)
@pytest.mark.parametrize("strict", [True, False])
def test_unruly_answers_are_contained_and_named(kind, strict, capsys):
    answer, message = UNRULY[kind]
    result = run_check("softmax", answer, seconds=0.3 if "come back" in message else 60, strict=strict)
    assert result.status == "failed"
    assert message in result.message, result
    assert str(result)
    assert capsys.readouterr() == ("", "")


def test_check_prints_the_verdict_and_returns_nothing(capsys):
    assert check("softmax", solution.softmax) is None
    assert check("softmax") is None
    assert capsys.readouterr().out == "✓ softmax: all 12 cases pass.\n○ softmax: not started.\n"


def test_prints_are_held_back_and_counted(capsys):
    def chatty(x):
        print("first\nsecond")
        print("third", file=sys.stderr)
        return solution.softmax(x)

    result = run_check("softmax", chatty)
    assert result.passed
    assert "(It prints 3 lines on the way, not shown here.)" in str(result)
    assert capsys.readouterr() == ("", "")


def test_streams_are_given_back():
    before = sys.stdout, sys.stderr, sys.stdin, builtins.input
    for kind in ("loop", "exit", "input", "sleep"):
        run_check("softmax", UNRULY[kind][0], seconds=0.1)
    assert (sys.stdout, sys.stderr, sys.stdin, builtins.input) == before


def test_an_interrupt_stops_the_answer_too(monkeypatch):
    running = threading.Event()

    def interrupted(self, timeout=None, join=threading.Thread.join):
        if not running.is_set():
            join(self, 0.1)
            raise KeyboardInterrupt
        return join(self, timeout)

    def answer(x):
        try:
            _loops(x)
        finally:
            running.set()

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        contain(lambda: answer([1.0]), 60)
    running.wait(5)
    time.sleep(0.2)
    assert threading.active_count() == threads


def test_time_limit_is_for_the_whole_check_and_the_rest_is_said_to_be_untried():
    calls = []
    result = run_check("matmul", lambda a, b: calls.append(a) or _loops(a), seconds=0.2)
    assert len(calls) == 1
    assert (result.right, result.total) == (0, len(EVERYTHING["matmul"].cases))
    assert "not tried" in result.about(EVERYTHING["matmul"].cases[-1].name)


def test_slow_but_right_is_right():
    def slow(x):
        time.sleep(0.01)
        return solution.softmax(x)

    assert run_check("softmax", slow, seconds=60).passed


def test_without_threads_the_clock_is_watched_by_a_trace(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    before = sys.gettrace()
    assert isinstance(contain(lambda: _loops(0), 0.2).error, OutOfTime)
    assert contain(lambda: 1 + 1, 60).value == 2
    assert "it does not come back" in run_check("softmax", _loops, seconds=0.2).message
    assert run_check("softmax", solution.softmax).passed
    assert sys.gettrace() is before


@pytest.mark.parametrize("exercise", LAB, **by_name)
def test_changed_arguments_are_named(exercise):
    case = exercise.cases[-1] if exercise.name == "build_params" else exercise.cases[0]
    for i, name in enumerate(exercise.params[: len(case.args)]):
        if case.drive is not call or not isinstance(case.args[i], list | dict):
            continue

        def answer(*args, i=i):
            value = exercise.oracle(*args)
            if isinstance(args[i], dict):
                args[i]["n_heads" if "n_heads" in args[i] else "extra"] = 7
            else:
                args[i].append(args[i][-1] if args[i] else 0.0)
            return value

        assert f"it changes its argument {name}." in run_check(exercise.name, answer, strict=True).message


def test_arguments_changed_in_arrays_are_named():
    def answer(x):
        x -= x.max() if np.isfinite(x.max()) else 0
        e = np.exp(x)
        return e / (e.sum() or 1)

    assert "it changes its argument x." in run_check("softmax", answer).message


def _untouched_raise(x):
    raise NotImplementedError


def _untouched_pass(x):
    pass


def _untouched_dots(x): ...


@pytest.mark.parametrize("answer", [None, ..., _untouched_raise, _untouched_pass, _untouched_dots, lambda x: ...])
@pytest.mark.parametrize("strict", [True, False])
def test_untouched_exercises_are_not_started(answer, strict):
    result = run_check("softmax", answer, strict=strict)
    assert result.status == "not started"
    assert str(result).startswith("○ softmax: not started.")


def test_only_a_function_that_does_something_is_told_of_return():
    def forgetful(x):
        shares = [0.0 for score in x]  # noqa: F841

    assert str(run_check("softmax", _untouched_dots)) == "○ softmax: not started."
    assert "hands its result back with return" in str(run_check("softmax", forgetful))


def test_a_function_waits_for_an_untouched_one():
    def mine(q, k, v, mask=None):
        return [transpose(k)]

    def transpose(a):
        raise NotImplementedError

    result = run_check("scaled_dot_product_attention", mine)
    assert (result.status, result.message) == ("waiting", "waits for transpose, which is not started.")


@pytest.mark.parametrize("name", ["sofmax", "", None, 7, ["softmax"], "softmax "])
def test_unknown_names_are_said_to_be_unknown(name, capsys):
    assert run_check(name, solution.softmax).status == "unknown"
    assert check(name, solution.softmax) is None
    assert "there is no exercise of this name" in capsys.readouterr().out
    assert "Did you mean softmax?" in str(run_check("sofmax", None))


def test_names_may_do_without_their_underscore():
    assert run_check("silu", solution._silu).passed
    assert run_check("_silu", solution._silu).passed


def test_the_smallest_input_is_shown_with_what_was_expected_and_what_came():
    def no_scale(q, k, v, mask=None):
        scores = [[sum(a * b for a, b in zip(row, key, strict=True)) for key in k] for row in q]
        if mask:
            scores = [[s + m for s, m in zip(row, line, strict=True)] for row, line in zip(scores, mask, strict=True)]
        return solution.matmul([solution.softmax(row) for row in scores], v)

    assert str(run_check("scaled_dot_product_attention", no_scale)) == (
        "✗ scaled_dot_product_attention: the scores are not divided by √d_k.\n"
        "    smallest such input  q = [[2, 0, 0, 0]]\n"
        "                         k = [[1, 0, 0, 0], [0, 1, 0, 0]]\n"
        "                         v = [[1], [3]]\n"
        "    expected             [[1.538]]\n"
        "    got                  [[1.238]]\n"
        "    5 of 10 cases pass. See chapter 2."
    )


def test_an_error_is_shown_with_its_line():
    line = inspect.getsourcelines(_raises)[1] + 1
    got = dict(run_check("softmax", _raises).details)["got"]
    assert got == f"KeyError: 'oops', at line {line}: raise KeyError(\"oops\")"


def test_small_differences_are_shown_in_enough_digits():
    shown = dict(run_check("gelu", lambda x: solution.gelu(x) + 1e-4).details)
    assert shown["expected"] != shown["got"]


def test_large_results_name_the_first_difference():
    def wrong(token_ids, params):
        logits = solution.gpt_forward(token_ids, params)
        return [[v + (t == 3) * (i == 5) for i, v in enumerate(row)] for t, row in enumerate(logits)]

    module = {case.name: case for case in EVERYTHING["gpt_forward"].cases}
    assert len(module["gpt_forward_logits"].args[0]) == 4
    judged = run_check("gpt_forward", wrong)
    assert judged.status == "failed"
    assert all("[3][5]" in dict(rows).get("first difference", "[3][5]") for rows in judged.wrong.values())


# -------------------------------------------------------------------------------------------- values by hand

BY_HAND = {
    "embedding_parameters": 38597376,
    "untied_tables": 1050673152,
    "attention_weights": [0.731, 0.269],
    "cross_attention_shape": [3, 8],
    "std_of_scores": 8,
    "softmax_by_hand": [0.25, 0.75],
    "weight_ratio": 7.389,
    "masked_entries": 15,
    "keys_seen": 4,
    "head_width": 64,
    "attention_parameters": 1048576,
    "cache_bytes_per_token": 524288,
    "gqa_saving": 4,
    "rope_angle": 0.03,
    "rope_longest_wavelength": 54410,
    "rms_by_hand": 3.536,
    "layer_norm_by_hand": [-1, 1],
    "swiglu_width": 10923,
    "ffn_share": 0.667,
    "layer_parameters": 3145728,
    "residual_gradient": 1.728,
    "initial_loss": 10.82,
    "flops_per_token": 1.4e10,
    "causal_tiles": 136,
    "rescale_factor": 0.1353,
}


def test_every_quantity_has_its_value_here():
    assert sorted(BY_HAND) == sorted(quantity.name for quantity in QUANTITIES)
    assert {quantity.chapter for quantity in QUANTITIES} == set(range(1, 13))


@pytest.mark.parametrize("quantity", QUANTITIES, **by_name)
def test_quantities_take_the_value_name_the_slips_and_refuse_the_rest(quantity):
    value = BY_HAND[quantity.name]
    for right in (value, quantity.value, np.array(quantity.value)):
        assert run_check(quantity.name, right).passed
    for slip, says in quantity.slips:
        result = run_check(quantity.name, slip)
        assert (result.status, result.message) == ("failed", says)
    off = [1.02 * v + 0.01 for v in value] if isinstance(value, list) else 1.02 * value + 0.01
    assert quantity.asks in run_check(quantity.name, off).message
    for odd in ("8", [], [[1.0]], {}, object(), _Odd(), len, True, float("nan"), [None, None]):
        assert run_check(quantity.name, odd).status == "failed"
    assert run_check(quantity.name, ...).status == run_check(quantity.name, None).status == "not started"


# ------------------------------------------------------------------------------------------ the catalogue itself


def test_names_are_unique_and_every_exercise_is_complete():
    names = [case.name for exercise in EXERCISES for case in exercise.cases]
    assert len(set(names)) == len(names)
    assert len(EVERYTHING) == len(EXERCISES) + len(QUANTITIES)
    for exercise in EXERCISES:
        assert isinstance(exercise, Exercise)
        assert 1 <= exercise.chapter <= 12
        assert len(exercise.cases) >= 3
        assert len(exercise.mistakes) >= 4
        assert len(exercise.hints) >= 2
        assert len({mistake.message for mistake in exercise.mistakes}) == len(exercise.mistakes)
        assert all(isinstance(mistake, Mistake | Sign) for mistake in exercise.mistakes)
        assert all(len(hint) <= 120 for hint in exercise.hints)


def test_every_function_comes_after_those_it_needs():
    order = [exercise.name for exercise in LAB]
    for exercise in LAB:
        assert all(order.index(name) < order.index(exercise.name) for name in exercise.needs)
        source = inspect.getsource(getattr(solution, exercise.name))
        called = {
            node.func.id
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and hasattr(node.func, "id")
        }
        assert all(_depends_on(exercise, course.BY_NAME[name]) for name in called & set(order)), exercise.name


def test_lab_is_solution_without_the_solutions():
    assert (FOLDER / "lab.py").read_text(encoding="utf-8") == stubs()


@pytest.mark.parametrize("exercise", LAB, **by_name)
def test_stub_has_signature_docstring_example_and_hint(exercise):
    lab, fault = course.load(FOLDER / "lab.py")
    stub, solved = getattr(lab, exercise.name), getattr(solution, exercise.name)
    assert not fault
    assert inspect.signature(stub) == inspect.signature(solved)
    assert tuple(inspect.signature(stub).parameters)[: len(exercise.params)] == exercise.params
    assert stub.__doc__ == solved.__doc__
    assert all(part in stub.__doc__ for part in ("Parameters\n", "Returns\n", "Examples\n", ">>> "))
    assert "# Hint: " in inspect.getsource(stub)
    with pytest.raises(NotImplementedError):
        stub(*exercise.cases[0].args)


def test_examples_in_the_stubs_are_true():
    lab, _ = course.load(FOLDER / "lab.py")
    globs = {**vars(solution)}
    tests = doctest.DocTestFinder().find(lab, "lab", module=False, globs=globs)
    results = [doctest.DocTestRunner(verbose=False).run(test) for test in tests if test.examples]
    assert len(results) == len(LAB)
    assert all(result.failed == 0 for result in results)


# --------------------------------------------------------------------------------------- the folder by itself

NAMED = (
    "test_softmax_numerically_stable_large_logits",
    "test_sqrt_dk_scaling_is_present",
    "test_causal_attention_zero_in_upper_triangle",
    "test_mha_rejects_indivisible_heads",
    "test_layer_norm_zero_mean_unit_var",
    "test_rms_norm_scales_to_unit_rms",
    "test_rope_preserves_norm",
    "test_rope_position_dependent",
    "test_gelu_shape_of_curve",
    "test_gpt_forward_deterministic",
    "test_kv_cache_equals_full_recompute",
)


def _run(*command, cwd, stdin="", **environment):
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        input=stdin,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def lab(tmp_path):
    folder = tmp_path / "my lab"
    code, out, _ = _run("-m", "labkit.lab", "start", str(folder), cwd=tmp_path)
    assert code == 0
    assert "A fresh lab is in" in out
    return folder


def _pytest(folder, *options, **environment):
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # pytest and nothing else
    return _run("-m", "pytest", "test_lab.py", "-v", "-p", "no:cacheprovider", *options, cwd=folder, **environment)


def test_stubs_are_red_and_say_so(lab):
    code, out, _ = _pytest(lab)
    assert code == 1
    assert re.search(rf"=+ {CASES} failed in ", out), out[-500:]
    assert "error" not in out.lower().replace("NotImplementedError".lower(), "")
    assert out.count(": not started.") >= CASES
    for name in NAMED:
        assert f"test_lab.py::{name} FAILED" in out


def test_solution_is_green_in_that_folder(lab):
    code, out, _ = _pytest(lab, LAB_MODULE="solution")
    assert code == 0
    assert re.search(rf"=+ {CASES} passed in ", out), out[-500:]
    for name in NAMED:
        assert f"test_lab.py::{name} PASSED" in out
    code, out, _ = _run("solution.py", cwd=lab)
    assert code == 0
    assert "RoPE of 1, 2, 3, 4 at position 1         [-1.143, 1.922, 2.96, 4.03]\n" in out
    assert out.count("True\n") == 2
    assert "False" not in out
    assert len(out.splitlines()) >= 20


def test_the_worked_numbers_are_what_the_file_prints(lab):
    printed = _run("solution.py", cwd=lab)[1]
    lines = [f"{name:<40} {solution._show(numbers)}" for name, numbers in solution._worked_numbers()]
    assert printed.splitlines() == lines


def test_the_packages_own_folder_works_as_written():
    code, out, _ = _pytest(FOLDER, "-k", " or ".join(NAMED), LAB_MODULE="solution")
    assert code == 0
    assert f"{len(NAMED)} passed" in out
    code, out, _ = _pytest(FOLDER, "-k", " or ".join(NAMED))
    assert code == 1
    assert f"{len(NAMED)} failed" in out


def test_a_broken_file_fails_every_test_and_no_collection(lab):
    (lab / "lab.py").write_text("def softmax(x:\n    pass\n", encoding="utf-8")
    code, out, _ = _pytest(lab, "-k", "softmax_by_hand or matmul_by_hand")
    assert code == 1
    assert "2 failed" in out
    assert "lab.py is not Python yet: '(' was never closed, at line 1: def softmax(x:" in out


def test_a_failing_test_says_which_mistake_is_likely(lab):
    text = (lab / "solution.py").read_text(encoding="utf-8")
    assert "math.sqrt(len(q[0]))" in text
    (lab / "lab.py").write_text(text.replace("1 / math.sqrt(len(q[0]))", "1.0", 1), encoding="utf-8")
    code, out, _ = _pytest(lab, "--junitxml=report.xml", "-k", "sqrt_dk or mha_two_heads or softmax_by_hand")
    assert code == 1
    assert "2 failed, 1 passed" in out
    assert "✗ scaled_dot_product_attention: the scores are not divided by √d_k." in out
    assert "○ multi_head_attention: waits for scaled_dot_product_attention, which is not right yet." in out
    assert 'name="test_sqrt_dk_scaling_is_present"' in (lab / "report.xml").read_text(encoding="utf-8")


def test_the_folder_needs_the_standard_library_only(lab):
    bare = ("-S", "-E")  # no site-packages: neither NumPy nor pytest nor labkit
    code, out, err = _run(*bare, ".", "check", cwd=lab, LAB="")
    assert "0 of 22" in out, err
    (lab / "lab.py").write_text((lab / "solution.py").read_text(encoding="utf-8"), encoding="utf-8")
    code, out, err = _run(*bare, ".", "check", cwd=lab)
    assert "22 of 22" in out, err
    assert code == 0
    probe = (
        "import sys, checker; checker.run_check('softmax', len); print({'numpy', 'pytest', 'labkit'} & {*sys.modules})"
    )
    assert _run("-c", probe, cwd=lab)[1] == "set()\n"
    assert _run("-c", "import sys, labkit.lab; print('numpy' in sys.modules)", cwd=lab)[1] == "False\n"


def test_imports_of_the_lab_are_of_the_standard_library():
    for path in [*FOLDER.glob("*.py"), *FOLDER.glob("checker/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in names:
                own = name.split(".")[0] in ("labkit", "checker")
                allowed = own or (name == "pytest" and path.name == "test_lab.py")
                assert allowed or name.split(".")[0] in sys.stdlib_module_names, (path, name)


# ------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command in this process: command(folder, *words, stdin="") -> exit code, output, errors."""

    def run(folder, *words, stdin=""):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        return main(words), *capsys.readouterr()

    return run


def test_the_command_can_be_started_in_both_ways(lab):
    for how in (("-m", "labkit.lab"), (".",), (str(lab),)):
        code, out, err = _run(*how, "hint", "silu", "2", cwd=lab)
        assert (code, out.startswith("Two branches"), err) == (0, True, "")
        code, out, err = _run(*how, cwd=lab)
        assert code == 2
        assert "usage: python -m labkit.lab" in err or "usage: python " in err
    assert _run("-m", "labkit.lab", "hint", "softmax", "9", cwd=lab) == (2, "", "softmax has hints 1 to 3.\n")


def test_a_reader_that_has_seen_enough_is_no_error(lab):
    command = f"{sys.executable!r} . check | head -n 1".replace("'", "")
    done = subprocess.run(command, shell=True, cwd=lab, capture_output=True, encoding="utf-8", timeout=120)
    assert done.stdout == "  1/31  ○ matmul: not started. (chapter 2, attention)\n"
    assert done.stderr == ""


def test_start_copies_a_fresh_lab_and_never_overwrites(lab, tmp_path, command):
    assert (lab / "lab.py").read_text(encoding="utf-8") == stubs()
    assert {path.name for path in lab.iterdir()} == {
        *("lab.py", "solution.py", "test_lab.py", "__main__.py", "checker", "pytest.ini")
    }
    assert not list(lab.glob("**/__pycache__"))
    (lab / "lab.py").write_text("mine = True\n", encoding="utf-8")
    code, _, err = command(tmp_path, "start", str(lab))
    assert code == 2
    assert "exists already" in err
    assert (lab / "lab.py").read_text(encoding="utf-8") == "mine = True\n"
    code, _, _ = command(tmp_path, "start", str(tmp_path / "class"), "--without-solution")
    assert code == 0
    assert not (tmp_path / "class" / "solution.py").exists()


def test_check_counts_and_names(lab, command):
    code, out, _ = command(lab, "check")
    assert code == 1
    assert " 1/31  ○ matmul: not started. (chapter 2, attention)\n" in out
    assert out.endswith("0 of 22\nExtensions  [░░░░░░░░░]  0 of 9\nNext: matmul.\n")
    code, out, err = command(lab, "check", "sofmax")
    assert code == 2
    assert err == "There is no function sofmax in the lab. Did you mean softmax?\n"
    code, _, err = command(lab.parent, "check")
    assert code == 2
    assert "There is no lab.py in" in err
    assert "start DIR" in err


def _write(folder, **bodies):
    """Replace the bodies of functions in a folder's lab.py."""
    text = (folder / "lab.py").read_text(encoding="utf-8")
    for name, body in bodies.items():
        node = next(node for node in ast.parse(text).body if getattr(node, "name", None) == name)
        lines = text.split("\n")
        lines[node.body[0].end_lineno : node.end_lineno] = ["    " + line for line in body.split("\n")]
        text = "\n".join(lines)
    (folder / "lab.py").write_text(text, encoding="utf-8")


def test_from_stub_to_green_on_three_functions_with_two_mistakes_on_the_way(lab, command):
    assert command(lab, "next")[1].startswith("Write matmul (chapter 2, attention).\n    Return the matrix product")
    _write(lab, matmul="return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]")
    code, out, _ = command(lab, "next")
    assert code == 0
    assert out.startswith("Mend matmul.\n\n✗ matmul: nothing is checked")
    checks = "if len({len(r) for r in a}) > 1 or len({len(r) for r in b}) > 1 or len(a[0]) != len(b):\n"
    _write(
        lab,
        matmul=checks
        + "    raise ValueError\nreturn [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]",
    )
    assert command(lab, "check", "matmul") == (0, "  1/1  ✓ matmul: all 9 cases pass.\n", "")
    _write(lab, transpose="return [list(column) for column in zip(*a, strict=True)]")
    assert command(lab, "check", "transpose")[0] == 0
    _write(lab, softmax="e = [math.exp(score) for score in x]\nreturn [value / sum(e) for value in e]")
    code, out, _ = command(lab, "check", "softmax")
    assert code == 1
    assert "✗ softmax: the maximum is not subtracted before exp." in out
    assert "ZeroDivisionError" in out or "OverflowError" in out
    assert command(lab, "hint", "softmax", "2")[1].startswith("Softmax does not change when every score is moved")
    body = "top = max(x)\nif top == float('-inf'):\n    return [0.0] * len(x)\n"
    _write(lab, softmax=body + "e = [math.exp(score - top) for score in x]\nreturn [value / sum(e) for value in e]")
    code, out, _ = command(lab, "check")
    assert code == 1
    assert "3 of 22" in out
    assert "Next: add_vectors." in out


def test_hints_are_graded(lab, command):
    code, out, _ = command(lab, "hint", "silu")
    assert code == 0
    assert out == "z · σ(z).\n(More: hint _silu 2)\n"
    assert "That was the last hint. Chapter 9" in command(lab, "hint", "_silu", "2")[1]
    assert command(lab, "hint", "_silu", "3")[:1] == (2,)


def test_show_asks_first(lab, command):
    solved = inspect.getsource(solution._silu).split('"""')[2]
    for stdin in ("", "\n", "n\n", "what?\n"):
        assert command(lab, "show", "_silu", stdin=stdin) == (0, "Show the solution of _silu? [y/N] Not shown.\n", "")
    assert solved.strip() in command(lab, "show", "_silu", stdin="y\n")[1]
    assert solved.strip() in command(lab, "show", "silu", "--yes")[1]


def test_what_no_thread_can_stop_is_contained_by_the_command(lab, command):
    (lab / "lab.py").write_text((lab / "solution.py").read_text(encoding="utf-8"), encoding="utf-8")
    _write(
        lab,
        transpose="return sum(iter(int, 1))",  # a loop inside C, which no thread can interrupt
        rms_norm="import os\nos._exit(0)",
        gelu="while True:\n    pass",
        _silu="print('{\"result\": 1}')\nreturn 0.0",
        build_params="import sys\nsys.exit()",
    )
    code, out, _ = command(lab, "check", "--seconds", "2")
    assert code == 1
    assert "✗ transpose: it does not come back." in out
    assert "✗ rms_norm: it ends Python itself." in out
    assert "✗ gelu: it does not come back." in out
    assert "✗ build_params: it ends the program" in out
    assert "○ scaled_dot_product_attention: waits for transpose, which is not right yet." in out
    assert "○ transformer_block: waits for rms_norm, which is not right yet." in out
    assert "✓ matmul" in out
    assert "✓ cross_entropy" in out
    assert "31/31" in out
    code, out, _ = command(lab, "check", "tied_logits", "--seconds", "2")
    assert code == 1
    assert "○ tied_logits: waits for transpose" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "lab.py is not Python yet: invalid syntax, at line 1: def f(:"),
        ("while True:\n    pass\n", "lab.py does not come to its end: is there a loop outside the functions?"),
        ("x = 1 / 0\n", "lab.py stops while it is read: ZeroDivisionError: division by zero, at line 1: x = 1 / 0"),
        ("import nosuchthing\n", "lab.py stops while it is read: ModuleNotFoundError: No module named 'nosuchthing'"),
        ("import os\nos._exit(0)\n", "lab.py cannot be read: it ends Python itself."),
        ("\x00", "lab.py"),
    ],
)
def test_files_that_cannot_be_read_are_named(lab, text, message, command):
    (lab / "lab.py").write_text(text, encoding="utf-8")
    seconds = 0.5 if "loop" in message else 60
    code, out, err = command(lab, "check", "--seconds", str(seconds))
    assert code == 2
    assert not out
    assert err.startswith(message), err
    assert "Traceback" not in err
    if "_exit" not in text:
        assert course.load(lab / "lab.py", seconds) == (None, err.strip())


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert course.load(tmp_path / "lab.py") == (None, "there is no lab.py here.")


def test_the_worker_speaks_in_lines_of_json(lab, monkeypatch, capsys):
    monkeypatch.setattr("labkit.lab.checker.command._limit_memory", lambda: None)
    stdout = sys.stdout
    for text, last in (((lab / "solution.py").read_text(encoding="utf-8"), {"done": True}), ("1 / 0\n", "fault")):
        (lab / "lab.py").write_text(text, encoding="utf-8")
        known = [asdict(run_check("softmax", solution.softmax))]
        job = {"path": str(lab / "lab.py"), "names": ["matmul", "softmax"], "known": known, "seconds": 60}
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(job)))
        monkeypatch.setattr(sys, "stdout", stdout)
        main(["worker"])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        if last == "fault":
            assert "lab.py stops while it is read: ZeroDivisionError" in lines[-1]["fault"]
        else:
            assert lines[0] == {"busy": "matmul"}
            assert [line["result"]["name"] for line in lines if "result" in line] == ["matmul", "softmax"]
            assert all(line["result"]["status"] == "passed" for line in lines if "result" in line)
            assert lines[-1] == last


def test_a_missing_function_is_named(lab, command):
    (lab / "lab.py").write_text("print('hello')\n", encoding="utf-8")
    code, out, _ = command(lab, "check", "softmax")
    assert (code, out) == (
        1,
        "  1/1  ○ softmax: not started. There is no function softmax in the file. (chapter 3, softmax)\n",
    )


# --------------------------------------------------------------------------------------------------- the book's page


def test_the_page_shows_what_the_lab_does_now():
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text) == text, "run tests/lab/page.py"
    mutants, alternatives = len(MUTANTS), len(ALTERNATIVES)
    cases = sum(len(exercise.cases) for exercise in EXERCISES)
    assert f"| **all** | {cases} | {mutants} | {mutants} | {mutants} | {alternatives} | {alternatives} |" in text
