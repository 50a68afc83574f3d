"""Put what training left in build/training into labkit, in float16, with tokenizer, log and model card.

python training/ship.py
"""

import json
import shutil
import sys
from pathlib import Path

import bpe
import cards
import corpus
import recipes
import torch
from safetensors.torch import save_file
from train import BUILD

ROOM = Path(__file__).parents[1] / "labkit" / "trained"
KEPT = {"induction": (0, 50, 100, 120, 140, 160, 200, 300, 500, 800, 1200)}


def write(folder, weights, config):
    """Write one checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.to(torch.float16).contiguous() for name, tensor in torch.load(weights).items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def ship(name):
    """Write a model with all that belongs to it."""
    recipe, source, folder = recipes.RECIPES[name], BUILD / name, ROOM / name
    shutil.rmtree(folder, ignore_errors=True)
    write(folder, source / "weights" / f"{recipe['steps']:05d}.pt", recipe["config"])
    for step in KEPT.get(name, ()):
        write(folder / "steps" / f"{step:04d}", source / "weights" / f"{step:05d}.pt", recipe["config"])
    if name != "induction":
        shutil.copy(bpe.FILE, folder)
    lines = (source / "log.jsonl").read_text().splitlines()
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n")
    text = corpus.split(corpus.novels())[1]
    card = cards.card(name, [json.loads(line) for line in lines], len(bpe.encoded(text)) / len(text))
    (folder / "README.md").write_text(card, encoding="utf-8")
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{name}: {size / 2**20:.2f} MiB")


if __name__ == "__main__":
    for name in sys.argv[1:] or recipes.RECIPES:
        ship(name)
