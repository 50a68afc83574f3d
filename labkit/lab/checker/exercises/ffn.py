"""Chapter 9: activations and the gated feed-forward layer."""

import math
from functools import partial

from .. import oracle
from ..exercise import Case, Exercise, Mistake, Sign
from ..oracle import INF


def _curve(fn, xs):
    return [fn(x) for x in xs]


def _sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z > -700 else 0.0


def _silu_that_overflows(z):
    return z / (1 + math.exp(-z))


GELU = Exercise(
    name="gelu",
    chapter=9,
    params=("x",),
    oracle=oracle.gelu,
    cases=(
        Case("gelu_one", (1.0,), "½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))."),
        Case("gelu_zero", (0.0,), "GELU(0) = 0."),
        Case(
            "gelu_tanh_form",
            (-2.7,),
            "this is the tanh form: −0.008888 here, where the erf form gives −0.009361.",
            tolerance=1e-6,
        ),
        Case(
            "gelu_shape_of_curve",
            ([-10.0, -3.0, -0.75, 0.5, 3.0, 10.0],),
            "nearly 0 far to the left, a dip below 0, nearly x far to the right.",
            drive=_curve,
            tolerance=1e-6,
            labels=("x in turn",),
        ),
    ),
    mistakes=(
        Mistake(
            "this is the erf form: the tanh form is asked for.", lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))
        ),
        Mistake(
            "this is the sigmoid form x σ(1.702 x): the tanh form is asked for.", lambda x: x * _sigmoid(1.702 * x)
        ),
        Mistake("this is ReLU.", lambda x: max(0.0, x)),
        Mistake("this is SiLU.", oracle.silu),
        Mistake("the factor ½ is missing.", lambda x: 2 * oracle.gelu(x)),
        Mistake("the factor x in front is missing.", lambda x: oracle.gelu(x) / x if x else 0.5),
        Mistake("the 1 + before tanh is missing.", lambda x: oracle.gelu(x) - 0.5 * x),
        Mistake("the cubic term is missing.", partial(oracle.gelu, c=0.0)),
        Mistake(
            "the cubic term's factor is not 0.044715.",
            *(partial(oracle.gelu, c=c) for c in (0.44715, 0.0044715, 0.04715, 0.4715, -0.044715)),
        ),
        Mistake(
            "the cube is a square: x³.",
            lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x))),
        ),
        Mistake("the root over 2/π is missing.", partial(oracle.gelu, k=2 / math.pi)),
        Mistake(
            "it is √(2/π), not √(π/2), √2/π or √2.",
            *(partial(oracle.gelu, k=k) for k in (math.sqrt(math.pi / 2), math.sqrt(2) / math.pi, math.sqrt(2))),
        ),
        Mistake(
            "√(2/π) multiplies x only: it multiplies the cubic term, too.",
            lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * x + 0.044715 * x**3)),
        ),
    ),
    hints=("One number in, one out; math.tanh.", "0.5 * x * (1 + tanh(√(2/π) * (x + 0.044715 * x³)))."),
)

SILU = Exercise(
    name="_silu",
    chapter=9,
    params=("z",),
    oracle=oracle.silu,
    cases=(
        Case("silu_one", (1.0,), "z σ(z), with σ(z) = 1 / (1 + exp(−z))."),
        Case("silu_zero", (0.0,), "SiLU(0) = 0."),
        Case("silu_negative", (-1.5,), "it dips below 0 for negative z."),
        Case("silu_large", (40.0,), "nearly z far to the right."),
        Case("silu_does_not_overflow", (-1000.0,), "exp(1000) overflows: SiLU(−1000) is 0."),
        Case("silu_does_not_overflow_on_the_right", (1000.0,), "exp(1000) overflows: SiLU(1000) is 1000."),
    ),
    mistakes=(
        Mistake("exp(−z) overflows for very negative z: use exp(z) there.", _silu_that_overflows),
        Mistake(
            "exp(z) overflows for large z: use exp(−z) there.",
            lambda z: z * math.exp(z) / (1 + math.exp(z)),
            lambda z: z / (1 + math.exp(-z)) if z < 700 else math.nan,
        ),
        Mistake("this is the sigmoid: multiply by z.", _sigmoid, lambda z: 1 / (1 + math.exp(-z))),
        Mistake(
            "the sign in the exponent is wrong: exp(−z).", lambda z: z * _sigmoid(-z), lambda z: z / (1 + math.exp(z))
        ),
        Mistake("this is ReLU.", lambda z: max(0.0, z)),
        Mistake("this is GELU.", oracle.gelu, lambda z: 0.5 * z * (1 + math.erf(z / math.sqrt(2)))),
        Mistake("this is tanh in place of the sigmoid.", lambda z: z * math.tanh(z)),
        Sign("it overflows for a large |z|.", lambda args, expected, got: got != got or got in (INF, -INF)),
    ),
    hints=(
        "z · σ(z).",
        "Two branches: z / (1 + exp(−z)) where z ≥ 0, z · exp(z) / (1 + exp(z)) where z < 0. Neither overflows.",
    ),
)

