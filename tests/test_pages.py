"""The book's own pages: their numbers are computed, the interview cards are whole, the self-check's proofs exist."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from urllib.parse import urlsplit

import myst_nb
import pytest
from myst_parser.mdit_to_docutils.base import default_slugify
from notebook import NOTEBOOKS, ROOT, cells, run

BOOK = ROOT / "book"
CARDS, SELF_CHECK = BOOK / "cards.md", BOOK / "self_check.md"
PAGES = [page for page in sorted(BOOK.glob("*.md")) if "\nfile_format: mystnb\n" in page.read_text(encoding="utf-8")]
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.S | re.M)
GLUED = re.compile(r"\{glue:\w+\}`([^`:]+)[^`]*`")
LINK = r"\[([^\]]+)\]\(([^)#\s]+)#([^)\s]+)\)"
CHAPTERS = range(1, 13)


def read(page):
    return page.read_text(encoding="utf-8")


def code(text):
    """Return the sources of a MyST page's code cells, without their options."""
    return [re.sub(r"\A(---\n.*?\n---\n|(:[^\n]*\n)+)", "", cell, flags=re.S) for cell in CELL.findall(text)]


def computed(text, monkeypatch):
    """Run a page's cells in one namespace, as its kernel would, and return what they glue into the text."""
    glued = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display=True: glued.update({name: value}))
    run(code(text))
    return glued


# ------------------------------------------------------------------------------------------- numbers in the text


def glue_faults(name, text, glued):
    """Return what is wrong with a page's computed numbers, each fault one line."""
    used = set(GLUED.findall(CELL.sub("", text)))
    yield from (f"{key} is used, but no cell computes it" for key in sorted(used - set(glued)))
    yield from (f"{key} is computed, but not used" for key in sorted(set(glued) - used))
    for key, value in glued.items():
        if not key.startswith(f"{name}_"):
            yield f"{key} does not begin with the page's name"
        if not isinstance(value, str) or not value.strip() or re.search(r"nan|inf\b|np\.|array", value):
            yield f"{key} is no text to show: {value!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_numbers_of_a_page(page, monkeypatch):
    text = read(page)
    assert code(text), "a notebook without cells"
    monkeypatch.chdir(page.parent)  # as in the build
    assert list(glue_faults(page.stem, text, computed(text, monkeypatch))) == []


TINY = """# Tiny

```{code-cell} python3
:tags: [remove-cell]

from myst_nb import glue

assert 1 + 1 == 2
glue("tiny_two", str(1 + 1), display=False)
```

One and one is {glue:text}`tiny_two`.
"""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("`tiny_two`.", "`tiny_two`, or {glue:text}`tiny_three`.", "tiny_three is used, but no cell computes it"),
        ("{glue:text}`tiny_two`", "2", "tiny_two is computed, but not used"),
        ("tiny_two", "two", "two does not begin with the page's name"),
        ("str(1 + 1)", "1 + 1", "tiny_two is no text to show: 2"),
        ("str(1 + 1)", "'nan'", "tiny_two is no text to show: 'nan'"),
    ],
)
def test_a_number_that_is_not_computed_is_seen(old, new, fault, monkeypatch):
    assert list(glue_faults("tiny", TINY, computed(TINY, monkeypatch))) == []
    broken = TINY.replace(old, new)
    assert broken != TINY
    assert fault in list(glue_faults("tiny", broken, computed(broken, monkeypatch)))


def test_a_wrong_number_is_seen(monkeypatch):
    with pytest.raises(AssertionError):
        computed(TINY.replace("1 + 1 == 2", "1 + 1 == 3"), monkeypatch)


# -------------------------------------------------------------------------------------------------------- links


@cache
def headings(path):
    """Return the headings of a chapter or page, by the anchor that the book gives to each."""
    text = "\n".join(cells(path, "markdown")) if path.suffix == ".ipynb" else CELL.sub("", read(path))
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    return {default_slugify(title): title for title in re.findall(r"^#{1,3} (.+?)\s*$", text, re.M)}


def proof_faults(where, links):
    """Return what is wrong with links to proofs, each a label, a file and an anchor."""
    for label, target, anchor in links:
        path = (BOOK / target).resolve()
        if not path.is_file():
            yield f"{where}: there is no file {target}"
            continue
        if anchor not in headings(path):
            yield f"{where}: {target} has no heading #{anchor}"
            continue
        chapter = re.match(r"(\d\d)_\w+\.ipynb", path.name)
        title = f"Chapter {int(chapter[1])}, {headings(path)[anchor]}" if chapter else None
        if title and label != title:
            yield f"{where}: the label {label!r} should be {title!r}"


