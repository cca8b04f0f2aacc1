"""The files that ship: one signed byte per number and one scale per row, the word pieces, and a card."""

import hashlib
import json
from pathlib import Path

import torch
from torch import Tensor

ROWS, SCALES, PIECES, CARD = "rows.i8", "scales.f32", "pieces.txt", "model.json"


def write(folder: Path, vocabulary: list[str], table: Tensor) -> str:
    """Write the table; return the SHA-256 over rows, scales and pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    scales = (table.abs().amax(1) / 127).clamp(min=1e-12)
    rows = torch.round(table / scales[:, None]).to(torch.int8)
    parts = {
        ROWS: rows.contiguous().numpy().tobytes(),
        SCALES: scales.float().numpy().astype("<f4").tobytes(),
        PIECES: "\n".join(vocabulary).encode() + b"\n",
    }
    digest = hashlib.sha256()
    for name, data in parts.items():
        (folder / name).write_bytes(data)
        digest.update(data)
    card = {"pieces": len(vocabulary), "dimensions": table.shape[1], "sha256": digest.hexdigest()}
    (folder / CARD).write_text(json.dumps(card, indent=2) + "\n")
    return digest.hexdigest()
