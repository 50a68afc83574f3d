"""The command line: `python -m labkit generate DIR "prompt"` streams text, `python -m labkit inspect DIR` describes.

DIR is a checkpoint's directory, or the name of a shipped model: induction, novel, honest or leaking.
"""

import argparse
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np

from labkit import checkpoint, trained
from labkit.accounting import flops_per_token, kv_bytes, weight_bytes
from labkit.model import count_params, generate
from labkit.sampling import sample


def main(arguments=None):
    """Run one command; return the exit status."""
    asked = _parser().parse_args(arguments)
    try:
        for piece in asked.run(asked):
            print(piece, end="", flush=True)
    except ValueError as error:
        print(f"labkit: {error}", file=sys.stderr)
        return 1
    except (BrokenPipeError, KeyboardInterrupt):
        return 130
    return 0


def write(asked):
    """Yield the prompt and its continuation, piece by piece."""
    folder = _folder(asked.dir)
    tokenizer = checkpoint.load_tokenizer(folder)
    prompt = tokenizer.encode(asked.prompt)
    if not len(prompt):
        raise ValueError("the prompt has no tokens")
    params, config = checkpoint.load(folder)
    never = np.ones(config.vocab_size, dtype=bool)  # rows that only pad the table are no tokens, and never win
    never[: tokenizer.vocab_size] = ~tokenizer.known()[: config.vocab_size]

    def sampler(logits, rng):
        return sample(np.where(never, -np.inf, logits), rng, asked.temperature, asked.top_k, asked.top_p, asked.min_p)

    if asked.seed < 0:
        raise ValueError(f"seed must be an integer of at least 0, got {asked.seed}")
    rng, stop = np.random.default_rng(asked.seed), checkpoint.stop_tokens(folder)
    yield asked.prompt
    new, shown = [], len(tokenizer.decode(prompt))
    for token in generate(params, config, prompt, asked.max_new, sampler, rng, stop_tokens=stop):
        if token in stop:
            break
        new.append(token)
        text = tokenizer.decode([*prompt, *new])
        if not text.endswith("�"):  # else a character has only come in part
            yield text[shown:]
            shown = len(text)
    yield "\n"


def inspect(asked):
    """Yield what a checkpoint is and what it costs, line by line."""
    folder = _folder(asked.dir)
    config = checkpoint.read_config(folder)
    yield f"{folder.name}\n\nconfig\n"
    for field in fields(config):
        if getattr(config, field.name) is not None:
            yield f"  {field.name:<16} {getattr(config, field.name)}\n"
    parts = count_params(config)
    yield "\nparameters\n"
    for part, count in parts.items():
        yield f"  {part:<16} {count:>16,} {count / parts['total']:>8.1%}\n"
    yield f"  {'in float32':<16} {weight_bytes(config, 4):>16,} bytes\n"
    yield "\ncontext          FLOPs a token     cache bytes (float32)\n"
    for context in sorted({max(1, config.max_len // share) for share in (64, 8, 2, 1)}):
        total = flops_per_token(config, context)["total"]
        yield f"  {context:<12,} {total:>15,} {kv_bytes(config, context, bytes_per_value=4):>25,}\n"


def _parser():
    parser = argparse.ArgumentParser(prog="python -m labkit", description="Run or describe a transformer.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("generate", help="continue a prompt")
    command.set_defaults(run=write)
    command.add_argument("dir", metavar="DIR", help="a checkpoint's directory, or the name of a shipped model")
    command.add_argument("prompt")
    command.add_argument("--max-new", type=int, default=50, help="how many tokens at most (default: 50)")
    command.add_argument("--temperature", type=float, default=1.0, help="0 takes the likeliest token (default: 1)")
    command.add_argument("--top-k", type=int)
    command.add_argument("--top-p", type=float)
    command.add_argument("--min-p", type=float)
    command.add_argument("--seed", type=int, default=0, help="the same seed gives the same text (default: 0)")
    command = commands.add_parser("inspect", help="print config, parameters, FLOPs a token and cache bytes")
    command.set_defaults(run=inspect)
    command.add_argument("dir", metavar="DIR", help="a checkpoint's directory, or the name of a shipped model")
    return parser


def _folder(name):
    """Return the directory that a name stands for: one on disk goes before a shipped model."""
    if not Path(name).exists() and name in trained.NAMES:
        return trained.path(name)
    return Path(name)


if __name__ == "__main__":
    sys.exit(main())