def words(text):
    text = re.sub(r"\$[^$]+\$", "x", re.sub(r"\{glue:\w+\}`[^`]+`", "1", text))
    return len(text.split())


def sentences(text):
    text = re.sub(r"\$[^$]+\$", "x", re.sub(r"\{glue:\w+\}`[^`]+`", "1", text))
    return len(re.findall(r"[.?!]['\"*)”]*(?=\s|$)", text))


# Every other host that the book sends its readers to.
HOSTS = {"arxiv.org", "crfm.stanford.edu", "transformer-circuits.pub", "www.lesswrong.com"}


def outward_faults(text):
    """Return what is wrong with a text's links to other hosts, each fault one line."""
    for url in re.findall(r"https?://[^\s)>\]\"'`]+", text):
        parts = urlsplit(url)
        if parts.scheme != "https" or parts.query or parts.port:
            yield f"{url} is no plain https address"
        if parts.hostname not in HOSTS:
            yield f"{url} leads to a host that is not listed"
        if parts.hostname == "arxiv.org" and not re.fullmatch(r"/abs/\d{4}\.\d{4,5}", parts.path):
            yield f"{url} names no paper"
    for shown, paper in re.findall(r"\[arXiv:([^\]]*)\]\(https://arxiv\.org/abs/([^)]*)\)", text):
        if shown != paper:
            yield f"arXiv:{shown} leads to {paper}"


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted(BOOK.glob("*.md")), *NOTEBOOKS], ids=lambda p: p.stem)
def test_links_to_other_hosts(path):
    text = "\n".join(cells(path, "markdown")) if path.suffix == ".ipynb" else read(path)
    assert list(outward_faults(text)) == []


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("http://arxiv.org/abs/2002.04745", "is no plain https address"),
        ("https://arxiv.org/abs/2002.04745?x=1", "is no plain https address"),
        ("https://example.org/abs/2002.04745", "leads to a host that is not listed"),
        ("https://arxiv.org/abs/20020.4745", "names no paper"),
        ("https://arxiv.org/abs/2002.04746", "arXiv:2002.04745 leads to 2002.04746"),
    ],
)
def test_a_wrong_link_to_another_host_is_seen(url, fault):
    good = "[arXiv:2002.04745](https://arxiv.org/abs/2002.04745)"
    assert list(outward_faults(good)) == []
    assert fault in "\n".join(outward_faults(good.replace("https://arxiv.org/abs/2002.04745", url)))


# -------------------------------------------------------------------------------------------------------- cards

CARD = re.compile(r"<details>\n<summary>([^\n]+)</summary>\n\n(.*?)\n\n</details>\n", re.S)
FOLLOW_UP = re.compile(r'\*\*They ask next:\*\* "([^"]+[.?])" (.+)')


def card_faults(text):
    """Return what is wrong with the page of interview cards, each fault one line."""
    text = CELL.sub("", text)
    groups = re.split(r"^## (.+)$", text, flags=re.M)[1:]
    counts, seen, proven = {}, set(), []
    for title, group in zip(groups[::2], groups[1::2], strict=True):
        found = re.findall(r"^<details>$.*?^</details>$\n", group, re.S | re.M)
        counts[title] = len(found)
        if group.count("<details>") != len(found) or "<summary>" in re.sub(CARD, "", "".join(found)):
            yield f"{title}: a card that does not open and close"
        for card in found:
            question = (re.findall(r"<summary>(.*?)</summary>", card, re.S) or ["?"])[0]
            yield from one_card(question, card, seen)
            proven += [target for _, target, _ in re.findall(LINK, card)]
    chapters = [title for title in counts if title.startswith("Chapter ")]
    if [int(title.split(":")[0].split()[1]) for title in chapters] != list(CHAPTERS):
        yield f"the groups are {chapters}"
    yield from (f"{title}: only {counts[title]} cards" for title in counts if counts[title] < 3)
    for chapter in CHAPTERS:
        if sum(f"/{chapter:02}_" in target for target in proven) < 2:
            yield f"chapter {chapter} proves fewer than two cards"
    if sum(counts.values()) < 40:
        yield f"only {sum(counts.values())} cards"


