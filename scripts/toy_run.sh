# To be sourced: the tiny run that scripts try things on, and how two of them are compared.

# write_toy_run PROGRAM FOLDER: data of 30 samples, and FOLDER/toy.toml for 40 steps that are all saved.
write_toy_run() {
  awk 'BEGIN { srand(1); printf "{\"tokens\":[0"; for (i = 0; i < 480; ++i) printf ",%d", int(rand() * 61); print "]}" }' > "$2/ids.jsonl"
  "$1" prepare --out "$2/data" --tokenizer none --sequence-length 16 "$2/ids.jsonl" > /dev/null 2>&1
  cat > "$2/toy.toml" <<TOML
[run]
steps = 40
[model]
num_hidden_layers = 2
hidden_size = 32
num_attention_heads = 4
intermediate_size = 24
num_experts = 4
num_experts_per_tok = 2
vocab_size = 61
[data]
path = "$2/data"
sequence_length = 16
[batch]
global_batch = 12
[optimizer]
lr = 1e-2
warmup_steps = 2
[checkpoint]
interval = 1
[log]
tensorboard = false
TOML
}

# The lines of a metrics.jsonl without what a clock decides.
without_times() { sed -E 's/"(tokens_per_s|flops_per_s|mfu|step_s)":[^,}]*,?//g; s/"phase_s":\{[^}]*\},?//; s/,?"stragglers":\[[^]]*\]//' "$1"; }
