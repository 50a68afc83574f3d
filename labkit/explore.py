"""Sliders that live in JupyterLab and in the published page alike.

An explorer is a pure figure function with a control for each of its parameters:

    explore(saturation_figure, readout=saturation_numbers, d_k=Steps([1, 8, 64, 512]), scaled=Toggle())

With a kernel it is a set of ipywidgets: a move calls the function and swaps one picture. While the book is built
(LABKIT_STATIC is set) the same call returns HTML that needs neither kernel nor server: native controls, what the
functions returned on the grid of all settings, and one small script shared by all explorers (book/assets/explore.js).

A small grid is shipped as *frames*, one SVG a setting. For a larger one ship *marks*: one SVG, and for each group of
its elements the numbers that the script sets as their opacity or text. The page computes nothing itself.
"""

import contextlib
import gc
import hashlib
import html
import inspect
import itertools
import json
import math
import re
from dataclasses import dataclass

import numpy as np

from labkit.figures.canvas import short, static

MAX_FRAMES = 120


@dataclass(frozen=True)
class Steps:
    """A slider that stops at each of the given values.

    Parameters
    ----------
    values : sequence
        What the figure function may be given.
    label : str, optional
        What the slider is called. Default: the parameter's name.
    start : optional
        The value to start at. Default: the first.
    names : sequence of str, optional
        What each value is called. Default: the value itself.
    """

    values: tuple
    label: str | None = None
    start: object = None
    names: tuple | None = None

    def __post_init__(self):
        """Check that there is something to slide over."""
        object.__setattr__(self, "values", tuple(self.values))
        object.__setattr__(self, "names", tuple(str(v) for v in (self.names or self.values)))
        object.__setattr__(self, "start", self.values[0] if self.start is None and self.values else self.start)
        if len(self.values) < 2:
            raise ValueError(f"Steps needs at least 2 values, got {self.values}")
        if len(self.names) != len(self.values):
            raise ValueError(f"Steps needs a name for each value, got {len(self.names)} for {len(self.values)}")
        if self.start not in self.values:
            raise ValueError(f"start must be one of the values {self.values}, got {self.start!r}")


@dataclass(frozen=True)
class Toggle:
    """A switch between False and True.

    Parameters
    ----------
    label : str, optional
        What the switch is called. Default: the parameter's name.
    start : bool
        The position to start at.
    """

    label: str | None = None
    start: bool = True
    values = (False, True)
    names = ("off", "on")


def explore(figure, *, readout, alt, caption="", marks=None, **controls):
    """Return a figure function with a control for each of its parameters.

    Parameters
    ----------
    figure : callable
        Takes one keyword argument a control and returns a `labkit.figures.canvas.Drawing`. Pure: the same settings
        give the same picture.
    readout : callable
        Takes some or all of the controls by name and returns a dict of names to numbers or strings: what stands beside
        the picture.
    alt : str
        What the picture shows, for those who do not see it.
    caption : str
        A sentence under the picture.
    marks : dict of str to (str, callable), optional
        For more than 120 settings. `{"cell": ("opacity", f)}` says that the elements of the picture whose gid is
        cell-0, cell-1, … have the opacities that `f` returns, an array, for the controls that it names; `"text"`
        sets what they read. All else in the picture must be the same at every setting. Marks are patches or texts:
        the opacity of a plotted line is part of its stroke, which the page cannot set.
    **controls : Steps or Toggle
        One for each parameter of `figure`.

    Returns
    -------
    Explorer

    Raises
    ------
    ValueError
        If a function names a control that is not there, or there are too many settings for frames.

    Examples
    --------
    >>> from labkit.figures.canvas import canvas
    >>> explore(lambda n: canvas()[0], readout=lambda n: {"n²": n**2}, alt="nothing", n=Steps([1, 2, 3]))
    Explorer of n (1 … 3). At the start: n² 1.
    """
    return Explorer(figure, readout, alt, caption, marks or {}, controls)