def one_card(question, card, seen):
    if card.count("<summary>") != 1 or not re.search(r"\w[?.]$", question) or "$" in question:
        yield f"{question}: a card needs one question, without equations"
    key = re.sub(r"\W", "", question.lower())
    if key in seen:
        yield f"{question}: asked twice"
    seen.add(key)
    if not (parsed := CARD.fullmatch(card)):
        yield f"{question}: blank lines are missing"
        return
    answer, follow_up, proof = [], [], []
    for part in parsed[2].split("\n\n"):
        kind = {"**They ask next:**": follow_up, "**Proof:**": proof}
        next((kind[start] for start in kind if part.startswith(start)), answer).append(part)
    text = "\n\n".join(answer)
    if not 2 <= sentences(text) <= 5 or not 20 <= words(text) <= 90:
        yield f"{question}: an answer of {sentences(text)} sentences and {words(text)} words"
    next_one = FOLLOW_UP.fullmatch(follow_up[0]) if len(follow_up) == 1 else None
    if not next_one:
        yield f"{question}: it needs one follow-up, a question and its answer"
    elif not 1 <= sentences(next_one[2]) <= 2 or words(next_one[2]) > 40:
        yield f"{question}: a follow-up of {sentences(next_one[2])} sentences and {words(next_one[2])} words"
    links = re.findall(LINK, "".join(proof))
    if len(proof) != 1 or len(links) != 1:
        yield f"{question}: it needs one proof"
    yield from proof_faults(question, links)


def test_the_cards():
    assert list(card_faults(read(CARDS))) == []


def first_card(old, new):
    """Return a fault to plant: a replacement (of a pattern) in the first card."""

    def plant(text):
        card = CARD.search(text)[0]
        changed = re.sub(old, lambda match: new, card, count=1, flags=re.S)
        assert changed != card
        return text.replace(card, changed, 1)

    return plant


def repeat_a_question(text):
    first, second = CARD.findall(text)[:2]
    return text.replace(f"<summary>{second[0]}<", f"<summary>{first[0].upper()}<", 1)


def leave_cards_out(least):
    def plant(text):
        cards = [match[0] for match in CARD.finditer(text)]
        for card in cards[least:]:
            text = text.replace(card, "", 1)
        return text

    return plant


def starve_a_group(text):
    start, end = text.index("## Chapter 3:"), text.index("## Chapter 4:")
    group = text[start:end]
    for card in [match[0] for match in CARD.finditer(group)][2:]:
        group = group.replace(card, "", 1)
    return text[:start] + group + text[end:]


CARD_FAULTS = {
    "no question": (first_card("<summary>.*?</summary>\n\n", ""), "a card needs one question"),
    "two questions": (first_card("<summary>", "<summary>One?</summary>\n<summary>"), "a card needs one question"),
    "no question mark": (first_card(r"\?</summary>", "</summary>"), "a card needs one question"),
    "an equation as a question": (first_card("<summary>", "<summary>$x$, "), "a card needs one question"),
    "a question asked twice": (repeat_a_question, "asked twice"),
    "no blank line": (first_card("</summary>\n\n", "</summary>\n"), "blank lines are missing"),
    "not closed": (first_card("</details>\n", ""), "does not open and close"),
    "no answer": (first_card(r"</summary>\n\n.*?\n\n\*\*They", "</summary>\n\n**They"), "an answer of 0 sentences"),
    "a word for an answer": (
        first_card(r"</summary>\n\n.*?\n\n", "</summary>\n\nIt depends. Ask.\n\n"),
        "an answer of 2",
    ),
    "a long answer": (first_card("</summary>\n\n", "</summary>\n\n" + 90 * "very "), "an answer of"),
    "many sentences": (first_card("</summary>\n\n", "</summary>\n\n" + 5 * "No. "), "an answer of"),
    "no follow-up": (first_card(r"\*\*They ask next:.*?\n\n", ""), "it needs one follow-up"),
    "a follow-up without a question": (first_card(r'next:\*\* "[^"]+" ', "next:** "), "it needs one follow-up"),
    "a follow-up without an answer": (first_card(r'(?<=\?") [^\n]+', ""), "it needs one follow-up"),
    "a long follow-up": (first_card(r'(?<=\?") ', " " + 40 * "very "), "a follow-up of"),
    "a follow-up of many sentences": (first_card(r'(?<=\?") ', " No. No. "), "a follow-up of"),
    "no proof": (first_card(r"\*\*Proof:[^\n]*\n\n", ""), "it needs one proof"),
    "a proof without a section": (first_card(r"\.ipynb#[^)]*", ".ipynb"), "it needs one proof"),
    "a proof in no file": (first_card("01_embedding", "01_gone"), "there is no file"),
    "a proof under no heading": (first_card(r"#a-matrix", "#a-vector"), "has no heading #a-vector"),
    "a proof by another name": (first_card(r"\[Chapter 1, A matrix", "[Chapter 1, A vector"), "should be"),
    "too few cards": (leave_cards_out(39), "only 39 cards"),
    "a chapter with two cards": (starve_a_group, "only 2 cards"),
    "a chapter left out": (lambda text: text.replace("## Chapter 7:", "### Chapter 7:"), "the groups are"),
    "a chapter that proves nothing": (lambda text: text.replace("10_block", "11_block"), "chapter 10 proves fewer"),
}


