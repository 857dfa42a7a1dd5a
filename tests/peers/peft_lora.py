"""LoRA of a Llama with Hugging Face transformers and PEFT, as their user writes it: random weights of the true shapes, random tokens.

  python3 tests/peers/peft_lora.py '[{"dtype":"bf16","seq":120},{"dtype":"fp32","seq":512}]'

Needs torch, transformers and peft (tried with 2.11.0, 5.1.0, 0.21.2). Keys: dtype (fp32 bf16), seq, batch (2), steps (50), tf32, model
(8b tiny). One JSON line each: median ms an iteration, peak GiB. The adapters are those of the workload's default: rank 8, alpha 16 on
q, v, o and the MLP.
"""
import json, statistics, sys, time
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

SHAPES = {
    '8b': dict(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8),
    'tiny': dict(vocab_size=1024, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2)}
cuda = torch.cuda.is_available()
device = torch.device('cuda' if cuda else 'cpu')
synchronize = torch.cuda.synchronize if cuda else (lambda: None)

for cell in json.loads(sys.argv[1]):
    dtype = {'fp32': torch.float32, 'bf16': torch.bfloat16}[cell['dtype']]
    torch.backends.cuda.matmul.allow_tf32 = bool(cell.get('tf32'))
    torch.set_default_dtype(dtype)
    with device:
        model = LlamaForCausalLM(LlamaConfig(**SHAPES[cell.get('model', '8b')], max_position_embeddings=8192, rms_norm_eps=1e-5,
                                             rope_parameters=dict(rope_type='default', rope_theta=500000.0), tie_word_embeddings=False, use_cache=False))
        model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, bias='none', task_type='CAUSAL_LM', target_modules=[
            'q_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']), autocast_adapter_dtype=False)
    torch.set_default_dtype(torch.float32)
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4, weight_decay=0.01, fused=True)
    batch, steps, times, warm_up = cell.get('batch', 2), cell.get('steps', 50), [], 8
    data = torch.randint(0, model.config.vocab_size, (steps + warm_up, batch, cell['seq']), device=device)
    for index, tokens in enumerate(data):
        if index == warm_up and cuda: torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward(); optimizer.step(); optimizer.zero_grad(set_to_none=True)
        loss.item(); synchronize()
        if index >= warm_up: times.append((time.perf_counter() - start) * 1e3)
    print(json.dumps({**cell, 'iteration_ms': round(statistics.median(times), 2), 'n': len(times), 'last_loss': round(loss.item(), 4),
                      'peak_gib': round(torch.cuda.max_memory_allocated() / 2**30, 2) if cuda else None, 'torch': torch.__version__}), flush=True)
    del model, optimizer
    if cuda: torch.cuda.empty_cache()
