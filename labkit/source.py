"""Show the real source of a function in a chapter, so that the book holds no second copy."""

import ast
import inspect
import textwrap


class Source:
    """The source of a function with its docstring folded to one line; a notebook shows it as highlighted code."""

    def __init__(self, function):
        self.text = fold(inspect.getsource(function))

    def __repr__(self):
        return self.text

    def _repr_markdown_(self):
        return f"```python\n{self.text}\n```"


def source(function):
    """Return the source of a function, ready to be shown by a notebook.

    Raises
    ------
    ValueError
        If `function` has no Python source.

    Examples
    --------
    >>> from labkit.mask import causal_mask
    >>> source(causal_mask)
    def causal_mask(T, S=None):
        \"\"\"Return the mask under which no query sees a key that comes after it. …\"\"\"
        S = T if S is None else S
        _check.integer(at_least=1, T=T, S=S)
        return np.arange(S) <= np.arange(T)[:, None] + (S - T)
    """
    try:
        return Source(function)
    except (OSError, TypeError) as error:
        raise ValueError(f"source needs a function written in Python, got {function!r}") from error


def fold(text):
    """Keep only the first line of the first docstring in a piece of source."""
    lines = textwrap.dedent(text).rstrip().split("\n")
    definition = ast.parse("\n".join(lines)).body[0]
    first = definition.body[0]
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.end_lineno > first.lineno):
        return "\n".join(lines)
    summary = first.value.value.strip().split("\n")[0]
    folded = " " * first.col_offset + f'"""{summary} …"""'
    return "\n".join([*lines[: first.lineno - 1], folded, *lines[first.end_lineno :]])
