"""Hugging Face's Trainer on a GPT-2 with random weights and random tokens, which needs no download: steps take as long with them.

    torchrun --standalone --nproc_per_node=2 trainer.py --output_dir=OUT --max_steps=100 --bf16 --row_tokens=512

Takes the arguments of transformers' TrainingArguments and those of Model below. Losses mean nothing.
"""
from dataclasses import dataclass

import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class Model:
    layers: int = 12
    width: int = 768
    heads: int = 12
    row_tokens: int = 512
    rows: int = 10_000


class Rows(torch.utils.data.Dataset):
    """Rows of random tokens, each made when it is read."""

    def __init__(self, model, vocabulary): self.model, self.vocabulary = model, vocabulary

    def __len__(self): return self.model.rows

    def __getitem__(self, row):
        tokens = torch.randint(self.vocabulary, (self.model.row_tokens,), generator=torch.Generator().manual_seed(row))
        return {"input_ids": tokens, "labels": tokens}


model, arguments = HfArgumentParser((Model, TrainingArguments)).parse_args_into_dataclasses()
config = GPT2Config(n_layer=model.layers, n_embd=model.width, n_head=model.heads, n_positions=model.row_tokens)
Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Rows(model, config.vocab_size)).train()
