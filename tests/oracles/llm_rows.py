"""Writes llm/: rows in their published shapes, a small tokenizer in both forms, and what TorchTune 0.5.0 makes of those rows.

The tokenizer is trained on the rows. TorchTune's own classes make messages, tokens, masks, batches and packs; only its imports of
modules that these classes do not use are replaced by empty ones. In an environment of its own:
  pip install torch==2.11.0 numpy tiktoken==0.8.0 tokenizers==0.22.2 regex pyarrow==17.0.0
  pip install --no-deps torchtune==0.5.0
  python tests/oracles/llm_rows.py
"""
import base64
import csv
import importlib.abc
import importlib.machinery
import json
import os
import pathlib
import sys
import types


class Empty(types.ModuleType):
    """A module of which everything can be asked."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        # A base class, or a decorator with arguments.
        return type(name, (), {"__init__": lambda self, *args, **keys: None, "__call__": lambda self, made=None, *args, **keys: made})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    NAMES = {"torchao", "datasets", "torchvision", "sentencepiece", "safetensors", "huggingface_hub", "kagglehub", "omegaconf", "PIL",
             "tqdm", "torchdata", "blobfile", "requests"}

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.NAMES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = Empty(spec.name)
        module.BlobFile = open
        module.tqdm = lambda *args, **keys: types.SimpleNamespace(update=lambda: None)
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
# tiktoken would keep an earlier tokenizer.model.
os.environ["TIKTOKEN_CACHE_DIR"] = ""

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torchtune.data import (AlpacaToMessages, GrammarErrorCorrectionTemplate, InputOutputToMessages, ShareGPTToMessages,
                            SummarizeTemplate, padded_collate_sft, validate_messages)
from torchtune.datasets._packed import PackedDataset
from torchtune.models.llama3._tokenizer import CL100K_PATTERN, SPECIAL_TOKENS, Llama3Tokenizer

FOLDER = pathlib.Path(__file__).parent / "llm"
ALPACA = [
    {"instruction": "Give three tips for staying healthy.", "input": "", "output": "1. Eat well.\n2. Move.\n3. Sleep."},
    {"instruction": "Translate to German.", "input": "The cat sleeps, doesn't it?", "output": "Die Katze schläft, nicht wahr?"},
    {"instruction": "  Count the marks: <|eot_id|>  ", "input": "\u3000x\u00a0", "output": ""},
    {"instruction": "Was ist 12345 + 678?", "input": "", "output": "13023 — 你好, здравствуй 🙂🙂"},
]
GRAMMAR = [
    ("She go to school yesterday .", "She went to school yesterday."),
    ("it\"s a  nice day , is'nt it ?", "It's a nice day, isn't it?"),
    ("We was late", "We were late."),
]
SAMSUM = [
    {"id": "1", "dialogue": "Amanda: I baked cookies. Do you want some?\r\nJerry: Sure!\r\nAmanda: I'll bring you tomorrow :-)",
     "summary": "Amanda baked cookies and will bring Jerry some tomorrow."},
    {"id": "2", "dialogue": "Tom: \"hi\", he said\nAnn: ...\n\n\nTom: bye", "summary": "Tom says hi, then bye."},
]
SLIMORCA = [
    {"conversations": [{"from": "system", "value": "You are an AI assistant."}, {"from": "human", "value": "What is 2 + 2?"},
                       {"from": "gpt", "value": "4"}]},
    {"conversations": [{"from": "human", "value": "Name a colour."}, {"from": "gpt", "value": "Blue.\n"},
                       {"from": "human", "value": "Another one?"}, {"from": "gpt", "value": "Red."}]},
]


def write_rows():
    (FOLDER / "alpaca-cleaned").mkdir(parents=True, exist_ok=True)
    for name in ["grammar", "samsum", "slimorca"]:
        (FOLDER / name).mkdir(exist_ok=True)
    (FOLDER / "alpaca-cleaned/rows.json").write_text(json.dumps(ALPACA, indent=1))
    (FOLDER / "alpaca.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ALPACA))
    (FOLDER / "grammar/C4_200M.tsv-00000-of-00001").write_text("".join(f"{a}\t{b}\n" for a, b in GRAMMAR))
    with open(FOLDER / "samsum/train.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "dialogue", "summary"])
        writer.writeheader()
        writer.writerows(SAMSUM)
    import pyarrow
    import pyarrow.parquet
    table = pyarrow.Table.from_pylist(SLIMORCA)
    pyarrow.parquet.write_table(table, FOLDER / "slimorca/0000.parquet", compression="snappy")
    pyarrow.parquet.write_table(pyarrow.table({"input": ["one"], "output": ["two"]}), FOLDER / "zstd.parquet", compression="zstd")


def train():
    """Bytes have the first 256 ids, then come the merges in order: the same ranks as tiktoken's."""
    texts = [json.dumps(rows, ensure_ascii=False) for rows in [ALPACA, GRAMMAR, SAMSUM, SLIMORCA]]
    texts += [AlpacaToMessages().__call__(row)["messages"][0].text_content for row in ALPACA]
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CL100K_PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=256 + 200, initial_alphabet=alphabet, show_progress=False))
    of_byte = bytes_of_letters()
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])
    lines = [(bytes(of_byte[letter] for letter in token), rank) for token, rank in tokens]
    (FOLDER / "tokenizer.model").write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in lines))
    names = sorted(SPECIAL_TOKENS.items(), key=lambda pair: pair[1])
    names = [name for name, _ in names if name not in ("<|image|>", "<|video|>")]
    names.insert(11, "<|reserved_special_token_2|>")
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    tokenizer.save(str(FOLDER / "tokenizer.json"), pretty=False)
    return {name: len(lines) + at for at, name in enumerate(names)} | {"<|image|>": len(lines) + 255}


