"""The built book in a real browser: served and from disk, light and dark, wide and narrow.

Each check is a function of a page, so that after each group of tests another can show it pages with planted faults.
"""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin

import pytest
from notebook import cells

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


def check_page(page, inside):
    none(page.faults + inside(page, "lookOver"))


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


def nameless(page):
    """Return what a screen reader could not name: pictures, links and controls."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    heard = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"]]
    empty = [f"{role} without a name" for role, name in heard if role in NAMED and not name.strip()]
    files = [f"{role} named after its file: {name}" for role, name in heard if re.search(r"\.(png|svg)$", name)]
    return empty + files


def test_names(path, served, visit):
    none(nameless(visit(served, path)))


@pytest.mark.parametrize(
    ("html", "message"),
    [
        ('<div role="img">A drawing</div>', "image without a name"),
        ('<div role="img" aria-label="a/b.png">A</div>', "image named after its file"),
        ("<button></button>", "button without a name"),
        ('<label><input type="range"></label>', "slider without a name"),
    ],
)
def test_missing_names_are_seen(html, message, a_chapter, served, visit):
    page = visit(served, page_of(a_chapter), edit={r"\.html": in_article(html)})
    with pytest.raises(AssertionError, match=message):
        none(nameless(page))


def check_page_without_script(page, inside):
    """Without JavaScript a page is light, whatever the reader's system prefers, and legible all the same."""
    # A script that the page's head asks for early is not fetched at all.
    faults = [fault for fault in page.faults if not re.match(r"request failed: .*\.js\b", fault)]
    none(faults + inside(page, "lookOver"))


def test_page_without_script(path, site, visit, inside):
    check_page_without_script(visit(site, path, theme="dark", java_script_enabled=False), inside)


def test_faults_without_script_are_seen(a_chapter, served, visit, inside):
    edit = {r"\.html": in_article('<p style="color: #888">Faint</p>')}
    page = visit(served, page_of(a_chapter), theme="dark", java_script_enabled=False, edit=edit)
    with pytest.raises(AssertionError, match=r"contrast .*<p> Faint"):
        check_page_without_script(page, inside)


def check_print(page, inside):
    """On paper, which is white, the text is dark, whatever the theme on the screen is."""
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    none(page.faults + inside(page, "faintOnPaper"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_print(path, served, theme, visit, inside):
    check_print(visit(served, path, theme=theme), inside)


def test_faint_print_is_seen(a_chapter, served, visit, inside):
    edit = {r"\.html": in_article('<p style="background: #000; color: #fff">Bright</p>')}
    with pytest.raises(AssertionError, match=r"contrast 1\.00: <p> Bright"):
        check_print(visit(served, page_of(a_chapter), edit=edit), inside)


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
    none(dead_links(book, paths))


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
    page.locator("article").get_by_text(re.compile("softmax", re.I)).locator("visible=true").first.wait_for()
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
    dark = inside(page, "brightness")
    assert (light > 0.8, dark < 0.1) == (True, True), f"brightness of the page: {light}, then {dark}"
    page.wait_for_timeout(1000)  # the browser writes down the choice behind the page's back
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
    """Press every button that copies a block of code: the clipboard holds that code, as the notebook has it."""
    page.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })")
    buttons = page.locator("article div.highlight button.copybtn")
    assert buttons.count() >= len(sources), f"{buttons.count()} buttons for {len(sources)} cells"
    page.evaluate("navigator.clipboard.writeText('nothing')")
    page.locator("article div.highlight").first.hover()
    buttons.first.click()  # one by hand, all by script
    copied = [page.evaluate("navigator.clipboard.readText()"), *buttons.evaluate_all(COPY_ALL)]
    shown = page.locator("article div.highlight:has(button.copybtn) pre").all_inner_texts()
    for text, right in zip(copied, [shown[0], *shown], strict=True):
        assert text.strip() == right.strip(), "the clipboard has other text"
    missing = {source.strip() for source in sources} - {text.strip() for text in copied}
    assert not missing, f"not copied whole: {missing}"
    none(page.faults)


COPY_ALL = """async (buttons) => {
    const copied = [];
    for (const button of buttons) {
        await navigator.clipboard.writeText("nothing");
        button.click();
        copied.push(await navigator.clipboard.readText());
    }
    return copied;
}"""
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
