"""Makes the goldens of this folder with TorchTune 0.5.0 and torchao 0.7.0: DPO's loss, rewards and gradients, QLoRA's and QAT's
losses and gradients on a Llama of 330,000 numbers, the codes and the round trip of NF4, and fake quantisation.

  python3 -m venv env && env/bin/pip install torch==2.11.0 numpy safetensors sympy networkx jinja2 fsspec filelock typing_extensions
  env/bin/pip install --no-deps torchtune==0.5.0 torchao==0.7.0 omegaconf==2.3.0 antlr4-python3-runtime==4.9.3 pyyaml tqdm
  env/bin/python tests/golden/llm-techniques/make.py

TorchTune imports packages for data sets and tokenizers that nothing here uses: empty modules stand for them.
"""
import copy, importlib.machinery, json, os, sys, types

import torch
import torch._dynamo, torch.nn.attention.flex_attention, torch.distributed.tensor     # what torch imports late must meet no stub
from safetensors.torch import save_file

here = os.path.dirname(os.path.abspath(__file__))


class Stub(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith('__'): raise AttributeError(name)
        value = sys.modules.get(f'{self.__name__}.{name}') or type(name, (), {})
        setattr(self, name, value)
        return value


for name in ('datasets PIL PIL.Image huggingface_hub huggingface_hub.utils sentencepiece tiktoken tiktoken.load kagglehub blobfile '
             'torchvision torchvision.transforms torchvision.transforms.v2 torchvision.transforms.v2.functional regex psutil').split():
    try:
        __import__(name)
    except ImportError:
        stub = Stub(name); stub.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True); sys.modules[name] = stub

from torchao.dtypes.nf4tensor import to_nf4
from torchao.quantization.qat.utils import _choose_qparams_per_token_asymmetric
from torchtune import rlhf, training
from torchtune.models.convert_weights import tune_to_hf, tune_to_peft_adapter_weights
from torchtune.models.llama3 import _component_builders as builders
from torchtune.modules.peft import disable_adapter, get_adapter_params, set_trainable_params
import torchtune.modules.loss, torchtune.rlhf.loss, torchtune.training.quantization

torch.manual_seed(1)
DIM, HEADS, FFN, LAYERS, VOCABULARY, GROUP = 128, 4, 256, 2, 96, 32
SHAPE = dict(vocab_size=VOCABULARY, num_layers=LAYERS, num_heads=HEADS, num_kv_heads=HEADS, embed_dim=DIM, max_seq_len=64, intermediate_dim=FFN,
             attn_dropout=0.0, norm_eps=1e-5, rope_base=10_000)
LORA = dict(lora_attn_modules=['q_proj', 'v_proj', 'output_proj'], apply_lora_to_mlp=True, lora_rank=4, lora_alpha=8, lora_dropout=0.0)
golden = {}


def keep(name, tensor): golden[name] = tensor.detach().clone().contiguous()


base = builders.llama3(**SHAPE)
with torch.no_grad():                                    # values that bfloat16 holds exactly, to halve the file
    for p in base.parameters():
        p.copy_((p.uniform_(0.5, 1.5) if p.dim() == 1 else p.normal_(0, 0.1)).bfloat16())