def bytes_of_letters():
    """ByteLevel's letters, by GPT-2's rule: printable bytes are themselves, the others follow from 256 on."""
    same = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in same}
    for place, byte in enumerate(byte for byte in range(256) if byte not in same):
        letters[chr(256 + place)] = byte
    return letters


def main():
    write_rows()
    special = train()
    columns = {"input": "dialogue", "output": "summary"}
    sets = {
        "alpaca-cleaned": (ALPACA, lambda on: AlpacaToMessages(train_on_input=on), None),
        "grammar": ([{"input": a, "output": b} for a, b in GRAMMAR], lambda on: InputOutputToMessages(train_on_input=on),
                    GrammarErrorCorrectionTemplate()),
        "samsum": (SAMSUM, lambda on: InputOutputToMessages(train_on_input=on, column_map=columns), SummarizeTemplate()),
        "slimorca": (SLIMORCA, lambda on: ShareGPTToMessages(train_on_input=on), None),
    }
    cases, batches, packs = [], [], []
    for name, (rows, transform, template) in sets.items():
        for on in (False, True):
            for limit in (None, 60, 400):
                tokenizer = Llama3Tokenizer(str(FOLDER / "tokenizer.model"), special, limit, template)
                samples = []
                for row in rows:
                    sample = transform(on)(dict(row))
                    validate_messages(sample["messages"])
                    sample = tokenizer(sample)
                    sample["labels"] = [-100 if masked else token for token, masked in zip(sample["tokens"], sample["mask"])]
                    samples.append(sample)
                cases.append({"set": name, "train_on_input": on, "max_tokens": limit,
                              "rows": [{"tokens": s["tokens"], "masked": [int(m) for m in s["mask"]]} for s in samples]})
                if limit is None:
                    batch = padded_collate_sft(samples[:2], padding_idx=tokenizer.pad_id)
                    batches.append({"set": name, "train_on_input": on, **{key: value.tolist() for key, value in batch.items()}})
                if limit == 400:
                    found = PackedDataset(samples, max_seq_len=limit)
                    keys = ["tokens", "labels", "input_pos"]
                    packs.append({"set": name, "train_on_input": on, "max_tokens": limit,
                                  "packs": [{key: pack[key].tolist() for key in keys} for pack in found.packs]})
    out = {"cases": cases, "batches": batches, "packs": packs}
    (FOLDER / "expected.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


main()
