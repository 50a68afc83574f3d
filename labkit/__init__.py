"""The transformer, one mechanism a module, in plain NumPy.

Each chapter of the book has a module of its own name here: `labkit.softmax` holds what chapter 3 teaches,
`labkit.attention` what chapter 2 teaches, and so on. `import labkit` loads nothing else; a module is loaded when it
is first used.
"""

from importlib import import_module

__version__ = "0.1.0"

_MODULES = (
    "accounting",
    "attention",
    "block",
    "checkpoint",
    "embedding",
    "explore",
    "ffn",
    "figures",
    "flash",
    "heads",
    "kv_cache",
    "lab",
    "mask",
    "model",
    "norm",
    "rope",
    "sampling",
    "softmax",
    "source",
    "tokenizer",
    "trained",
)


def __getattr__(name):
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_MODULES])
