"""The book's one Sphinx extension: what Jupyter Book needs to publish explorers, equations and figures offline."""

import os
import re
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from docutils import nodes
from py_mini_racer import MiniRacer
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.math import get_node_equation_number

from labkit.figures.canvas import page_svg

ASSETS = Path(__file__).parent / "assets"


def setup(app):
    """Register everything with Sphinx."""
    os.environ["LABKIT_STATIC"] = "1"  # the kernels inherit it, and explorers show themselves as HTML
    # As in the tests: another number of threads rounds sums in another way, and a picture may differ in a last digit.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    app.connect("builder-inited", add_assets)
    app.connect("env-get-outdated", read_everything)
    app.connect("doctree-read", label_chapter)
    app.connect("build-finished", draw_icons)
    app.connect("build-finished", work_without_server_or_script)
    app.add_post_transform(InlineFigures)
    app.add_html_math_renderer("prerendered", inline_renderers=(visit_math, None), block_renderers=(visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_assets(app):
    """Publish book/assets on every page."""
    app.config.html_static_path.append(str(ASSETS))
    app.add_css_file("katex/katex.css")
    app.add_css_file("book.css")
    app.add_js_file("explore.js", loading_method="defer")


def read_everything(app, env, added, changed, removed):
    """Have every page read, and every notebook run, in every build.

    Sphinx would keep the old output of a notebook whose file did not change, although labkit did; and a page that
    warned in the last build would not warn again.
    """
    return sorted(env.found_docs)


def label_chapter(app, doctree):
    """Give chapters/03_softmax.ipynb the label ch-softmax: the notebooks themselves are plain Markdown."""
    match = re.fullmatch(r"chapters/\d\d_(\w+)", app.env.docname)
    if match:
        section = doctree.next_node(nodes.section)
        if section is None:
            raise ExtensionError(f"{app.env.docname} has no title")
        label, title = f"ch-{match[1]}", section.next_node(nodes.title).astext()
        standard = app.env.get_domain("std")
        standard.anonlabels[label] = app.env.docname, section["ids"][0]
        standard.labels[label] = app.env.docname, section["ids"][0], title


def draw_icons(app, exception):
    """Put the few icons that the pages use into the style sheet, in place of the theme's script with all of them.

    The script is 1.5 MB, most of what a first visit would load.
    """
    if exception is not None:
        return
    pages = "".join(page.read_text(encoding="utf-8") for page in Path(app.outdir).rglob("*.html"))
    classes = " ".join(re.findall(r'<i class="([^"]*)"', pages))
    names = sorted(set(re.findall(r"\bfa-(\S+)", classes)) - {"solid", "lg"})
    script = Path(app.outdir, "_static", "scripts", "fontawesome.js")
    icons = script.read_text(encoding="utf-8")
    with Path(app.outdir, "_static", "book.css").open("a", encoding="utf-8") as sheet:
        sheet.writelines(icon_rule(name, icons) for name in names)
    script.write_text("/* The icons are in book.css. */\n", encoding="utf-8")


def work_without_server_or_script(app, exception):
    """Mend what the theme and Sphinx take for granted: a server behind the search, and JavaScript for the colours."""
    if exception is not None:
        return
    # Search fetches each page that it found, to quote it. From a file that is forbidden, and logs an error for each.
    options = Path(app.outdir, "_static", "documentation_options.js")
    text = options.read_text(encoding="utf-8")
    text = text.replace("SHOW_SEARCH_SUMMARY: true", 'SHOW_SEARCH_SUMMARY: location.protocol !== "file:"')
    options.write_text(text, encoding="utf-8")
    # Search looks up the part of a page by its id, and takes the dots in those of the API reference for classes.
    tools = Path(app.outdir, "_static", "searchtools.js")
    by_selector, by_id = '`[role="main"] ${anchor}`', '`[role="main"] #${CSS.escape(anchor.slice(1))}`'
    tools.write_text(tools.read_text(encoding="utf-8").replace(by_selector, by_id), encoding="utf-8")
    # Without JavaScript the theme "auto" has no colours. With it, the first script in the page sets the theme anyway.
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace('data-theme="auto"', 'data-theme="light"', 1), encoding="utf-8")


def icon_rule(name, icons):
    """Return the CSS that gives an icon its shape, taken from the theme's script."""
    # The script lists the outlined icons before the solid ones, which are those that the theme uses.
    drawn = re.findall(rf'[{{,]"?{name}"?:\[(\d+),(\d+),\[[^\]]*\],"[^"]*","([^"]+)"\]', icons)
    if not drawn:
        raise ExtensionError(f"the theme has no icon {name!r}")
    width, height, path = drawn[-1]
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}'><path d='{path}'/></svg>"
    return f'.fa-{name} {{ --icon: url("data:image/svg+xml,{svg.replace("<", "%3C").replace(">", "%3E")}"); }}\n'


class InlineFigures(SphinxPostTransform):
    """Put the SVG figures of notebooks into the page itself, so that they follow its theme and need no request."""

    default_priority = 10  # before Sphinx collects the images to copy
    formats = ("html",)

    def run(self, **kwargs):
        """Replace each image that a cell's output left as an SVG file."""
        for number, image in enumerate(list(self.document.findall(nodes.image))):
            path = Path(self.app.srcdir, image["uri"])
            if path.suffix == ".svg" and "jupyter_execute" in image["uri"]:
                alt = nodes.make_id(image.get("alt", "")) and image["alt"].replace("&", "&amp;").replace('"', "&quot;")
                svg = page_svg(path.read_text(encoding="utf-8"), prefix=f"f{number}-")
                svg = svg.replace("<svg ", f'<svg class="book-figure" role="img" aria-label="{alt}" ', 1)
                image.replace_self(nodes.raw("", svg, format="html"))


@lru_cache(maxsize=1)
def katex():
    """Return KaTeX, running in a JavaScript engine of its own. Its script comes with sphinxcontrib-katex."""
    engine = MiniRacer()
    engine.eval(files("sphinxcontrib").joinpath("katex.min.js").read_text(encoding="utf-8"))
    return engine


@lru_cache(maxsize=4096)
def render(latex, display):
    """Return an equation as HTML with MathML beside it for those who do not see it."""
    try:
        return katex().call("katex.renderToString", latex, {"displayMode": display, "strict": "error"})
    except Exception as error:
        raise ExtensionError(f"KaTeX cannot render {latex!r}: {error}") from error


def visit_math(self, node):
    """Write an equation in a line."""
    self.body.append(render(node.astext(), False))
    raise nodes.SkipNode


def visit_block(self, node):
    """Write an equation on a line of its own, with its number if it has a label."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append(render(node.astext(), True) + "</div>\n")
    raise nodes.SkipNode
