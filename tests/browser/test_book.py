"""The built book in a real browser: served and from disk, light and dark, wide and narrow.

Each check is a function of a page, so that after each group of tests another can show it pages with planted faults.
"""

import functools
import inspect
import json
import random
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin

import numpy as np
import pytest

from labkit.explore import Toggle
from tests.notebook import CHAPTERS, cells

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

NAMED = {"image", "button", "link", "slider", "switch", "checkbox", "searchbox", "textbox", "combobox"}


def page_of(chapter):
    return f"chapters/{chapter.stem}.html"


def none(faults):
    assert not faults, "\n".join(faults)


def in_article(html):
    """Return a change to a page: something more at the end of its text."""
    return lambda text: text.replace("</article>", f"{html}</article>")


# ---- Every page at rest ----


def nameless(page):
    """Return what a screen reader could not name: pictures, links and controls."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    heard = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"]]
    empty = [f"{role} without a name" for role, name in heard if role in NAMED and not name.strip()]
    files = [f"{role} named after its file: {name}" for role, name in heard if re.search(r"\.(png|svg)$", name)]
    return empty + files


def check_page(page, inside):
    none(page.faults + inside(page, "lookOver") + nameless(page))


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page(path, site, theme, width, visit, inside):
    page = visit(site, path, theme=theme, width=width)
    assert page.locator("html").get_attribute("data-theme") == theme
    check_page(page, inside)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (r"\.html", in_article('<img alt="A" src="https://example.org/a.png">'), "asks another host: https://example"),
        (r"\.html", in_article('<link rel="stylesheet" href="//example.org/a.css">'), "asks another host"),
        (r"\.html", in_article('<script>fetch("https://example.org")</script>'), "asks another host"),
        (r"\.html", in_article("<script>new WebSocket('wss://127.0.0.1:9')</script>"), "opens a socket"),
        (r"\.html", in_article('<img alt="A" src="../_static/none.png">'), "status 404"),
        (r"\.html", in_article('<script>console.error("oh")</script>'), "console error: oh"),
        (r"\.html", in_article('<script>console.warn("oh")</script>'), "console warning: oh"),
        (r"explore\.js", lambda text: f"{text}\noh();", "page error: oh is not defined"),
        (r"\.html", in_article('<p id="main-content">Twice</p>'), "id used twice: main-content"),
        (r"\.html", in_article('<div style="width: 2000px">wide</div>'), "scrolls sideways"),
        (r"\.html", in_article('<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">'), "image without alt"),
        (r"\.html", in_article('<div role="img">A drawing</div>'), "image without a name"),
        (r"\.html", in_article('<div role="img" aria-label="a/b.png">A</div>'), "image named after its file"),
        (r"\.html", in_article("<button></button>"), "button without a name"),
        (r"\.html", in_article('<p style="color: #888; background: #fff">Faint</p>'), r"contrast 3\.54: <p> Faint"),
        (r"\.html", in_article('<p style="opacity: 0.4">Faint</p>'), "contrast .* Faint"),
        (r"\.html", in_article('<svg><text y="9" fill="#888">Faint</text></svg>'), "contrast .* Faint"),
        (r"\.html", in_article('<div class="math">a^2</div>'), r"equation not rendered: a\^2"),
        (r"katex\.css", lambda text: text.replace("fonts/KaTeX_Math", "fonts/none"), "font not loaded: KaTeX_Math"),
        (r"katex\.css", lambda text: text.replace(".katex", ".none"), "font not loaded: system-ui"),
    ],
)
def test_faults_of_a_page_are_seen(file, change, message, a_chapter, served, visit, inside):
    page = visit(served, page_of(a_chapter), width=390, edit={file: change})
    with pytest.raises(AssertionError, match=message):
        check_page(page, inside)


@pytest.fixture(scope="session")
def a_chapter(explorers_of):
    """Return the first chapter that has an explorer."""
    return next(chapter for chapter in CHAPTERS if explorers_of(chapter))


def written_equations(text):
    """Count a chapter's equations, those on lines of their own and those in a line, in its Markdown."""
    text = re.sub(r"```.*?```|`[^`]*`|\\\$", "", text, flags=re.S)
    rest, blocks = re.subn(r"\$\$.+?\$\$", "", text, flags=re.S)
    return blocks, len(re.findall(r"\$[^$]+\$", rest))


