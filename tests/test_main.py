"""The command line: generate and inspect."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from labkit import trained
from labkit.__main__ import main
from labkit.model import generate
from labkit.sampling import sample


def said(capsys, *arguments):
    status = main(list(arguments))
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_generate_writes_what_the_functions_write(capsys):
    params, config = trained.load("novel")
    tokenizer = trained.load_tokenizer("novel")
    prompt = tokenizer.encode("Mr. Darcy")
    rng = np.random.default_rng(1)
    tokens = generate(params, config, prompt, 30, lambda logits, rng: sample(logits, rng, 0.8, top_p=0.9), rng)
    expected = "Mr. Darcy" + tokenizer.decode(list(tokens)) + "\n"
    arguments = ("novel", "Mr. Darcy", "--max-new", "30", "--temperature", "0.8", "--top-p", "0.9", "--seed", "1")
    assert said(capsys, "generate", *arguments) == (0, expected, "")


def test_the_seed_decides(capsys):
    texts = [said(capsys, "generate", "novel", "She", "--max-new", "20", "--seed", seed)[1] for seed in "112"]
    assert texts[0] == texts[1] != texts[2]


def test_temperature_0_is_greedy(capsys):
    texts = [said(capsys, "generate", "honest", "She", "--temperature", "0", "--seed", seed)[1] for seed in "12"]
    assert texts[0] == texts[1]


def test_a_directory_on_disk(capsys, tmp_path):
    shutil.copytree(trained.path("honest"), tmp_path / "mine")
    here = said(capsys, "generate", str(tmp_path / "mine"), "She", "--max-new", "5")
    assert here == said(capsys, "generate", "honest", "She", "--max-new", "5")
    assert here[0] == 0


def test_a_module_that_runs():
    command = [sys.executable, "-m", "labkit", "generate", "honest", "It is", "--max-new", "3"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8")
    assert done.stdout.startswith("It is")
    assert done.stdout.endswith("\n")


def test_inspect(capsys):
    status, out, _ = said(capsys, "inspect", "novel")
    assert status == 0
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith("  ")}
    assert lines["n_kv_heads"] == ["2"]
    assert lines["embedding"] == ["65,536", "7.6%"]
    assert lines["total"] == ["857,216", "100.0%"]
    assert lines["128"] == ["1,843,200", "262,144"]  # 2 · 790,528 + 4 · 4 · 4 · 32 · 128; 2 · 4 · 2 · 32 · 128 · 4
    assert lines["in"] == ["float32", "3,428,864", "bytes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("generate", "induction", "She"), "has no tokenizer.json"),
        (("generate", "nowhere", "She"), "nowhere is not a directory"),
        (("inspect", "nowhere"), "nowhere is not a directory"),
        (("generate", "honest", ""), "the prompt has no tokens"),
        (("generate", "honest", "She", "--temperature", "nan"), "temperature must be a finite number"),
        (("generate", "honest", "She", "--top-p", "1.5"), "top_p must be at most 1"),
        (("generate", "honest", "She", "--top-k", "0"), "top_k must be an integer of at least 1"),
        (("generate", "honest", "She", "--max-new", "-1"), "max_new_tokens must be an integer of at least 0"),
        (("generate", "honest", "She", "--seed", "-1"), "seed must be an integer of at least 0, got -1"),
    ],
)
def test_bad_input_is_told_in_one_line(capsys, arguments, message):
    status, _, err = said(capsys, *arguments)
    assert status == 1
    assert err.startswith("labkit: ")
    assert message in err
    assert err.count("\n") == 1


def padded(tmp_path):
    """Make a model whose table has more rows than its tokenizer has tokens, and which likes the spare rows best."""
    folder = tmp_path / "padded"
    shutil.copytree(trained.path("honest"), folder)
    stored = load_file(folder / "model.safetensors")
    spare = np.ones((100, 64), np.float16)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        stored[name] = np.concatenate([stored[name], spare * (200 if name == "lm_head.weight" else 1)])
    save_file(stored, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 512 + 100}))
    return folder


def test_rows_that_pad_the_table_never_win(capsys, tmp_path):
    status, out, _ = said(capsys, "generate", str(padded(tmp_path)), "She was", "--max-new", "40")
    assert status == 0
    assert len(out) > len("She was") + 40


def test_a_stop_token_ends_the_text(capsys, tmp_path):
    folder = tmp_path / "stops"
    shutil.copytree(trained.path("honest"), folder)
    whole = said(capsys, "generate", str(folder), "She was", "--temperature", "0", "--max-new", "30")[1]
    tokenizer = trained.load_tokenizer("honest")
    new = tokenizer.encode(whole.removesuffix("\n"))[len(tokenizer.encode("She was")) :]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": int(new[5])}))
    cut = said(capsys, "generate", str(folder), "She was", "--temperature", "0", "--max-new", "30")[1]
    assert whole.startswith(cut.removesuffix("\n"))
    assert len(cut) < len(whole)
