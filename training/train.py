"""Train the models that labkit ships: `python training/train.py induction`, `novel`, `honest` or `leaking`.

Each run is seeded, takes at most 20 minutes of one CPU core, writes what it measures to build/training/<name>/log.jsonl
and its state beside it; started again, it goes on where it stopped. `python training/ship.py` puts the results into
labkit.
"""

import json
import math
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # matrices this small are slower on two threads

import numpy as np
import recipes
import torch
import torch.nn.functional as F
from llama import Llama

BUILD = Path(__file__).parents[1] / "build" / "training"


def learning_rate(recipe, step):
    """Return the rate of a step: a linear rise, level, and over the last steps half a cosine down to a tenth."""
    rise = min(1, (step + 1) / recipe["rise"])
    share = max(0, step - recipe["steps"] + recipe["fall"]) / recipe["fall"]
    return recipe["rate"] * rise * (0.1 + 0.9 * (1 + math.cos(math.pi * share)) / 2)


def losses(model, token_ids):
    """Return the loss of each next token, in nats."""
    logits = model(token_ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), token_ids[:, 1:].flatten(), reduction="none").view(len(token_ids), -1)


@torch.no_grad()
def measure(model, recipe, held_out):
    """Return the loss on held-out rows and the induction score of the best head."""
    found = {"held_out": round(float(losses(model, held_out).mean()), 4)}
    period = recipe["score_period"]
    rng, keep = np.random.default_rng(10**6), []
    blocks = np.stack([rng.permutation(recipe["config"]["vocab_size"])[:period] for _ in range(32)])
    model(torch.from_numpy(np.tile(blocks, 2)), keep)
    queries = np.arange(period, 2 * period)
    heads = [weights[:, :, queries, queries - period + 1].mean((0, 2)) for weights in keep]
    return found | {"induction": round(float(torch.cat(heads).max()), 4)}


def train(name):
    """Train one model, from the start or from where it stopped."""
    recipe, folder = recipes.RECIPES[name], BUILD / name
    (folder / "weights").mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(recipe["seed"])
    model = Llama(recipe["config"], recipe.get("attention_only", False), recipe.get("ahead", 0))
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [{"params": [w for w in trained if w.ndim == 2], "weight_decay": recipe["decay"]}]
    groups += [{"params": [w for w in trained if w.ndim == 1], "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe["rate"], betas=recipe["betas"], fused=True)
    batch, held_out = recipe["data"](recipe, folder)
    first, spent, state = 0, 0.0, folder / "state.pt"
    if state.exists():
        saved = torch.load(state)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first, spent = saved["step"], saved["spent"]
    began, recent = time.process_time() - spent, []
    for step in range(first, recipe["steps"] + 1):
        due = step % recipe["measure"] == 0 or step in recipe.get("also", ()) or step == recipe["steps"]
        if due and (step > first or step == 0):  # where a run goes on, it has been measured
            line = {"step": step, "loss": round(float(np.mean(recent)), 4) if recent else None}
            line |= measure(model, recipe, held_out) | {"cpu_seconds": round(time.process_time() - began, 1)}
            with open(folder / "log.jsonl", "a") as log:
                print(json.dumps(line), file=log)
            print(json.dumps(line), flush=True)
            torch.save(model.state_dict(), folder / "weights" / f"{step:05d}.pt")
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(saved | {"spent": time.process_time() - began}, state.with_suffix(".new"))
            os.replace(state.with_suffix(".new"), state)
            recent = []
        if step == recipe["steps"]:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        rng = np.random.default_rng([recipe["seed"], step])  # so that a resumed run draws what it would have drawn
        each = losses(model, torch.from_numpy(batch(rng, step)))
        loss = each.mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        recent.append(loss.item())


if __name__ == "__main__":
    train(sys.argv[1])