class Explorer:
    """What `explore` returns: it shows itself as widgets, as HTML, or as the picture at its first setting.

    Attributes
    ----------
    start : dict
        The first setting: each control's name and value.
    widgets : dict
        Each control's widget by name, once `live` has made them.
    """

    def __init__(self, figure, readout, alt, caption, marks, controls):
        self.figure, self.alt, self.caption, self.marks, self.controls = figure, alt, caption, marks, controls
        self._readout = readout
        self.start = {name: control.start for name, control in controls.items()}
        self.widgets = {}
        self._places, self._cut = {}, None
        for function in (figure, readout, *(values for _, values in marks.values())):
            unknown = set(_parameters(function)) - set(controls)
            if unknown:
                raise ValueError(f"{function.__name__} needs {sorted(unknown)}, but the controls are {list(controls)}")
        unused = set(controls) - set(_parameters(figure))
        if unused:
            raise ValueError(f"the figure takes no {sorted(unused)}: a control must change the picture")
        for group, (what, _) in marks.items():
            if what not in ("opacity", "text"):
                raise ValueError(f"marks set 'opacity' or 'text', got {what!r} for {group}")
        settings = math.prod(len(control.values) for control in controls.values())
        if not marks and settings > MAX_FRAMES:
            raise ValueError(f"{settings} settings are too many for frames (at most {MAX_FRAMES}): give marks")
        self.id = "x" + hashlib.sha256(f"{figure.__module__}.{figure.__name__}{controls}".encode()).hexdigest()[:8]

    def numbers(self, **setting):
        """Return what stands beside the picture at a setting: a dict of strings."""
        return {name: _printed(value) for name, value in _call(self._readout, setting).items()}

    def picture(self, **setting):
        """Return the picture at a setting as SVG."""
        return self._svg(self.figure(**setting))

    def _svg(self, drawing):
        return drawing.svg(prefix=f"{self.id}-", places=self._places)

    def __repr__(self):
        controls = [f"{c.label or name} ({c.names[0]} … {c.names[-1]})" for name, c in self.controls.items()]
        numbers = [f"{name} {value}" for name, value in self.numbers(**self.start).items()]
        return f"Explorer of {', '.join(controls)}. At the start: {', '.join(numbers)}."

    def _repr_mimebundle_(self, include=None, exclude=None):
        if static():
            return {"text/html": self.html(), "text/plain": repr(self)}
        widget = self.live()._repr_mimebundle_()
        return {**widget, "image/png": self.figure(**self.start).png(), "text/plain": repr(self)}

    def live(self):
        """Return the explorer as ipywidgets, for a notebook with a kernel."""
        import ipywidgets  # here, because building the book does without

        picture, numbers = ipywidgets.HTML(), ipywidgets.HTML()
        self.widgets = {name: _widget(ipywidgets, name, control) for name, control in self.controls.items()}

        def move(_change=None):
            setting = {name: widget.value for name, widget in self.widgets.items()}
            try:
                with _tidied():
                    picture.value = f'<div style="max-width: 36rem">{self._moved(setting)}</div>'
                    numbers.value = self._table(setting)
            except Exception as error:
                # An error in a widget's callback ends in a log that nobody reads: show it in place of the picture too.
                picture.value = f'<pre role="alert">{type(error).__name__}: {html.escape(str(error))}</pre>'
                numbers.value = ""
                raise

        for widget in self.widgets.values():
            widget.observe(move, names="value")
        move()
        return ipywidgets.VBox([*self.widgets.values(), picture, numbers])

    def _moved(self, setting):
        """Return what `picture` does, without drawing it again where there are marks: they are set, as in the page."""
        if not self.marks:
            return self.picture(**setting)
        if self._cut is None:
            self._cut = _cut(self.picture(**self.start), f"{self.id}-", self.marks)
        pieces, marks = self._cut
        values = {group: np.ravel(_call(function, setting)) for group, (_, function) in self.marks.items()}
        filled = (piece + fill(values[group][i]) for piece, (group, i, fill) in zip(pieces, marks, strict=False))
        return "".join([*filled, pieces[-1]])

    def html(self):
        """Return the explorer as a `<figure>` that works with no kernel behind it."""
        data = {
            "sizes": [len(control.values) for control in self.controls.values()],
            "numbers": self._grid(self._readout, lambda readout: [_printed(value) for value in readout.values()]),
        }
        if self.marks:
            data["marks"] = {
                group: {"set": what, **self._grid(values, _flat)} for group, (what, values) in self.marks.items()
            }
        else:
            data["frames"] = self._grid(self.figure, self._svg)
        payload = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
        controls = "\n".join(self._control(name, control) for name, control in self.controls.items())
        return f"""<figure class="explorer" id="{self.id}">
<div class="explorer-controls">
{controls}
</div>
<div class="explorer-picture" role="img" aria-label="{html.escape(self.alt)}">
{self.picture(**self.start)}
</div>
{self._table(self.start)}
<figcaption>{html.escape(self.caption)}</figcaption>
<script type="application/json">{payload}</script>
</figure>"""

    def _grid(self, function, convert):
        """Call a function at every setting of the controls that it names, the last one changing fastest."""
        names = _parameters(function)
        settings = itertools.product(*(self.controls[name].values for name in names))
        values = [convert(function(**dict(zip(names, setting, strict=True)))) for setting in settings]
        return {"by": [list(self.controls).index(name) for name in names], "values": values}

    def _control(self, name, control):
        """Return a native control, with the names of its positions beside it."""
        at, label = control.values.index(control.start), html.escape(control.label or name)
        shown, names = html.escape(control.names[at]), html.escape(json.dumps(control.names, ensure_ascii=False))
        common = f'name="{name}" data-names="{names}" autocomplete="off"'
        if isinstance(control, Toggle):
            box = f'<input type="checkbox" role="switch" {common}{" checked" if control.start else ""}>'
            return f'<label class="explorer-toggle">{box} {label}: <span aria-hidden="true">{shown}</span></label>'
        slider = f'<input type="range" {common} min="0" max="{len(control.values) - 1}" value="{at}"'
        slider += f' aria-label="{label}" aria-valuetext="{shown}">'
        return f'<label class="explorer-steps">{label} = <span>{shown}</span>{slider}</label>'

    def _table(self, setting):
        cells = "".join(
            f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
            for name, value in self.numbers(**setting).items()
        )
        return f'<dl class="explorer-numbers" aria-live="polite">{cells}</dl>'


