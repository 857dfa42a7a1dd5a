"""Random weights and random tokens for TorchTune's recipes, which then need no download: an iteration takes as long with them.

    tune run RECIPE --config CONFIG tokenizer._component_=torchtune_random.Tokenizer \
        checkpointer._component_=torchtune_random.Checkpointer 'checkpointer.model=${model}' \
        dataset._component_=torchtune_random.Dataset dataset.row_tokens=512 dataset.rows=1000

The folder of this file has to be on PYTHONPATH. Losses mean nothing.
"""
import torch
from omegaconf import OmegaConf
from torchtune import config, training

VOCABULARY = 128_000


class Tokenizer:
    """Stands for a tokenizer of which nothing but the token for padding is asked."""
    pad_id = 0

    def __init__(self, **_): pass


class Dataset(torch.utils.data.Dataset):
    """Rows of random tokens, all of which count."""

    def __init__(self, tokenizer, row_tokens=512, rows=1000, **_):
        self.rows = torch.randint(1, VOCABULARY, (rows, row_tokens), generator=torch.Generator().manual_seed(1)).tolist()

    def __len__(self): return len(self.rows)

    def __getitem__(self, row): return {"tokens": list(self.rows[row]), "labels": list(self.rows[row])}


class Checkpointer:
    """Weights of the model's true shapes. They are views of one short buffer, so that they take no memory beside the model's."""

    def __init__(self, model, **_): self.model = model

    def load_checkpoint(self):
        with torch.device("meta"): model = config.instantiate(OmegaConf.create(self.model))
        shapes = {name: weight.shape for name, weight in model.state_dict().items() if "lora_" not in name}
        longest = max(61 * shape[0] + shape[-1] for shape in shapes.values())
        values = torch.randn(longest, generator=torch.Generator().manual_seed(1)) * 0.02
        view = lambda shape: values.as_strided(shape, (61, 1)) if len(shape) == 2 else torch.ones(shape)
        return {training.MODEL_KEY: {name: view(shape) for name, shape in shapes.items()}}

    def save_checkpoint(self, *_, **__): pass