_X = oracle.numbers(51, 2, 3)
_GATE, _UP, _DOWN = oracle.numbers(52, 3, 5), oracle.numbers(53, 3, 5), oracle.numbers(54, 5, 3)


def _swiglu(**knobs):
    return partial(oracle.swiglu, **knobs)


SWIGLU = Exercise(
    name="swiglu_ffn",
    chapter=9,
    params=("x", "w_gate", "w_up", "w_down"),
    oracle=oracle.swiglu,
    needs=("linear", "_silu"),
    cases=(
        Case("swiglu_one_unit", ([[1.0]], [[2.0]], [[3.0]], [[0.5]]), "SiLU(2) · 3 · 0.5."),
        Case(
            "swiglu_gate_and_up_differ",
            ([[1.0]], [[-1.0]], [[2.0]], [[1.0]]),
            "SiLU is on the gate only: SiLU(−1) · 2.",
        ),
        Case(
            "swiglu_one_position",
            (_X[:1], _GATE, _UP, _DOWN),
            "gate and up are multiplied entry by entry, then projected down.",
        ),
        Case("swiglu_two_positions", (_X, _GATE, _UP, _DOWN), "every position is treated by itself."),
        Case(
            "swiglu_rejects_mismatched_width",
            (_X, _GATE, _UP, oracle.numbers(55, 4, 3)),
            "w_down has 4 rows, d_ff is 5.",
        ),
    ),
    mistakes=(
        Mistake(
            "gate and up have changed places: SiLU belongs on x w_gate.", lambda x, g, u, d: oracle.swiglu(x, u, g, d)
        ),
        Mistake("gate and up are added: multiply them.", _swiglu(join=lambda g, u: g + u)),
        Mistake("the up projection is missing.", _swiglu(join=lambda g, u: g)),
        Mistake("the gate is missing.", _swiglu(join=lambda g, u: u)),
        Mistake("SiLU is missing.", _swiglu(gate=lambda v: v)),
        Mistake("SiLU is on both: only the gate has it.", _swiglu(up=oracle.silu)),
        Mistake(
            "SiLU is on the product: put it on the gate, before multiplying.",
            _swiglu(gate=lambda v: v, join=lambda g, u: oracle.silu(g * u)),
        ),
        Mistake("the gate's activation is GELU: that is GEGLU.", _swiglu(gate=oracle.gelu)),
        Mistake("the gate's activation is ReLU: that is ReGLU.", _swiglu(gate=lambda v: max(0.0, v))),
        Mistake("the gate's activation is the sigmoid: that is GLU.", _swiglu(gate=_sigmoid)),
        Mistake("the projection down is missing.", _swiglu(down=lambda h, w: h)),
        Mistake(
            "the input is added to the result: the residual add comes later, in the block.",
            lambda x, g, u, d: oracle.add_matrices(x, oracle.swiglu(x, g, u, d)),
        ),
    ),
    hints=(
        "Three projections, one SiLU, one product.",
        "gate = SiLU of every entry of linear(x, w_gate); up = linear(x, w_up); linear(gate ⊙ up, w_down).",
    ),
)