# Where matplotlib writes an opacity, which it leaves out where it is 1: last in a text, behind the colour in a patch.
_TEXT_STYLE = re.compile(r' style="([^"]*?)(?:; opacity: [\d.]+)?(?=")')
_PATCH_STYLE = re.compile(r' style="(fill: [^;"]+)(?:; opacity: [\d.]+)?')


def _cut(svg, prefix, marks):
    """Cut a picture where its marks have their opacity or text.

    Return the pieces, and for each cut its group, its number, and what writes a value there as a drawing would.
    """
    pieces, cuts, done = [], [], 0
    for mark in re.finditer(rf'<g id="{prefix}({"|".join(map(re.escape, marks))})-(\d+)">\s*<[^>]*>', svg):
        group, i = mark.groups()
        if marks[group][0] == "text":
            piece, fill, stop = svg[done : mark.end()], _text, svg.index("<", mark.end())
        else:
            style = (_TEXT_STYLE if "<text" in mark.group() else _PATCH_STYLE).search(svg, mark.start())
            piece, fill, stop = svg[done : style.end(1)], _opacity, style.end()
        pieces, cuts, done = [*pieces, piece], [*cuts, (group, int(i), fill)], stop
    return [*pieces, svg[done:]], cuts


def _text(value):
    return html.escape(str(value), quote=False)


def _opacity(value):
    return "" if value == 1 else f"; opacity: {short(f'{value:f}')}"


@contextlib.contextmanager
def _tidied():
    """Clear away at once what is made inside.

    Figures are full of circular references. Left alone, they become many before Python looks for them, and then the
    search takes longer than a picture: a slider would falter at every tenth step.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if collects:
            gc.enable()


def _parameters(function):
    return list(inspect.signature(function).parameters)


def _call(function, setting):
    return function(**{name: setting[name] for name in _parameters(function)})


def _printed(value):
    """Write a number as it stands on the page: whole, or to three significant digits.

    Examples
    --------
    >>> _printed(1024), _printed(0.123456), _printed("key 2")
    ('1024', '0.123', 'key 2')
    """
    return str(value) if isinstance(value, str | int | np.integer) else f"{value:.3g}"


def _flat(values):
    """Return an array of opacities or texts as a flat list fit for JSON.

    Examples
    --------
    >>> _flat(np.array([[0.123456, 1.0]])), _flat(["0.12", "1.00"])
    ([0.123, 1.0], ['0.12', '1.00'])
    """
    values = np.asarray(values).ravel()
    return (values if values.dtype.kind == "U" else values.round(3)).tolist()


def _widget(ipywidgets, name, control):
    label, wide = control.label or name, {"description_width": "initial"}
    if isinstance(control, Toggle):
        return ipywidgets.Checkbox(value=control.start, description=label, indent=False)
    return ipywidgets.SelectionSlider(
        options=list(zip(control.names, control.values, strict=True)),
        value=control.start,
        description=label,
        style=wide,
        layout={"width": "min(100%, 36rem)"},
    )