weights = {n: p.detach().clone() for n, p in base.named_parameters()}
to_hf = lambda state: tune_to_hf(state, num_heads=HEADS, num_kv_heads=HEADS, dim=DIM, head_dim=DIM // HEADS)
save_file({n: t.bfloat16().contiguous() for n, t in to_hf(weights).items()}, os.path.join(here, 'model.safetensors'), {'format': 'pt'})
json.dump(dict(model_type='llama', hidden_act='silu', attention_bias=False, mlp_bias=False, vocab_size=VOCABULARY, hidden_size=DIM,
               intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=HEADS,
               max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False),
          open(os.path.join(here, 'config.json'), 'w'), indent=1)

adapters = {}


def lora(quantised):
    model = builders.lora_llama3(**SHAPE, **LORA, quantize_base=quantised)
    set_trainable_params(model, get_adapter_params(model))
    with torch.no_grad():
        for n, p in model.named_parameters():
            if 'lora_' in n:
                if n not in adapters: adapters[n] = torch.randn_like(p) * 0.1
                p.copy_(adapters[n])
            elif 'NF4' in type(p.data).__name__ or 'NF4' in type(p).__name__:
                p.copy_(weights[n])                      # quantises, as loading a checkpoint does
            else:
                p.copy_(weights[n])
    return model


def adapter_gradients(name, model):
    for n, t in to_peft({n: p.grad for n, p in model.named_parameters() if 'lora_' in n}).items(): keep(f'{name}.gradient.{n}', t)


to_peft = lambda state: tune_to_peft_adapter_weights(state, num_heads=HEADS, num_kv_heads=HEADS, dim=DIM, head_dim=DIM // HEADS)

# ---------- DPO: the step of lora_dpo_single_device, two pairs; rows 0 and 1 are chosen, 2 and 3 rejected ----------
tokens = torch.randint(0, VOCABULARY, (4, 20))
tokens[2:, :6] = tokens[:2, :6]
labels = tokens.clone(); labels[:, :6] = -100; labels[1, 15:] = -100; labels[2, 17:] = -100
keep('tokens', tokens.float()); keep('labels', labels.float())
model = lora(False)
save_file({n: t.contiguous() for n, t in to_peft(adapters).items()}, os.path.join(here, 'adapter_model.safetensors'), {'format': 'pt'})


def concatenated_forward(model):
    log_probs = rlhf.get_batch_log_probs(model(tokens), labels)
    return log_probs[:2], log_probs[2:]


chosen, rejected = concatenated_forward(model)
with torch.no_grad(), disable_adapter(model): reference_chosen, reference_rejected = concatenated_forward(model)
loss, chosen_rewards, rejected_rewards = rlhf.loss.DPOLoss(beta=0.1)(chosen, rejected, reference_chosen, reference_rejected)
loss.mean().backward()
for name, t in dict(loss=loss.mean(), chosen=chosen_rewards.mean(), rejected=rejected_rewards.mean(), margin=(chosen_rewards - rejected_rewards).mean(),
                    accuracy=(chosen_rewards > rejected_rewards).float().mean()).items(): keep(f'dpo.{name}', t.reshape(1))
adapter_gradients('dpo', model)


# ---------- QLoRA and QAT: the losses of the supervised recipes ----------
def supervised(model):
    loss_fn = torchtune.modules.loss.CEWithChunkedOutputLoss()
    model.set_num_output_chunks(loss_fn.num_output_chunks)
    shifted = torch.hstack((labels[:, 1:], torch.full((4, 1), -100)))
    return loss_fn(model(tokens), shifted)


model = lora(True)
assert sum('NF4' in type(p.data).__name__ or 'NF4' in type(p).__name__ for p in model.parameters()) == 7 * LAYERS, 'each projection is quantised'
loss = supervised(model); loss.backward()
keep('qlora.loss', loss.reshape(1)); adapter_gradients('qlora', model)

model = training.quantization.Int8DynActInt4WeightQATQuantizer(groupsize=GROUP).prepare(copy.deepcopy(base))
quantised = [n for n, m in model.named_modules() if 'QAT' in type(m).__name__]
assert len(quantised) == 7 * LAYERS + 1, quantised        # the output layer too
loss = supervised(model); loss.backward()
keep('qat.loss', loss.reshape(1))
for n, t in to_hf({n: p.grad for n, p in model.named_parameters()}).items():
    keep(f'qat.norm.{n}', t.norm().reshape(1))
    if 'layers.1.self_attn.q_proj' in n or 'layers.0.mlp.down_proj' in n or 'norm' in n: keep(f'qat.gradient.{n}', t[:8])

# ---------- NF4 (block 64, scaler block 256) ----------
for kind in (torch.float32, torch.bfloat16):
    name = str(kind).split('.')[1]
    weight = (torch.randn(64, 512) * torch.linspace(0.01, 0.05, 64).unsqueeze(1)).to(kind)
    nf4 = to_nf4(weight)
    keep(f'nf4.{name}.weight', weight); keep(f'nf4.{name}.codes', nf4.quantized_data.int()); keep(f'nf4.{name}.scales', nf4.quantized_scalers.int())
    keep(f'nf4.{name}.factors', nf4.quantization_factor); keep(f'nf4.{name}.mean', nf4.scaler_mean.reshape(1))
    keep(f'nf4.{name}.round_trip', nf4.get_original_weight())

# ---------- fake quantisation: int8 a token, int4 a group of 32 ----------
from torchao.quantization.qat.linear import Int8DynActInt4WeightQATLinear
for kind in (torch.float32, torch.bfloat16):
    name = str(kind).split('.')[1]
    x = torch.randn(6, 64) * torch.tensor([0.01, 1.0, 30.0, 1.0, 1.0, 0.0]).unsqueeze(1)
    x[3] = x[3].abs() + 1; x[4] = -x[4].abs() - 1
    x, weight = x.to(kind), (torch.randn(8, 64) * 0.05).to(kind)
    weight[0, :32] = 0
    linear = Int8DynActInt4WeightQATLinear(64, 8, groupsize=GROUP, precision=kind)
    with torch.no_grad(): linear.weight.copy_(weight)
    keep(f'fake.{name}.tokens', x); keep(f'fake.{name}.weight', weight)
    keep(f'fake.{name}.tokens.quantised', linear.activation_fake_quantizer(x)); keep(f'fake.{name}.weight.quantised', linear.weight_fake_quantizer(linear.weight))
    x.requires_grad_()
    y = linear(x); y.square().sum().backward()
    keep(f'fake.{name}.output', y); keep(f'fake.{name}.tokens.gradient', x.grad); keep(f'fake.{name}.weight.gradient', linear.weight.grad)

save_file(golden, os.path.join(here, 'golden.safetensors'), {'format': 'pt'})
print({n: t.flatten()[:1].tolist() for n, t in golden.items() if t.numel() == 1 and 'norm' not in n})
