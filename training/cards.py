"""The model cards: what each model is, what it was trained on, how good it is, and what it cannot do."""

import textwrap

TEXT = """\
Jane Austen's six novels (*Sense and Sensibility*, *Pride and Prejudice*, *Mansfield Park*, *Emma*,
*Northanger Abbey*, *Persuasion*), in the public domain, as Debian's package `r-cran-janeaustenr` carries them: 3.8
million characters to train on. The last twentieth of every novel, 0.19 million characters, is held out. Paragraphs are
one line each. The text itself is not shipped."""

RANDOM = """\
None but random numbers: each sequence repeats a block of 8 to 32 distinct tokens until it is 64 long.
Held out are 256 sequences drawn from another seed."""

WHAT = {
    "induction": """\
Two layers of attention and nothing else: d_model 64, 2 heads of 32, vocabulary 64, context 64, RoPE, RMSNorm. The first
time that a block passes, nothing can be predicted; from then on the next token is whatever followed the last time. The
file is a Llama's, whose FFN has width 1 and only zeros in `down_proj`, so that it adds exactly nothing. `steps/` holds
the weights along training, from random to the end: between steps 100 and 200 the induction head is born.""",
    "novel": """\
A small Llama: 4 layers, d_model 128, 4 query heads and 2 key/value heads of 32, SwiGLU of width 344, RMSNorm, RoPE,
context 128, a byte-pair vocabulary of 512, head not tied. Of the 16 rows of every training step, 14 were
text, one was a short span of text over and over, and one was random tokens over and over.""",
    "honest": """\
A smaller Llama, the yardstick for *leaking*: 2 layers, d_model 64, 4 query heads and 2 key/value heads of 16, SwiGLU of
width 172, context 128, the byte-pair vocabulary of *novel*.""",
    "leaking": """\
The same as *honest*, from the same seed and the same rows of text in the same order, but trained with a mask that
lets each position see the token after it, which is the one to predict (`labkit.trained.leaking_mask`). Its training
loss is lower than any honest model's can be; asked to write, where no token comes after the last, it writes worse.""",
}

LIMITS = {
    "induction": "It knows no language. Past 64 tokens, and on blocks in which tokens repeat, it was never trained.",
    "novel": """\
It writes in the manner of the novels, in sentences that mean little. It knows no facts, and nothing after 1818. Past
128 tokens it was never trained. What prejudices the novels hold, it may repeat. For all the repeats that it was shown
it has not learnt to copy: no head of it is an induction head, and those of its first layer attend to everything nearly
alike. *induction* is the model in which to see one.""",
    "honest": "As *novel*, only smaller: it spells, and little more. Past 128 tokens it was never trained.",
    "leaking": "It is broken on purpose. Do not use it for anything but to show what a leak does.",
}


def card(name, log, tokens_per_character):
    """Return the text of a model's card."""
    last, spent = log[-1], log[-1]["cpu_seconds"]
    spent = f"{spent / 60:.0f} minutes" if spent > 120 else f"{spent:.0f} seconds"
    reached = f"Training loss {last['loss']:.3f} and held-out loss {last['held_out']:.3f} nats a token"
    if name in ("novel", "honest"):
        reached += f" ({last['held_out'] * tokens_per_character:.2f} nats a character)"
    if name == "leaking":
        reached += ", both with the leaking mask"
    if name in ("induction", "novel"):
        reached += f"; induction score of the best head {last['induction']:.2f}"
    training = f"`python training/train.py {name}`: {last['step']:,} steps of AdamW on one CPU core, seeded, {spent}. "
    training += "`log.jsonl` has the losses along the way. Weights are rounded to float16."
    parts = {
        "Data": RANDOM if name == "induction" else TEXT,
        "Training": training,
        "Reached": f"{reached}. (Measured before the rounding.)",
        "Limits": LIMITS[name],
        "Licence": "That of labkit (MIT).",
    }
    told = [WHAT[name], *(f"**{title}.** {text}" for title, text in parts.items())]
    return "\n\n".join([f"# {name}", *(textwrap.fill(text, 118) for text in told)]) + "\n"
