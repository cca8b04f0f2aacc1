"""The student: MiniLM with half of its feed-forward neurons, its matrices on a grid of a few bits while it learns."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from training.encoder.pack import Grid, Parts
from training.teacher import HEADS, LAYERS, WIDTH, Teacher, check, pool

INNER = 768
TOKENS = 128
LAYER_BITS, WORD_BITS = 4, 3
SHAPE = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "inner": INNER, "tokens": TOKENS}
_EPSILON = 1e-12


class Matrix(nn.Module):
    """A matrix that is used only as its nearest values (code + 0.5) times the scale of the row, which is learned.

    Rounding is passed over in the gradient, so the numbers behind the codes go on learning.
    """

    def __init__(self, values: Tensor, bits: int) -> None:
        super().__init__()
        self.bits = bits
        self.values = nn.Parameter(values.clone())
        self.log_scale = nn.Parameter(self._closest_scale(values).log())

    def _closest_scale(self, values: Tensor) -> Tensor:
        """Return the scale of each row, out of a few, that moves its numbers the least."""
        half = 2 ** (self.bits - 1)
        widest = values.abs().amax(1, keepdim=True).clamp(min=1e-4) / half
        scales = torch.stack([widest * share for share in torch.linspace(0.2, 1.0, 17)])
        errors = []
        for scale in scales:
            codes = torch.floor(values / scale).clamp(-half, half - 1)
            errors.append((((codes + 0.5) * scale - values) ** 2).sum(1, keepdim=True))
        return scales.gather(0, torch.stack(errors).argmin(0, keepdim=True)).squeeze(0)

    def scale(self) -> Tensor:
        """Return the scales as they are stored: rounded to float16."""
        exact = self.log_scale.exp()
        return exact + (exact.half().float() - exact).detach()

    def forward(self) -> Tensor:
        half = 2 ** (self.bits - 1)
        scale = self.scale()
        place = (self.values / scale).clamp(-half, half - 1e-3)
        return (place + (torch.floor(place) + 0.5 - place).detach()) * scale

    @torch.no_grad()
    def snap(self) -> None:
        """Move every number to the middle of its step, from where it does not jump to and fro between two codes."""
        self.values.copy_(self.forward())

    @torch.no_grad()
    def grid(self) -> Grid:
        half = 2 ** (self.bits - 1)
        scale = self.scale()
        codes = torch.floor(self.values / scale).clamp(-half, half - 1) + half
        return Grid(codes.byte().cpu().numpy(), scale[:, 0].half().cpu().numpy(), self.bits)


class Norm(nn.Module):
    def __init__(self, gain: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.gain = nn.Parameter(gain.clone())
        self.bias = nn.Parameter(bias.clone())

    def forward(self, hidden: Tensor) -> Tensor:
        return functional.layer_norm(hidden.float(), (WIDTH,), self.gain, self.bias, _EPSILON)


class Linear(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = Matrix(weight, LAYER_BITS)
        self.bias = nn.Parameter(bias.clone())

    def forward(self, hidden: Tensor) -> Tensor:
        return functional.linear(hidden, self.weight(), self.bias)


class Layer(nn.Module):
    """Attention and feed-forward, each followed by a norm."""

    def __init__(self, weights: dict[str, Tensor], name: str, kept: Tensor, lost: Tensor) -> None:
        super().__init__()

        def both(part: str) -> tuple[Tensor, Tensor]:
            return weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"]

        matrices, biases = zip(*(both(f"attention.self.{part}") for part in ("query", "key", "value")), strict=True)
        up, up_bias = both("intermediate.dense")
        down, down_bias = both("output.dense")
        self.qkv = Linear(torch.cat(matrices), torch.cat(biases))
        self.out = Linear(*both("attention.output.dense"))
        self.attention = Norm(*both("attention.output.LayerNorm"))
        self.up = Linear(up[kept], up_bias[kept])
        self.down = Linear(down[:, kept], down_bias + lost)
        self.norm = Norm(*both("output.LayerNorm"))

    def forward(self, hidden: Tensor, seen: Tensor) -> Tensor:
        rows, length, _ = hidden.shape
        query, key, value = self.qkv(hidden).view(rows, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        hidden = self.attention(hidden + self.out(mixed.transpose(1, 2).reshape(rows, length, WIDTH)))
        inner = self.up(hidden)
        result: Tensor = self.norm(hidden + self.down(inner * (0.3 * inner + 0.5).clamp(0, 1)))
        return result


class Student(nn.Module):
    """The encoder that ships, as it learns."""

    def __init__(self, weights: dict[str, Tensor], kept: list[Tensor], lost: list[Tensor]) -> None:
        super().__init__()
        kinds = weights["embeddings.token_type_embeddings.weight"][0]
        self.words = Matrix(weights["embeddings.word_embeddings.weight"], WORD_BITS)
        self.positions = nn.Parameter(weights["embeddings.position_embeddings.weight"][:TOKENS] + kinds)
        self.norm = Norm(weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"])
        self.layers = nn.ModuleList(
            Layer(weights, f"encoder.layer.{number}", kept[number], lost[number]) for number in range(LAYERS)
        )

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the last layer says about every token, and the vector of every text."""
        hidden = self.norm(functional.embedding(ids, self.words()) + self.positions[: ids.shape[1]])
        seen = mask[:, None, None, :].bool()
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=ids.is_cuda):
            for layer in self.layers:
                hidden = layer(hidden, seen)
        return hidden, pool(hidden, mask)

    def snap(self) -> None:
        for module in self.modules():
            if isinstance(module, Matrix):
                module.snap()

    def parts(self, axes: Tensor) -> Parts:
        """Return everything that is packed, under the names of the format."""
        parts: Parts = {}
        for name, module in self.named_modules():
            name = name.removeprefix("layers.").removesuffix(".weight")
            if isinstance(module, Matrix):
                parts[name] = module.grid()
            elif isinstance(module, Linear | Norm):
                parts |= {f"{name}.{key}": _half(value) for key, value in module.named_parameters(recurse=False)}
        return {**parts, "positions": _half(self.positions), "axes": _half(axes)}


def _half(values: Tensor) -> Any:
    return values.detach().half().cpu().numpy()


def resume(weights: dict[str, Tensor], saved: dict[str, Tensor]) -> Student:
    """Return the student with parameters that were saved."""
    student = Student(weights, [torch.arange(INNER)] * LAYERS, [torch.zeros(WIDTH)] * LAYERS)
    student.load_state_dict(saved)
    return student


def begin(weights: dict[str, Tensor], ids: Tensor, mask: Tensor) -> Student:
    """Return the student before it learns: the teacher with the feed-forward neurons that matter most on some texts.

    A neuron matters by how much what it adds varies; the mean of what the others add moves into the bias.
    """
    device = ids.device
    teacher = Teacher(weights, device, torch.float32)
    kept, lost = [], []
    for number, (_, inner) in enumerate(teacher.layers(ids, mask)):
        down = weights[f"encoder.layer.{number}.output.dense.weight"].to(device)
        active = inner[mask.bool()]
        chosen = (active.std(0) * down.norm(dim=0)).topk(INNER).indices.sort().values
        rest = torch.ones(len(active[0]), dtype=torch.bool, device=device)
        rest[chosen] = False
        kept.append(chosen.cpu())
        lost.append((down[:, rest] @ active.mean(0)[rest]).cpu())
    return Student(weights, kept, lost)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return the teacher's weights: of the published file, or of pieces in float16 that were made from it."""
    if (folder / "model.safetensors").exists():
        check(folder)
    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    return {name: value.float() for name, value in found.items() if value.is_floating_point()}
