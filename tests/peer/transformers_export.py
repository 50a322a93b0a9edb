"""Loads exported folders with transformers and compares logits. Not part of the tests: needs torch and transformers.

  optimus convert from-hf REFERENCE --out start && optimus convert to-hf start --out exported
  python tests/peer/transformers_export.py REFERENCE exported

REFERENCE is a folder of tests/data/reference. Fails on any warning, on missing or unknown tensors, and on logits that differ by more than 1e-5 of the largest.
"""

import logging
import sys
import warnings

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


class Collect(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.records = []

    def emit(self, record):
        self.records.append(record.getMessage())


def main(reference, exported):
    warnings.simplefilter("error")
    collect = Collect()
    logging.getLogger("transformers").addHandler(collect)
    model, info = AutoModelForCausalLM.from_pretrained(exported, output_loading_info=True, dtype=torch.float32)
    assert not any(info.values()), info
    assert not collect.records, collect.records
    io = load_file(f"{reference}/io.safetensors")
    expected = io["logits"]
    with torch.no_grad():
        logits = model(io["tokens"].long()[:, : expected.shape[1]]).logits
    error = ((logits - expected).abs().max() / expected.abs().max()).item()
    print(f"{exported}: largest difference {error:.1e} of the largest logit")
    assert error < 1e-5


if __name__ == "__main__":
    main(*sys.argv[1:])