@pytest.mark.parametrize("name", CARD_FAULTS)
def test_a_fault_in_a_card_is_seen(name):
    plant, message = CARD_FAULTS[name]
    text = read(CARDS)
    assert any(message in fault for fault in card_faults(plant(text))), list(card_faults(plant(text)))


# --------------------------------------------------------------------------------------------------- self-check

DO, RIGHT = re.compile(r"^\*\*Do \((\d+) minutes?\)\.\*\* \S", re.M), re.compile(r"^\*\*You are right if\*\* \S", re.M)
PROOF = re.compile(r"^\*\*Proof:\*\* (.+)$", re.M)


def self_check_faults(text):
    """Return what is wrong with the self-check page, each fault one line."""
    parts = re.split(r"^## (\d+)\. (.+)$", CELL.sub("", text), flags=re.M)[1:]
    items = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    if [int(number) for number, _, _ in items] != list(range(1, len(items) + 1)) or len(items) < 8:
        yield f"the items are {[number for number, _, _ in items]}"
    for _, title, body in items:
        for pattern, name in [(DO, "what to do and in how many minutes"), (RIGHT, "how you know that you are right")]:
            if len(pattern.findall(body)) != 1:
                yield f"{title}: it must say once {name}"
        links = [link for line in PROOF.findall(body) for link in re.findall(LINK, line)]
        if not links:
            yield f"{title}: it needs a proof"
        yield from proof_faults(title, links)
    if re.search(r"^\s*[-*] \[[ x]\]", text, re.M):
        yield "a checkbox that nobody can tick"


def test_the_self_check():
    assert list(self_check_faults(read(SELF_CHECK))) == []


SELF_CHECK_FAULTS = {
    "an item without a task": (r"^\*\*Do \(\d+ minutes\)\.\*\*", "Do.", "what to do and in how many minutes"),
    "an item without a time": (r"\*\*Do \(\d+ minutes\)", "**Do", "what to do and in how many minutes"),
    "no way to know": (r"^\*\*You are right if\*\*", "Right if", "how you know that you are right"),
    "no proof": (r"^\*\*Proof:\*\* .*$", "", "it needs a proof"),
    "a proof in no file": (r"chapters/\d\d_", "chapters/99_", "there is no file"),
    "a proof under no heading": (r"\.ipynb#", ".ipynb#no-", "has no heading"),
    "a proof by another name": (r"\[Chapter (\d+), ", "[Chapter 13, ", "should be"),
    "an item left out": (r"^## 3\. ", "## Three: ", "the items are"),
    "a checkbox": (r"^\*\*Do \(", "- [ ] **Do (", "a checkbox"),
}


@pytest.mark.parametrize("name", SELF_CHECK_FAULTS)
def test_a_fault_in_the_self_check_is_seen(name):
    old, new, message = SELF_CHECK_FAULTS[name]
    text = read(SELF_CHECK)
    broken = re.sub(old, new, text, count=1, flags=re.M)
    assert broken != text
    assert any(message in fault for fault in self_check_faults(broken)), list(self_check_faults(broken))


CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.S | re.M)


def transcript(text):
    """Return the commands of a page's console blocks, each with what the page says that it prints."""
    blocks = "".join(CONSOLE.findall(text))
    return [(command, printed) for command, printed in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", blocks, re.M)]


@pytest.fixture
def finished(tmp_path):
    """The lab's folder, with a `lab.py` in which everything is written."""
    folder = tmp_path / "mylab"
    subprocess.run([sys.executable, "-m", "labkit.lab", "start", folder], check=True, capture_output=True)
    shutil.copy(folder / "solution.py", folder / "lab.py")
    return folder


def test_the_commands_of_the_self_check_print_what_it_says(finished):
    shown, python = transcript(read(SELF_CHECK)), shlex.quote(sys.executable)
    assert len(shown) >= 10
    for command in dict.fromkeys(command for command, _ in shown):
        inside = re.sub(r"\bpytest\b", "python -m pytest", command)
        inside = re.sub(r"\bpython\b", lambda match: python, inside)
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        options = {"shell": True, "cwd": finished, "env": environment, "encoding": "utf-8", "timeout": 120}
        done = subprocess.run(inside, capture_output=True, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        for line in "\n".join(printed for each, printed in shown if each == command).splitlines():
            assert line == "…" or line in done.stdout, f"{command} does not print {line!r}"
