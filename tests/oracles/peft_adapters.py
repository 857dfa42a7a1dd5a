"""Whether PEFT takes adapters of the model `tiny` that a run wrote: every tensor, with its scaling, and nothing else.

In an environment of its own:
  pip install torch==2.11.0 transformers==5.1.0 peft==0.21.2
  python tests/oracles/peft_adapters.py SESSION/runs/RUN/model
"""
import sys
import warnings

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

# PEFT warns of tensors that are missing or unknown.
warnings.simplefilter('error')
torch.manual_seed(0)
folder = sys.argv[1]
base = LlamaForCausalLM(LlamaConfig(vocab_size=1024, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
                                    num_key_value_heads=2, tie_word_embeddings=False))
tokens = torch.arange(24)[None]
before = base(tokens).logits.detach()
model = PeftModel.from_pretrained(base, folder)
written = load_file(f'{folder}/adapter_model.safetensors')
loaded = {name.replace('.default', ''): tensor for name, tensor in model.state_dict().items() if 'lora_' in name}
assert set(written) == set(loaded), set(written) ^ set(loaded)
assert all(torch.equal(written[name], loaded[name]) for name in written)

# One layer by hand: y = x W^T + alpha / rank (x A^T) B^T.
layer, name = model.base_model.model.model.layers[0].self_attn.q_proj, 'base_model.model.model.layers.0.self_attn.q_proj'
x, a, b = torch.randn(3, 128), written[f'{name}.lora_A.weight'], written[f'{name}.lora_B.weight']
config = model.peft_config['default']
by_hand = x @ layer.base_layer.weight.t() + config.lora_alpha / config.r * (x @ a.t()) @ b.t()
difference = (layer(x) - by_hand).abs().max().item()
assert difference < 1e-5, difference
changed = (model(tokens).logits - before).abs().max().item()
print(f'{len(written)} tensors taken; one layer differs by {difference:.1e} from its formula; logits changed by up to {changed:.2f}')
