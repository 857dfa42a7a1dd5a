"""Makes the goldens of this folder: a Llama of 25,000 numbers with Llama 3.1's stretched rotary frequencies, what transformers
compute with it, and the gradients and updates of PEFT's LoRA and of full training on it.

  python3 -m venv env && env/bin/pip install torch==2.11.0 transformers==5.1.0 numpy safetensors && env/bin/pip install --no-deps peft==0.21.2 accelerate psutil
  env/bin/python tests/golden/llm/make.py
"""
import json, os
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

here = os.path.dirname(os.path.abspath(__file__))
torch.manual_seed(1)
config = LlamaConfig(
    vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False, mlp_bias=False,
    rope_parameters=dict(rope_type='llama3', rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                         original_max_position_embeddings=16))
model = LlamaForCausalLM(config).float()
with torch.no_grad():
    for name, p in model.named_parameters():
        p.normal_(0, 0.2) if p.dim() > 1 else p.uniform_(0.5, 1.5)
save_file({n: p.detach().contiguous() for n, p in model.named_parameters()}, os.path.join(here, 'model.safetensors'), {'format': 'pt'})
flat = dict(config.to_dict())
rope = flat.pop('rope_parameters')
json.dump(dict(model_type='llama', hidden_act='silu', rope_theta=rope.pop('rope_theta'), rope_scaling=rope, attention_bias=False, mlp_bias=False,
               **{k: flat[k] for k in ('vocab_size', 'hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads', 'num_key_value_heads',
                                       'max_position_embeddings', 'rms_norm_eps', 'tie_word_embeddings')}),
          open(os.path.join(here, 'config.json'), 'w'), indent=1)

tokens = torch.randint(0, 96, (2, 24))
labels = tokens.clone(); labels[0, :7] = -100; labels[1, 20:] = -100
golden = {'tokens': tokens.float(), 'labels': labels.float(), 'logits': model(tokens).logits.detach()}


def loss_of(m): return m(tokens, labels=labels).loss     # shifts labels, mean over those that count


def steps(m, name):
    """The loss, the gradients, and what two updates of AdamW make of the parameters."""
    trained = {n: p for n, p in m.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(trained.values(), lr=0.01, weight_decay=0.01)
    for step in range(2):
        loss = loss_of(m); optimizer.zero_grad(); loss.backward()
        golden[f'{name}.loss.{step}'] = loss.detach().reshape(1)
        if step == 0:
            norm = torch.stack([p.grad.norm() for p in trained.values()]).norm()
            golden[f'{name}.norm'] = norm.reshape(1)
            for n, p in trained.items(): golden[f'{name}.gradient.{n}'] = p.grad.clone()
        optimizer.step()
    for n, p in trained.items(): golden[f'{name}.updated.{n}'] = p.detach().clone()


lora = get_peft_model(LlamaForCausalLM(config).float(), LoraConfig(
    r=4, lora_alpha=8, lora_dropout=0.0, bias='none', task_type='CAUSAL_LM',
    target_modules=['q_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']))
lora.base_model.model.load_state_dict({n.replace('_proj.weight', '_proj.base_layer.weight') if not n.split('.')[-2].startswith('k_') else n: p
                                       for n, p in model.state_dict().items()}, strict=False)
adapters = {}
with torch.no_grad():
    for n, p in lora.named_parameters():
        if 'lora_' in n:
            p.normal_(0, 0.2)
            adapters[n.replace('.default', '')] = p.clone()
save_file(adapters, os.path.join(here, 'adapter_model.safetensors'), {'format': 'pt'})
golden['lora.logits'] = lora(tokens).logits.detach()
steps(lora, 'lora')
steps(model, 'full')
golden = {n.replace('.default', ''): t.detach().float().contiguous() for n, t in golden.items()}
save_file(golden, os.path.join(here, 'golden.safetensors'), {'format': 'pt'})
print({n: t.flatten()[:3].tolist() for n, t in golden.items() if 'loss' in n or 'logits' in n})
