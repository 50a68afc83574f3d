"""The byte-pair vocabulary: `tokenizers` trains it on the training text, and encodes the text here as it is quicker."""

import corpus
import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

# words, numbers and other marks, each with the space before it; then line breaks; then spaces that are left
PIECES = r" ?[A-Za-z]+| ?[0-9]+| ?[^A-Za-z0-9 \n]+|\n+| +"
FILE = corpus.Path(__file__).parents[1] / "build" / "training" / "tokenizer.json"


def train(text, vocab_size=512):
    """Return a tokenizer of 256 bytes and vocab_size − 256 merges, learnt from a text."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PIECES), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    return tokenizer


def encoded(text):
    """Return a text as token ids, by the tokenizer trained on the training text."""
    if not FILE.exists():
        FILE.parent.mkdir(parents=True, exist_ok=True)
        train(corpus.split(corpus.novels())[0]).save(str(FILE))
    tokenizer = Tokenizer.from_file(str(FILE))
    return np.concatenate([e.ids for e in tokenizer.encode_batch(text.splitlines(keepends=True))]).astype(np.int64)
