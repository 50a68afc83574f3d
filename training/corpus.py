"""The text: Jane Austen's six novels, as Debian's package r-cran-janeaustenr carries them, read without R.

    apt-get download r-cran-janeaustenr
    dpkg -x r-cran-janeaustenr_*.deb build/austen

R keeps a package's data in two files. Rdata.rdx is an index: for each object, where its bytes lie in Rdata.rdb.
Both hold R's own serialisation, compressed.
"""

import os
import struct
import zlib
from pathlib import Path

NOVELS = ("sensesensibility", "prideprejudice", "mansfieldpark", "emma", "northangerabbey", "persuasion")
FOLDER = Path("usr/lib/R/site-library/janeaustenr/data")
HELD_OUT = 20  # the last 1/20 of every novel is never trained on


def find():
    """Return the folder that holds the novels: that of $AUSTEN, the one unpacked in build/austen, or R's own."""
    named = os.environ.get("AUSTEN")
    roots = [Path(named)] if named else [Path(__file__).parents[1] / "build" / "austen", Path("/")]
    for folder in [*roots, *(root / FOLDER for root in roots)]:
        if (folder / "Rdata.rdx").exists():
            return folder
    raise FileNotFoundError(f"no Rdata.rdx under {', '.join(map(str, roots))}: see training/corpus.py")


def novels(folder=None):
    """Return a dict of each novel's text: one paragraph a line, its printed line breaks taken out."""
    folder = Path(folder or find())
    data = (folder / "Rdata.rdb").read_bytes()
    index = _Reader(zlib.decompress((folder / "Rdata.rdx").read_bytes(), 47)).read()
    places = dict(index["variables"])
    texts = {}
    for name in NOVELS:
        start, length = places[name]
        lines = _Reader(zlib.decompress(data[start + 4 : start + length])).read()  # after 4 bytes of length
        paragraphs = "\n".join(lines).split("\n\n")
        unwrapped = (" ".join(paragraph.split()) for paragraph in paragraphs)
        texts[name] = "\n".join(paragraph for paragraph in unwrapped if paragraph) + "\n"
    return texts


def split(texts):
    """Return the text to train on and the text held out: the last twentieth of each novel, cut between paragraphs."""
    train, held_out = [], []
    for text in texts.values():
        cut = text.index("\n", len(text) - len(text) // HELD_OUT) + 1
        train.append(text[:cut])
        held_out.append(text[cut:])
    return "".join(train), "".join(held_out)


class _Reader:
    """Reads the few of R's types that the novels and their index use."""

    def __init__(self, data):
        if data[:2] != b"X\n":
            raise ValueError(f"expected R's XDR serialisation, got {data[:8]!r}")
        version = struct.unpack(">i", data[2:6])[0]
        self.data, self.at, self.symbols = data, 14, []
        if version == 3:  # names the encoding
            self.at += 4 + struct.unpack(">i", data[14:18])[0]

    def integers(self, count):
        values = struct.unpack_from(f">{count}i", self.data, self.at)
        self.at += 4 * count
        return values

    def read(self):
        flags = self.integers(1)[0]
        kind, has_attributes, has_tag = flags & 255, flags & 512, flags & 1024
        if kind == 254:  # NULL
            return None
        if kind == 1:  # a symbol, which later ones refer to by number
            self.symbols.append(self.read())
            return self.symbols[-1]
        if kind == 255:
            return self.symbols[(flags >> 8) - 1]
        if kind == 2:  # a linked list of tags and values
            items = {}
            while kind == 2:
                if has_attributes:
                    self.read()
                tag = self.read() if has_tag else len(items)
                items[tag] = self.read()
                flags = self.integers(1)[0]
                kind, has_attributes, has_tag = flags & 255, flags & 512, flags & 1024
            return items
        length = self.integers(1)[0]
        if kind == 9:  # characters
            text = self.data[self.at : self.at + max(length, 0)]
            self.at += max(length, 0)
            return text.decode("utf-8")
        if kind in (10, 13):
            value = list(self.integers(length))
        elif kind in (16, 19):
            value = [self.read() for _ in range(length)]
        else:
            raise ValueError(f"R's type {kind} is none that a list of novels needs")
        names = (self.read() if has_attributes else None) or {}
        return dict(zip(names["names"], value, strict=True)) if "names" in names else value


if __name__ == "__main__":
    train, held_out = split(novels())
    print(f"{len(train):,} characters to train on, {len(held_out):,} held out")