def test_written_equations_are_counted():
    assert written_equations("$a$ and `$b$` \\$5\n```sh\n$c $d\n```\n$$x\n+1$$ $e$\n\n$$y$$") == (2, 2)


def check_equations(page, text):
    blocks = page.locator("article .katex-display").count()
    in_lines = page.locator("article .katex").count() - blocks
    written = written_equations(text)
    few = f"{blocks} in blocks and {in_lines} in lines are shown of {written}"
    assert (blocks >= written[0], in_lines >= written[1]) == (True, True), few


def test_all_equations_are_there(chapter, served, visit):
    check_equations(visit(served, page_of(chapter)), "\n".join(cells(chapter, "markdown")))


def test_a_missing_equation_is_seen(a_chapter, served, visit):
    text = "\n".join(cells(a_chapter, "markdown"))
    page = visit(served, page_of(a_chapter), edit={r"\.html": lambda text: text.replace('"katex-display"', '""', 1)})
    with pytest.raises(AssertionError, match="are shown"):
        check_equations(page, text)


# ---- Getting about ----


class Anchors(HTMLParser):
    """The ids of a page and where its links lead."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = {""}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])


def dead_links(book, paths):
    """Return the links to other places in the book that lead nowhere."""
    anchors = {path: Anchors((book / path).read_text(encoding="utf-8")) for path in paths}
    dead = []
    for path in paths:
        for link in anchors[path].links:
            target, _, anchor = unquote(urljoin(path, link)).partition("#")
            if re.match(r"\w+:", link):
                continue
            if not (book / target).is_file() or (target in anchors and anchor not in anchors[target].ids):
                dead.append(f"{path}: {link}")
    return dead


def test_no_link_is_dead(book, paths):
    assert dead_links(book, paths) == []


def test_a_dead_link_is_seen(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html">B</a> <a href="#c">C</a> <a href="#d" id="d">D</a>')
    assert dead_links(tmp_path, ["a.html"]) == ["a.html: b.html", "a.html: #c"]


def address(link):
    return link.evaluate("link => link.href.replace(/#$/, '')")


def follow(page, link):
    target = address(link)
    link.click()
    page.wait_for_url(target)


def contents(page):
    """Return the links of the table of contents in the sidebar."""
    return page.locator(".bd-sidebar-primary nav.bd-docs-nav a, #pst-primary-sidebar-modal nav.bd-docs-nav a")


def open_first(visit, site, **options):
    """Open the book by its index.html, which sends the reader on to the first page."""
    page = visit(site, "index.html", wait=False, **options)
    page.wait_for_url(lambda url: site.path(url) != "index.html")
    return page


def check_way_through(page, site, paths):
    """Go through all by its links to the next page, and back, in the order of its contents; none is left out."""
    expected = [page.url, *map(address, contents(page).all())]
    missing = set(paths) - {site.path(url) for url in expected} - {"genindex.html", "search.html"}
    assert not missing, f"not in the table of contents: {missing}"
    for direction, order in ((".right-next", expected), (".left-prev", expected[::-1])):
        went = [page.url]
        while (link := page.locator(f"a{direction}")).count():
            follow(page, link)
            went.append(page.url)
        assert went == order, f"{direction} leads through {went}"
    none(page.faults)


def test_way_through(site, paths, visit):
    check_way_through(open_first(visit, site), site, paths)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('class="right-next"', ""), "right-next leads through"),
        (lambda text: re.sub(r'<a[^>]*reference internal" href="[^"]*notation.html"', "<a", text), "not in the table"),
    ],
)
def test_a_broken_way_is_seen(change, message, served, paths, visit):
    page = open_first(visit, served, edit={"index.html$": lambda text: text if "Refresh" in text else change(text)})
    with pytest.raises(AssertionError, match=message):
        check_way_through(page, served, paths)


def check_contents(page, drawer):
    """Open each page by its line in the table of contents, which a narrow window keeps in a drawer."""
    for number in range(contents(page).count()):
        if drawer:
            page.get_by_role("button", name="Toggle primary sidebar").click()
        link = contents(page).nth(number)
        title = link.inner_text()
        follow(page, link)
        assert page.locator("article h1").inner_text().startswith(title)
    none(page.faults)


@pytest.mark.parametrize("width", [1400, 390])
def test_contents(site, width, visit):
    check_contents(open_first(visit, site, width=width), drawer=width == 390)


def test_wrong_contents_are_seen(a_chapter, served, visit):
    change = in_article("<script>document.querySelector('nav.bd-docs-nav a').textContent = 'Elsewhere'</script>")
    page = visit(served, page_of(a_chapter), edit={r"\.html": change})
    with pytest.raises(AssertionError, match="Elsewhere"):
        check_contents(page, drawer=False)


def check_search(page, site, book):
    page.get_by_role("button", name="Search").locator("visible=true").first.click()
    page.get_by_role("searchbox").locator("visible=true").fill("softmax")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=softmax*")
    page.locator(".search-summary", has_text=re.compile("found|did not match")).wait_for()
    page.wait_for_load_state("networkidle")
    found = [address(link) for link in page.locator("#search-results li > a").all()]
    assert found, "search does not find softmax"
    assert [url for url in found if not (book / site.path(url)).is_file()] == []
    page.locator("#search-results li > a").first.click()
    page.locator("article").get_by_text(re.compile("softmax", re.I)).first.wait_for()
    none(page.faults)


@pytest.mark.parametrize("width", [1400, 390])
def test_search(site, width, book, visit):
    check_search(open_first(visit, site, width=width), site, book)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (r"searchindex\.js", lambda text: text.replace("softmax", "hardmax"), "does not find softmax"),
        (r"searchtools\.js", lambda text: f"{text}\nconsole.error('oh');", "console error"),
    ],
)
def test_a_broken_search_is_seen(file, change, message, served, book, visit):
    with pytest.raises(AssertionError, match=message):
        check_search(open_first(visit, served, edit={file: change}), served, book)


def check_theme(page, inside):
    """Choose the dark theme in a window that is light: the page becomes dark, and stays so."""
    button = page.locator(".theme-switch-button").locator("visible=true").first
    light = inside(page, "brightness")
    for _ in range(3):
        if page.locator("html[data-theme=dark]").count():
            break
        button.click()
    page.wait_for_timeout(300)  # the theme fades
    dark = inside(page, "brightness")
    assert (light > 0.8, dark < 0.1) == (True, True), f"brightness of the page: {light}, then {dark}"
    page.reload()
    assert inside(page, "brightness") == dark, "the theme is forgotten"
    none(page.faults)


def test_theme(site, visit, inside):
    check_theme(open_first(visit, site), inside)


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda text: "", "brightness"), (lambda text: text.replace("localStorage.setItem", "void"), "forgotten")],
)
def test_a_broken_theme_is_seen(change, message, served, visit, inside):
    with pytest.raises(AssertionError, match=message):
        check_theme(open_first(visit, served, edit={r"pydata-sphinx-theme\.js": change}), inside)


# ---- Code and folded answers ----


def check_copies(page, sources):
    """Click every button that copies a block of code: the clipboard holds that code, as the notebook has it."""
    page.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })")
    blocks = page.locator("article div.highlight:has(button.copybtn)").all()
    assert len(blocks) >= len(sources), f"{len(blocks)} buttons for {len(sources)} cells"
    copied = []
    for block in blocks:
        page.evaluate("navigator.clipboard.writeText('nothing')")
        block.hover()
        block.locator("button.copybtn").click()
        copied.append(page.evaluate("navigator.clipboard.readText()").strip())
        assert copied[-1] == block.locator("pre").inner_text().strip(), "the clipboard has other text"
    assert [source for source in sources if source.strip() not in copied] == [], "not copied whole"
    none(page.faults)


CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}


def test_copies(chapter, served, visit):
    check_copies(visit(served, page_of(chapter), **CLIPBOARD), cells(chapter, "code"))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (r"clipboard\.min\.js", lambda text: "ClipboardJS = class { on() {} }", "the clipboard has other text"),
        (r"copybutton\.js", lambda text: "", "0 buttons"),
        (r"\.html", lambda text: text.replace('<span class="kn">import</span>', "", 1), "not copied whole"),
    ],
)
def test_a_broken_copy_is_seen(file, change, message, a_chapter, served, visit):
    page = visit(served, page_of(a_chapter), edit={file: change}, **CLIPBOARD)
    with pytest.raises(AssertionError, match=message):
        check_copies(page, cells(a_chapter, "code"))


def check_details(page):
    """Fold every <details> out, in and out again by keyboard."""
    for folded in page.locator("details").all():
        summary = folded.locator("> summary")
        name, is_open = summary.inner_text(), folded.evaluate("it => it.open")
        assert summary.evaluate("it => it.tabIndex >= 0"), f"Tab does not reach {name!r}"
        summary.focus()
        heights = {}
        for key in ("Enter", "Space") if is_open else ("Enter", "Space", "Enter"):
            page.keyboard.press(key)
            is_open = not is_open
            assert folded.evaluate("it => it.open") == is_open, f"{key} does not move {name!r}"
            heights[is_open] = folded.bounding_box()["height"]
        assert heights[True] > heights[False] + 5, f"nothing in {name!r}"
    none(page.faults)


def test_details(path, served, visit):
    check_details(visit(served, path))


@pytest.mark.parametrize(
    ("html", "message"),
    [
        ('<details><summary tabindex="-1">Why</summary>So</details>', "Tab does not reach 'Why'"),
        ('<details><summary onkeydown="event.preventDefault()">Why</summary>So</details>', "Enter does not move 'Why'"),
        ('<details><summary onkeyup="event.preventDefault()">Why</summary>So</details>', "Space does not move 'Why'"),
        ("<details><summary>Why</summary></details>", "nothing in 'Why'"),
    ],
)
def test_broken_details_are_seen(html, message, a_chapter, served, visit):
    page = visit(served, page_of(a_chapter), edit={r"\.html": in_article(html)})
    with pytest.raises(AssertionError, match=message):
        check_details(page)


# ---- Explorers ----


@functools.cache
def drawn(explorer, positions):
    return explorer.picture(**setting(explorer, positions))


def setting(explorer, positions):
    chosen = zip(explorer.controls.items(), positions, strict=True)
    return {name: control.values[position] for (name, control), position in chosen}


def start(explorer):
    return tuple(control.values.index(control.start) for control in explorer.controls.values())


class Bench:
    """A page with its explorers, and where their controls should stand."""

    def __init__(self, page, explorers, inside):
        self.page, self.explorers = page, explorers
        self.inside = functools.partial(inside, page)
        self.at = {explorer: start(explorer) for explorer in explorers}
        self.precision = 1e-3  # of opacities, which the data hold in thousandths
        self.check_published()

    def check_published(self):
        shown = self.page.eval_on_selector_all("figure.explorer", "figures => figures.map((figure) => figure.id)")
        assert shown == [explorer.id for explorer in self.explorers], (
            "the page and the notebook show different explorers"
        )

    def check_all(self):
        """Check that what was not moved did not move."""
        for explorer in self.explorers:
            self.check(explorer)
        none(self.page.faults)

    def check(self, explorer):
        """Check that everything an explorer shows is what labkit says of its setting."""
        at = self.at[explorer]
        names = [control.names[position] for control, position in zip(explorer.controls.values(), at, strict=True)]
        sliders = [not isinstance(control, Toggle) for control in explorer.controls.values()]
        where, shown = f"{explorer.id} at {names}", self.inside("state", explorer.id)
        assert shown["positions"] == list(at), f"{where}: a control stands elsewhere"
        assert shown["names"] == names, f"{where}: a label says otherwise"
        spoken = [name if slider else None for name, slider in zip(names, sliders, strict=True)]
        assert shown["spoken"] == spoken, f"{where}: a screen reader hears otherwise"
        assert shown["numbers"] == explorer.numbers(**setting(explorer, at)), f"{where}: the numbers are not labkit's"
        for group, (what, function) in explorer.marks.items():
            named = {name: setting(explorer, at)[name] for name in inspect.signature(function).parameters}
            values, marks = np.ravel(function(**named)).tolist(), self.inside("marks", [explorer.id, group, what])
            right = values if what == "text" else pytest.approx(values, rel=0, abs=self.precision)
            assert marks == right, f"{where}: the marks {group} are not labkit's"
        picture = [f"#{explorer.id} .explorer-picture", drawn(explorer, at), not explorer.marks]
        assert self.inside("pictureFaults", picture) == [], f"{where}: the picture is not labkit's"

    def moved(self, explorer, number, position):
        """Note that one control was moved, and check the explorer."""
        self.at[explorer] = (*self.at[explorer][:number], position, *self.at[explorer][number + 1 :])
        self.check(explorer)

    def look(self, explorer):
        return self.page.locator(f"#{explorer.id} .explorer-picture").screenshot()

    def control(self, explorer, number):
        """Find a control as a screen reader would, by its role and name."""
        name, control = list(explorer.controls.items())[number]
        role = "switch" if isinstance(control, Toggle) else "slider"
        return self.page.locator(f"#{explorer.id}").get_by_role(role, name=control.label or name)

    def controls(self):
        """Return every explorer with the number of each of its controls, and that control."""
        return [(it, number, at) for it in self.explorers for number, at in enumerate(it.controls.values())]


def check_keyboard(bench):
    """Move every control over all its positions by keyboard; each looks different from the one before."""
    press = bench.page.keyboard.press
    for explorer, number, control in bench.controls():
        found, first = bench.control(explorer, number), start(explorer)[number]
        assert found.evaluate("it => it.tabIndex >= 0"), f"Tab does not reach control {number} of {explorer.id}"
        found.focus()
        before = bench.look(explorer)
        if isinstance(control, Toggle):
            press("Space")
            bench.moved(explorer, number, 1 - first)
            assert bench.look(explorer) != before, f"{explorer.id} looks the same, switched"
            press("Space")
            bench.moved(explorer, number, first)
            continue
        press("Home")
        bench.moved(explorer, number, 0)
        before, last = bench.look(explorer), len(control.values) - 1
        for position in range(1, last + 1):
            press("ArrowRight")
            bench.moved(explorer, number, position)
            after = bench.look(explorer)
            assert after != before, f"{explorer.id} looks the same at step {position} of control {number} as before"
            before = after
        press("ArrowRight")
        bench.moved(explorer, number, last)
        press("ArrowLeft")
        bench.moved(explorer, number, last - 1)
        press("End")
        bench.moved(explorer, number, last)
        press("Home")
        bench.moved(explorer, number, 0)
        for _ in range(first):
            press("ArrowRight")
        bench.moved(explorer, number, first)
    bench.check_all()


def check_mouse(bench):
    """Drag every slider to both ends and the middle, and click every switch and its label."""
    mouse = bench.page.mouse
    for explorer, number, control in bench.controls():
        found, first = bench.control(explorer, number), start(explorer)[number]
        found.evaluate("it => it.scrollIntoView({ block: 'center' })")
        box = found.bounding_box()
        y = box["y"] + box["height"] / 2
        if isinstance(control, Toggle):
            mouse.click(box["x"] + box["width"] / 2, y)
            bench.moved(explorer, number, 1 - first)
            mouse.click(box["x"] + box["width"] + 20, y)
            bench.moved(explorer, number, first)
            continue
        last = len(control.values) - 1
        # The middle of the thumb, 16 px wide, runs from 8 px inside the left end to 8 px inside the right one.
        places = [box["x"] + 8 + (box["width"] - 16) * position / last for position in range(last + 1)]
        mouse.move(places[first], y)
        mouse.down()
        for position in (0, last, last // 2):
            mouse.move(places[position], y, steps=5)
            bench.moved(explorer, number, position)
        mouse.up()
        mouse.click(places[-1], y)
        bench.moved(explorer, number, last)
        mouse.click(places[first], y)
        bench.moved(explorer, number, first)
    bench.check_all()


def samples(explorer, count=30):
    chance = random.Random(explorer.id)
    return [tuple(chance.randrange(len(it.values)) for it in explorer.controls.values()) for _ in range(count)]


def check_samples(bench):
    """Set all controls of an explorer at once, at random."""
    for explorer in bench.explorers:
        for positions in samples(explorer):
            bench.inside("setAll", [explorer.id, positions])
            bench.at[explorer] = positions
            bench.check(explorer)
    bench.check_all()


CHECKS = {"keyboard": check_keyboard, "mouse": check_mouse, "samples": check_samples}


@pytest.fixture
def bench(visit, explorers_of, inside):
    """Open a chapter and its explorers."""
    return lambda chapter, site, **options: Bench(
        visit(site, page_of(chapter), **options), explorers_of(chapter), inside
    )


@pytest.mark.parametrize("by", CHECKS)
def test_explorers(chapter, site, by, bench):
    CHECKS[by](bench(chapter, site))


def test_explorers_stand_in_chapters_only(path, served, visit):
    if path not in map(page_of, CHAPTERS):
        assert visit(served, path).locator("figure.explorer").count() == 0


def check_without_script(bench):
    """Without JavaScript the first frame and its numbers are there, and no control that would not work."""
    bench.precision = 0.011  # labkit's SVG cuts opacities to hundredths
    assert bench.page.locator("article h1").is_visible()
    for explorer in bench.explorers:
        bench.check(explorer)
        for control in bench.page.locator(f"#{explorer.id} input").all():
            assert not control.is_visible(), f"{explorer.id} shows a control that does nothing"
    none([fault for fault in bench.page.faults if not re.match(r"request failed: .*\.js\b", fault)])


def test_without_script(chapter, site, bench):
    check_without_script(bench(chapter, site, java_script_enabled=False))


def check_print(bench):
    """On paper an explorer shows the setting it was left at, in words, and no control."""
    for explorer, number, control in bench.controls():
        last = len(control.values) - 1
        bench.control(explorer, number).focus()
        bench.page.keyboard.press("Space" if isinstance(control, Toggle) else "End")
        bench.moved(explorer, number, 1 - start(explorer)[number] if isinstance(control, Toggle) else last)
    bench.page.emulate_media(media="print")
    for explorer in bench.explorers:
        bench.check(explorer)
        figure = bench.page.locator(f"#{explorer.id}")
        for control in figure.locator("input").all():
            assert not control.is_visible(), f"{explorer.id} prints a control"
        for words in figure.locator("label span, dt, dd, figcaption").all():
            assert words.is_visible(), f"{explorer.id} does not print {words.inner_text()!r}"
    none(bench.page.faults)


def test_print(chapter, served, bench):
    check_print(bench(chapter, served))


# ---- Planted faults of explorers ----


@pytest.fixture
def plant(explorers_of, served, bench):
    """Open the chapter with the first explorer that has marks, or none, and change its data for one setting.

    That setting is one that the check must come by: the first control at the end where it does not start, or the first
    of the samples.
    """

    def open_changed(with_marks, change, by):
        every = ((chapter, it) for chapter in CHAPTERS for it in explorers_of(chapter))
        chapter, explorer = next((chapter, it) for chapter, it in every if bool(it.marks) == with_marks)
        first, *others = start(explorer)
        far = 0 if first else len(next(iter(explorer.controls.values())).values) - 1
        positions = samples(explorer)[0] if by == "samples" else (far, *others)

        def edit(text):
            match = re.search(rf'id="{explorer.id}".*?<script type="application/json">(.*?)</script>', text, re.S)
            data = json.loads(match[1])
            change(data, functools.partial(index, data["sizes"], positions), start(explorer))
            return text[: match.start(1)] + json.dumps(data).replace("</", "<\\/") + text[match.end(1) :]

        return bench(chapter, served, edit={r"\.html": edit})

    return open_changed


def index(sizes, positions, grid):
    """Return where the data hold what is shown at a setting."""
    return np.ravel_multi_index([positions[i] for i in grid["by"]], [sizes[i] for i in grid["by"]])


def spoil_number(data, at, first):
    data["numbers"]["values"][at(data["numbers"])][-1] += "1"


def swap_frame(data, at, first):
    frames = data["frames"]
    frames["values"][at(frames)] = frames["values"][index(data["sizes"], first, frames)]


def spoil_frame(data, at, first):
    frames = data["frames"]
    frames["values"][at(frames)] = frames["values"][at(frames)].replace('d="M ', 'd="M 1 1 L ', 1)


def spoil_opacity(data, at, first):
    grid = next(group for group in data["marks"].values() if group["set"] == "opacity")
    grid["values"][at(grid)][-1] += -0.005 if grid["values"][at(grid)][-1] > 0.5 else 0.005


def spoil_text(data, at, first):
    grid = next(group for group in data["marks"].values() if group["set"] == "text")
    grid["values"][at(grid)][-1] += "1"


@pytest.mark.parametrize("by", CHECKS)
@pytest.mark.parametrize(
    ("with_marks", "change", "message"),
    [
        (False, swap_frame, "the picture is not labkit's"),
        (False, spoil_frame, "the picture is not labkit's"),
        (False, spoil_number, "the numbers are not labkit's"),
        (True, spoil_number, "the numbers are not labkit's"),
        (True, spoil_opacity, "the marks .* are not labkit's"),
        (True, spoil_text, "the marks .* are not labkit's"),
    ],
)
def test_one_wrong_setting_is_seen(with_marks, change, message, by, plant):
    with pytest.raises(AssertionError, match=message):
        CHECKS[by](plant(with_marks, change, by))


@pytest.mark.parametrize(
    ("check", "file", "old", "new", "message"),
    [
        (check_mouse, "explore.js", '"input"', '"keyup"', "a label says otherwise"),
        (check_mouse, "book.css", "cursor:", "pointer-events: none; cursor:", "a control stands elsewhere"),
        (check_keyboard, "explore.js", '"input"', '"pointerup"', "a label says otherwise"),
        (check_keyboard, "explore.js", '"aria-valuetext"', '"title"', "a screen reader hears otherwise"),
        (check_keyboard, "explore.js", "data.frames)", "false)", "the picture is not labkit's"),
        (check_print, "explore.js", "const name =", "console.error('oh'); const name =", "console error: oh"),
        (check_keyboard, ".html", 'type="range"', 'type="range" tabindex="-1"', "Tab does not reach control 0"),
        (
            check_keyboard,
            "book.css",
            ".explorer-picture svg,",
            ".explorer-picture { opacity: 0 } svg,",
            "looks the same",
        ),
        (check_keyboard, ".html", '<figure class="explorer"', "<figure", "show different explorers"),
        (check_keyboard, ".html", "</article>", '<figure class="explorer">', "show different explorers"),
        (check_print, "book.css", "@media print", "@media tty", "prints a control"),
        (check_print, "book.css", "@media print {", "@media print { dl { display: none !important }", "does not print"),
    ],
)
def test_broken_explorers_are_seen(check, file, old, new, message, a_chapter, served, bench):
    with pytest.raises(AssertionError, match=message):
        check(bench(a_chapter, served, edit={re.escape(file): lambda text: text.replace(old, new)}))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("book.css", "display: none;", "", "shows a control that does nothing"),
        (".html", 'role="img"', 'role="img" style="display: none"', "picture is not labkit's"),
        (".html", "<dd", "<dd>1</dd><dd", "numbers are not labkit's"),
    ],
)
def test_a_broken_first_frame_is_seen(file, old, new, message, a_chapter, served, bench):
    edit = {re.escape(file): lambda text: text.replace(old, new)}
    with pytest.raises(AssertionError, match=message):
        check_without_script(bench(a_chapter, served, java_script_enabled=False, edit=edit))
