"""Text to token ids and back: byte-pair encoding, short enough to follow.

A text is cut into pieces (a word with the space before it, a number, a mark, …), a piece into its UTF-8 bytes, and then
neighbours are merged, pair by pair, in the order in which the merges were learnt. What is left are the tokens. Every
byte is a token of its own, so that any text can be encoded, and comes back as it was.
"""

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from labkit import _check

# words, numbers and other marks, each with the space before it; then line breaks; then spaces that are left
PIECES = r" ?[A-Za-z]+| ?[0-9]+| ?[^A-Za-z0-9 \n]+|\n+| +"


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A byte-pair vocabulary, and the order of its merges.

    Parameters
    ----------
    ids : dict of bytes to int
        The id of every token. All 256 single bytes are tokens.
    ranks : dict of (bytes, bytes) to int
        Which neighbours merge; the pair of lowest rank goes first.

    Raises
    ------
    ValueError
        If a byte is no token, ids are not 0, 1, 2, …, or a merge makes no token.

    Examples
    --------
    >>> ids = {bytes([i]): i for i in range(256)} | {b"th": 256, b"the": 257}
    >>> tokenizer = Tokenizer(ids, ranks={(b"t", b"h"): 0, (b"th", b"e"): 1})
    >>> tokenizer.encode("the thin"), tokenizer.decode([257, 32, 256])
    (array([257,  32, 256, 105, 110]), 'the th')
    """

    ids: dict[bytes, int]
    ranks: dict[tuple[bytes, bytes], int]

    def __post_init__(self):
        for byte in range(256):
            if bytes([byte]) not in self.ids:
                raise ValueError(f"ids must hold all 256 bytes, got none for byte {byte}")
        if sorted(self.ids.values()) != list(range(len(self.ids))):
            raise ValueError(f"ids must be 0 … {len(self.ids) - 1}, each once")
        for left, right in self.ranks:
            if left + right not in self.ids or left not in self.ids or right not in self.ids:
                raise ValueError(f"ranks merges {left!r} and {right!r}, but these or {left + right!r} are no tokens")
        object.__setattr__(self, "_tokens", tuple(sorted(self.ids, key=self.ids.get)))

    @property
    def vocab_size(self):
        """How many tokens there are."""
        return len(self.ids)

    def known(self):
        """Return a Boolean array [vocab_size]: True for the ids that are tokens, which are all."""
        return np.ones(self.vocab_size, dtype=bool)

    def encode(self, text):
        """Return the token ids of a text.

        Parameters
        ----------
        text : str

        Returns
        -------
        integer array [T]

        Raises
        ------
        ValueError
            If `text` is not a string that UTF-8 can write (half a surrogate pair cannot be).
        """
        memory, ids = {}, []
        for piece in split(text):
            if piece not in memory:
                memory[piece] = [self.ids[token] for token in merge(_utf8(piece), self.ranks)]
            ids += memory[piece]
        return np.array(ids, dtype=np.int64)

    def decode(self, token_ids):
        """Return the text of token ids; bytes that are no UTF-8 (a cut character) become �.

        Parameters
        ----------
        token_ids : integer array [T]

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If an id is out of range.
        """
        return b"".join(self.token(token) for token in _one_row(token_ids)).decode("utf-8", errors="replace")

    def token(self, token_id):
        """Return the bytes of one token."""
        _check.integer(at_least=0, at_most=self.vocab_size - 1, token_id=token_id)
        return self._tokens[token_id]


class ForeignTokenizer:
    """A tokenizer of any kind, run by the optional package `tokenizers`, with the methods of `Tokenizer`.

    Parameters
    ----------
    file : str or Path
        A `tokenizer.json`.

    Raises
    ------
    ValueError
        If `tokenizers` is not installed, or cannot read the file.
    """

    def __init__(self, file):
        try:
            import tokenizers
        except ImportError:
            raise ValueError(f"{file} needs the package tokenizers: pip install tokenizers") from None
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the package raises nothing narrower
            raise ValueError(f"{file} is no tokenizer: {error}") from None
        self.vocab_size = max(self._tokenizer.get_vocab().values()) + 1

    def known(self):
        """Return a Boolean array [vocab_size]: True for the ids that are tokens."""
        known = np.zeros(self.vocab_size, dtype=bool)
        known[list(self._tokenizer.get_vocab().values())] = True
        return known

    def encode(self, text):
        """Return the token ids of a text, with the special tokens that the file adds."""
        _utf8(text)
        return np.array(self._tokenizer.encode(text).ids, dtype=np.int64)

    def decode(self, token_ids):
        """Return the text of token ids, without special tokens."""
        _check.ids(self.vocab_size, "vocab_size", token_ids=np.asarray(_one_row(token_ids), dtype=np.int64))
        return self._tokenizer.decode(list(map(int, token_ids)))


def split(text):
    r"""Cut a text into the pieces that tokens never cross.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        Joined, they are the text.

    Raises
    ------
    ValueError
        If `text` is not a string.

    Notes
    -----
    Without pieces, merges would learn whole phrases, and the same word would have other tokens in another place.

    Source: Radford et al. (2019), section 2.2, for merges that do not cross kinds of characters.

    Examples
    --------
    >>> split("It is 1811, Emma!\n")
    ['It', ' is', ' 1811', ',', ' Emma', '!', '\n']
    """
    if not isinstance(text, str):
        raise ValueError(f"text must be a string, got {type(text).__name__}")
    return re.findall(PIECES, text)


def merge(piece, ranks):
    """Merge the bytes of one piece into tokens.

    Parameters
    ----------
    piece : bytes
    ranks : dict of (bytes, bytes) to int
        Which neighbours merge; the pair of lowest rank goes first, and everywhere in the piece at once.

    Returns
    -------
    list of bytes
        Joined, they are the piece.

    Notes
    -----
    Source: Sennrich, Haddow & Birch (2016), "Neural Machine Translation of Rare Words with Subword Units", section 3.2.

    Examples
    --------
    >>> merge(b"then", {(b"h", b"e"): 0, (b"t", b"he"): 1})
    [b'the', b'n']
    """
    tokens = [bytes([byte]) for byte in piece]
    while len(tokens) > 1:
        first = min(pairwise(tokens), key=lambda pair: ranks.get(pair, len(ranks)))
        if first not in ranks:
            break
        merged, at = [], 0
        while at < len(tokens):
            width = 2 if tuple(tokens[at : at + 2]) == first else 1
            merged.append(b"".join(tokens[at : at + width]))
            at += width
        tokens = merged
    return tokens


def read_tokenizer(file):
    """Read a tokenizer from a `tokenizer.json` of the kind that this module computes.

    Parameters
    ----------
    file : str or Path

    Returns
    -------
    Tokenizer

    Raises
    ------
    ValueError
        If the file is missing, is not JSON, or describes another kind of tokenizer.

    Examples
    --------
    >>> from labkit import trained
    >>> tokenizer = read_tokenizer(trained.path("novel") / "tokenizer.json")
    >>> tokenizer.vocab_size, tokenizer.decode(tokenizer.encode("Emma – 1816"))
    (512, 'Emma – 1816')
    """
    try:
        described = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    if not is_ours(described):
        raise ValueError(f"{file} describes another tokenizer than labkit's byte pairs")
    model = described["model"]
    pairs = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]
    try:
        ids = {_bytes(token): number for token, number in model["vocab"].items()}
        ranks = {(_bytes(left), _bytes(right)): rank for rank, (left, right) in enumerate(pairs)}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} has a vocabulary or merges that are none: {error!r}") from None
    return Tokenizer(ids, ranks)


def is_ours(described):
    """Return whether the content of a `tokenizer.json` describes what `Tokenizer` computes, and nothing more.

    Examples
    --------
    >>> is_ours({"model": {"type": "WordPiece"}})
    False
    """
    model = described.get("model") if isinstance(described, dict) else None
    if not isinstance(model, dict) or model.get("type") != "BPE":
        return False
    if not isinstance(model.get("vocab"), dict) or not isinstance(model.get("merges"), list):
        return False
    asked = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    asked += ("ignore_merges",)
    if any(model.get(name) for name in asked):
        return False
    if any(described.get(name) for name in ("normalizer", "post_processor", "added_tokens", "truncation", "padding")):
        return False
    steps = (described.get("pre_tokenizer") or {}).get("pretokenizers") or []
    cut = {"type": "Split", "pattern": {"Regex": PIECES}, "behavior": "Isolated", "invert": False}
    as_bytes = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return len(steps) == 2 and steps[0] == cut and as_bytes.items() <= steps[1].items()


def byte_characters():
    r"""Return the printable character that stands for each byte in a vocabulary file.

    Returns
    -------
    dict of int to str
        Printable bytes of Latin-1 stand for themselves; the others, in order, for the characters from number 256.

    Notes
    -----
    A vocabulary file is text, and a token may be half a character: so files name tokens by these. A space is Ġ, a line
    break Ċ. The table is GPT-2's.

    Examples
    --------
    >>> table = byte_characters()
    >>> table[ord("a")], table[ord(" ")], table[ord("\n")]
    ('a', 'Ġ', 'Ċ')
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


_BYTES = {character: byte for byte, character in byte_characters().items()}


def _bytes(token):
    """Return the bytes that a token of a vocabulary file stands for."""
    return bytes(_BYTES[character] for character in token)


def _utf8(text):
    """Return the bytes of a text."""
    if not isinstance(text, str):
        raise ValueError(f"text must be a string, got {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"text has half a surrogate pair, which UTF-8 cannot write: {error}") from None


def _one_row(token_ids):
    token_ids = np.asarray(token_ids)
    if token_ids.ndim != 1 or (token_ids.size and token_ids.dtype.kind not in "iu"):
        raise ValueError(f"token_ids must be integers [T], got shape {token_ids.shape}, dtype {token_ids.dtype}")
    return token_ids.tolist()
