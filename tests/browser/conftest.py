"""A browser, the built book over http and from disk, and pages opened in it whose every complaint is kept."""

import functools
import http.server
import os
import re
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest
from notebook import NOTEBOOKS, ROOT, explorers

BOOK = Path(os.environ.get("BOOK_HTML", ROOT / "_build" / "html")).resolve()
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
INSIDE = Path(__file__).with_name("inside.js").read_text(encoding="utf-8")

# A look at the whole page, so that whatever loads late does so, and the end of all that moves by itself.
SETTLED = """async () => {
    scrollTo(0, document.body.scrollHeight);
    await new Promise((done) => setTimeout(done, 50));
    scrollTo(0, 0);
    await Promise.allSettled(document.getAnimations().map((animation) => animation.finished));
}"""


def pages():
    """Return the paths of the book's pages below its folder. index.html only sends the reader on to the first."""
    paths = (path.relative_to(BOOK).as_posix() for path in BOOK.rglob("*.html"))
    return sorted(path for path in paths if path != "index.html" and not path.startswith("_"))


def pytest_generate_tests(metafunc):
    unbuilt = [pytest.param(None, id="no-book")]
    if "path" in metafunc.fixturenames:
        metafunc.parametrize("path", [pytest.param(path, id=Path(path).stem) for path in pages()] or unbuilt)
    if "chapter" in metafunc.fixturenames:
        metafunc.parametrize("chapter", [pytest.param(path, id=path.stem) for path in NOTEBOOKS])


@pytest.fixture(scope="session")
def book():
    """Return the folder of the built book."""
    if not pages():
        pytest.fail(f"the book is not built: there is no page in {BOOK} (run `make book`)")
    return BOOK


@pytest.fixture(scope="session")
def paths(book):
    """Return the paths of all pages."""
    return pages()


@pytest.fixture(scope="session")
def explorers_of():
    """Return what a chapter's explorers are, without a browser. Each chapter runs once a session."""
    return functools.cache(explorers)


@pytest.fixture(scope="session")
def a_chapter(explorers_of):
    """Return the first chapter that has an explorer."""
    return next(chapter for chapter in NOTEBOOKS if explorers_of(chapter))


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next(filter(None, [os.environ.get("CHROMIUM"), *map(shutil.which, names)]), None)
    if program is None:
        pytest.fail(f"no browser: install one of {', '.join(names)}, or set CHROMIUM to the path of one")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def inside():
    """Call a function of inside.js in a page."""
    return lambda page, function, argument=None: page.evaluate(
        f"(argument) => {{ {INSIDE}; return {function}(argument); }}", argument
    )


@dataclass(frozen=True)
class Site:
    """The book at one address."""

    address: str

    def url(self, path):
        return f"{self.address}/{path}"

    def path(self, url):
        """Return the path below the book's folder of what is at an address."""
        return unquote(re.sub("[?#].*", "", url.removeprefix(f"{self.address}/")))

    def owns(self, url):
        return url.startswith((f"{self.address}/", "data:", "blob:")) or url == "about:blank"


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def served(book):
    """Serve the book on localhost."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=book))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Site(f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["http", "file"])
def site(request, served, book):
    """Give the book twice: from its server and from disk."""
    return served if request.param == "http" else Site(book.as_uri())


@pytest.fixture
def visit(browser, book):
    """Open pages of the book, each in a context of its own, that is, as a first visit.

    `edit` plants a fault: it maps a pattern of addresses to a function that changes the text of a file. The page's
    `faults` are what it complains of, and what it asks of anyone but the book.
    """
    contexts = []

    def open_page(site, path, *, theme="light", width=1400, edit=None, wait=True, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **options)
        contexts.append(context)
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.faults = faults = []

        def answer(route):
            url = route.request.url
            if not site.owns(url):
                faults.append(f"asks another host: {url}")
                return route.abort()
            for pattern, change in (edit or {}).items():
                if re.search(pattern, url):
                    file = book / site.path(url)
                    text = file.read_text(encoding="utf-8")
                    if change(text) == text:
                        faults.append(f"no fault was planted in {file.name}")
                    return route.fulfill(body=change(text), content_type=TYPES[file.suffix])
            return route.continue_()

        def hear(message):
            if message.type in ("error", "warning"):
                faults.append(f"console {message.type}: {message.text}")

        def miss(request):
            if request.failure != "net::ERR_ABORTED":  # given up because the page was left
                faults.append(f"request failed: {request.url}")

        def check(response):
            if response.status >= 400:
                faults.append(f"status {response.status}: {response.url}")

        context.route("**/*", answer)
        page.on("console", hear)
        page.on("pageerror", lambda error: faults.append(f"page error: {error}"))
        page.on("requestfailed", miss)
        page.on("websocket", lambda socket: faults.append(f"opens a socket: {socket.url}"))
        page.on("response", check)
        page.goto(site.url(path))
        if wait:
            page.evaluate("document.fonts.ready.then(() => {})")
        if wait and options.get("java_script_enabled", True):
            page.evaluate(SETTLED)
        return page

    yield open_page
    for context in contexts:
        context.close()
