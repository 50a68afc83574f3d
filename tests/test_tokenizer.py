"""Byte pairs: round trips, the order of merges, the files that are read, and agreement with `tokenizers`."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit import trained
from labkit.tokenizer import (
    PIECES,
    ForeignTokenizer,
    Tokenizer,
    byte_characters,
    is_ours,
    merge,
    read_tokenizer,
    split,
)

BYTES = {bytes([i]): i for i in range(256)}
FILE = trained.path("novel") / "tokenizer.json"
MADE = settings(max_examples=60, deadline=None, derandomize=True)
TEXTS = st.text(alphabet=st.one_of(st.sampled_from("the and\n  .,;_'\"19éß\t\r\u00a0"), st.characters(codec="utf-8")))


@pytest.fixture(scope="module")
def ours():
    return read_tokenizer(FILE)


def written(tmp_path, change):
    described = json.loads(FILE.read_text(encoding="utf-8"))
    change(described)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(described), encoding="utf-8")
    return file


def test_merges_by_hand():
    ranks = {(b"b", b"c"): 0, (b"a", b"b"): 1, (b"a", b"bc"): 2}
    assert merge(b"abc", ranks) == [b"abc"]  # not ab, c: the pair learnt first goes first, wherever it stands
    assert merge(b"ab", ranks) == [b"ab"]
    assert merge(b"aab", ranks) == [b"a", b"ab"]
    assert merge(b"x", ranks) == [b"x"]
    assert merge(b"", ranks) == []


def test_overlapping_pairs_merge_from_the_left():
    assert merge(b"aaaaa", {(b"a", b"a"): 0}) == [b"aa", b"aa", b"a"]
    assert merge(b"aaaaa", {(b"a", b"a"): 0, (b"aa", b"aa"): 1}) == [b"aaaa", b"a"]


def test_ranks_decide_and_not_the_order_of_the_dict():
    assert merge(b"abc", {(b"a", b"b"): 1, (b"b", b"c"): 0}) == [b"a", b"bc"]
    assert merge(b"abc", {(b"b", b"c"): 1, (b"a", b"b"): 0}) == [b"ab", b"c"]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Emma said, 'No!'", ["Emma", " said", ",", " '", "No", "!'"]),
        ("a  b", ["a", "  ", "b"]),  # both spaces are taken before the word can claim one
        ("1811 1816x", ["1811", " 1816", "x"]),
        ("one\n\n two", ["one", "\n\n", " two"]),
        ("naïve", ["na", "ï", "ve"]),
        ("end   ", ["end", "   "]),
        ("", []),
    ],
)
def test_pieces_by_hand(text, pieces):
    assert split(text) == pieces


@MADE
@given(TEXTS)
@example("\r\n\t\x00 \u2028 \ufffd 🙂")
def test_round_trip(ours, text):
    assert "".join(split(text)) == text
    ids = ours.encode(text)
    assert ids.dtype == np.int64
    assert ours.decode(ids) == text
    assert all(0 <= token < ours.vocab_size for token in ids)


@MADE
@given(TEXTS, TEXTS)
def test_a_line_break_between_letters_separates(ours, left, right):
    joined = ours.encode(left + "x\nx" + right)
    apart = [ours.encode(part) for part in (left + "x", "\n", "x" + right)]
    np.testing.assert_array_equal(joined, np.concatenate(apart))


def test_every_token_comes_back(ours):
    assert ours.vocab_size == 512
    assert ours.known().sum() == 512
    for token in range(ours.vocab_size):
        assert ours.ids[ours.token(token)] == token
    assert max(len(ours.token(token)) for token in range(512)) >= 5  # it has learnt words


def test_a_cut_character_is_shown_as_such(ours):
    ids = ours.encode("é")
    assert len(ids) == 2
    assert ours.decode(ids[:1]) == "�"


def test_words_of_the_novels_are_short(ours):
    assert len(ours.encode(" the")) == 1
    assert len(ours.encode("It is a truth universally acknowledged")) < 25


def test_byte_characters():
    table = byte_characters()
    assert sorted(table) == list(range(256))
    assert len(set(table.values())) == 256
    assert (table[0x20], table[0x0A], table[0x7F], table[0xAD]) == ("Ġ", "Ċ", "ġ", "Ń")
    assert all(character.isprintable() and not character.isspace() for character in table.values())


BAD_TOKENIZERS = {
    "no byte": (lambda: Tokenizer({b"a": 0}, {}), "all 256 bytes, got none for byte 0"),
    "gap": (lambda: Tokenizer(BYTES | {b"ab": 300}, {}), r"ids must be 0 … 256"),
    "twice": (lambda: Tokenizer(BYTES | {b"ab": 7}, {}), r"ids must be 0 … 256"),
    "merge": (lambda: Tokenizer(BYTES, {(b"a", b"b"): 0}), "b'ab' are no tokens"),
    "parts": (lambda: Tokenizer(BYTES | {b"abc": 256}, {(b"ab", b"c"): 0}), "are no tokens"),
}


@pytest.mark.parametrize(("call", "said"), BAD_TOKENIZERS.values(), ids=BAD_TOKENIZERS)
def test_bad_vocabularies(call, said):
    with pytest.raises(ValueError, match=said):
        call()


BAD_CALLS = {
    "bytes": (lambda t: t.encode(b"the"), "text must be a string, got bytes"),
    "none": (lambda t: t.encode(None), "text must be a string, got NoneType"),
    "surrogate": (lambda t: t.encode("a\ud800"), "half a surrogate pair"),
    "high id": (lambda t: t.decode([512]), "at most 511, got 512"),
    "negative id": (lambda t: t.decode([-1]), "at least 0"),
    "float id": (lambda t: t.decode([1.0]), "token_ids must be integers"),
    "rank": (lambda t: t.decode([[1, 2]]), "token_ids must be integers"),
    "scalar": (lambda t: t.decode(3), "token_ids must be integers"),
    "token": (lambda t: t.token(True), "token_id must be an integer"),
}


@pytest.mark.parametrize(("call", "said"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_calls(ours, call, said):
    with pytest.raises(ValueError, match=said):
        call(ours)


def test_nothing_to_encode_or_decode(ours):
    assert ours.encode("").shape == (0,)
    assert ours.decode([]) == ""


OTHERS = {
    "another model": lambda d: d["model"].update(type="Unigram"),
    "another split": lambda d: d["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex=r"\w+"),
    "inverted": lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(invert=True),
    "prefix space": lambda d: d["pre_tokenizer"]["pretokenizers"][1].update(add_prefix_space=True),
    "its own regex": lambda d: d["pre_tokenizer"]["pretokenizers"][1].update(use_regex=True),
    "one step": lambda d: d["pre_tokenizer"]["pretokenizers"].pop(),
    "no steps": lambda d: d.update(pre_tokenizer=None),
    "normalizer": lambda d: d.update(normalizer={"type": "NFC"}),
    "special token": lambda d: d.update(added_tokens=[{"id": 512, "content": "<s>"}]),
    "template": lambda d: d.update(post_processor={"type": "TemplateProcessing"}),
    "dropout": lambda d: d["model"].update(dropout=0.1),
    "whole words first": lambda d: d["model"].update(ignore_merges=True),
    "no merges": lambda d: d["model"].pop("merges"),
    "vocabulary list": lambda d: d["model"].update(vocab=[]),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_other_kinds_are_not_taken_for_ours(tmp_path, change):
    file = written(tmp_path, change)
    assert not is_ours(json.loads(file.read_text(encoding="utf-8")))
    with pytest.raises(ValueError, match="describes another tokenizer"):
        read_tokenizer(file)


@pytest.mark.parametrize("described", [None, [], 3, {}, {"model": []}, {"model": {"type": "BPE"}}])
def test_anything_at_all_is_not_ours(described):
    assert not is_ours(described)


DAMAGED = {
    "short merge": (lambda d: d["model"]["merges"].append(["a"]), "vocabulary or merges"),
    "number merge": (lambda d: d["model"]["merges"].append(["a", 3]), "vocabulary or merges"),
    "no bytes": (lambda d: d["model"]["vocab"].update({"\u4e2d": 512}), "vocabulary or merges"),
    "gap": (lambda d: d["model"]["vocab"].update(aaaa=600), "ids must be"),
    "merge to nothing": (lambda d: d["model"]["merges"].append(["z", "Q"]), "are no tokens"),
    "byte lost": (lambda d: d["model"]["vocab"].pop("Ġ"), "all 256 bytes"),
}


@pytest.mark.parametrize(("change", "said"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_files(tmp_path, change, said):
    with pytest.raises(ValueError, match=said):
        read_tokenizer(written(tmp_path, change))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_files_that_are_no_json(tmp_path, content):
    file = tmp_path / "tokenizer.json"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="cannot be read"):
        read_tokenizer(file)


def test_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        read_tokenizer(tmp_path / "tokenizer.json")


def test_merges_may_be_written_as_one_string(tmp_path, ours):
    def change(described):
        described["model"]["merges"] = [" ".join(pair) for pair in described["model"]["merges"]]

    again = read_tokenizer(written(tmp_path, change))
    assert again.ranks == ours.ranks


def test_the_optional_package_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ValueError, match="needs the package tokenizers: pip install tokenizers"):
        ForeignTokenizer(FILE)


def test_the_training_script_cuts_the_same_pieces():
    script = Path(__file__).parents[1] / "training" / "bpe.py"
    assert f'PIECES = r"{PIECES}"' in script.read_text(encoding="utf-8")
