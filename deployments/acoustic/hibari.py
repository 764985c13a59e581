"""hibari's acoustic network: symbols -> durations, f0 and the vocoder's conditioning.

Architecture after hibari-tts 0.2.1 (Apache-2.0), read from its ONNX graph: two text encoders, each of
ConvNeXt blocks and one pre-norm transformer layer that is looped; one predicts durations and prosody, the
other what is said. All tensors are ``[B, T, C]``: T symbols, then T prosody frames at 40 a second, at last
F frames at 80 a second.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deployments.contracts import AcousticFeatures, SpeechItem
from deployments.hibari_blocks import ConvNeXtBlock, frozen
from deployments.hibari_weights import acoustic_state

_SYMBOLS = 178
_SUB_FRAMES = 2
"""Frames (80 a second) per prosody frame (40 a second)."""
_LENGTH_STEP = 32
"""Prosody frames are padded to a multiple of this, so that the allocator meets few sizes."""


class HibariAcoustic:
    """The acoustic stage's network of the hibari family."""

    max_symbols = 400

    def __init__(self) -> None:
        self._net = frozen(HibariAcousticNet, acoustic_state())

    def set_threads(self, threads: int) -> None:
        """Use this many threads for compute: torch's setting, which is the process's."""
        torch.set_num_threads(threads)

    @torch.inference_mode()
    def forward(self, padded_symbols: int, items: Sequence[SpeechItem]) -> list[AcousticFeatures]:
        """Features of a batch: ``cond`` ``[130, F]`` and ``f0`` ``[F]`` in Hz, F frames at 80 a second.

        Raises:
            ValueError: an utterance is empty or longer than ``padded_symbols``, or a speed is not positive.
        """
        lengths = [len(item.utterance.symbol_ids) for item in items]
        if not all(0 < length <= padded_symbols for length in lengths):
            raise ValueError(f"utterances of {lengths} symbols in a batch padded to {padded_symbols}")
        if not all(item.speed > 0 for item in items):
            raise ValueError(f"speeds must be positive: {[item.speed for item in items]}")
        ids = torch.zeros(len(items), padded_symbols, dtype=torch.long)
        for row, item in zip(ids, items, strict=True):
            row[: len(item.utterance.symbol_ids)] = torch.tensor(item.utterance.symbol_ids)
        speeds = torch.tensor([item.speed for item in items])
        cond, f0, frames = self._net(ids, torch.tensor(lengths), speeds)
        return [
            AcousticFeatures(
                frames=count,
                # Copies, so that no item keeps its batch alive.
                arrays={"cond": cond[i, :count].T.numpy().copy(), "f0": f0[i, :count].numpy().copy()},
                noise_key=(item.seed, item.utterance.start),
            )
            for i, (item, count) in enumerate(zip(items, frames.tolist(), strict=True))
        ]


class HibariAcousticNet(nn.Module):
    """Both encoders and the prosody: symbols to everything that the vocoder asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.content = TextEncoder(128, 256, passes=4)
        self.prosody = Prosody()

    def forward(self, ids: Tensor, lengths: Tensor, speeds: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A batch of symbols to frames; whatever the batch, an item's result is what it would be alone.

        Args:
            ids: ``[B, T]``, padded with anything.
            lengths: ``[B]``, symbols of each item.
            speeds: ``[B]``, speech rate.

        Returns:
            cond ``[B, F, 130]``, f0 ``[B, F]`` in Hz, frames ``[B]`` of each item; F is a common padded length.
        """
        exists = _mask(lengths, ids.shape[1])
        content = self.content(ids, exists)
        hidden = self.prosody.text(ids, exists)
        durations = self.prosody.durations(hidden, exists, speeds)
        symbol_of, counts = _expansion(durations)
        f0, energy = self.prosody.curves(_gathered(hidden, symbol_of), _mask(counts, symbol_of.shape[1]))
        content = _gathered(content, symbol_of).repeat_interleave(_SUB_FRAMES, dim=1)
        pitch = torch.log1p(F.relu(f0)) / 5
        cond = torch.cat([content, pitch.unsqueeze(2), energy.unsqueeze(2)], dim=2)
        return cond, f0, counts * _SUB_FRAMES


class Prosody(nn.Module):
    """Durations per symbol, then f0 and energy per frame."""

    def __init__(self) -> None:
        super().__init__()
        self.text = TextEncoder(192, 384, passes=6)
        self.dur = nn.ModuleList([nn.Conv1d(192, 192, 3, padding=1), nn.GELU(), nn.Linear(192, 1)])
        self.pro_in = nn.Linear(192, 192)
        self.pro = nn.ModuleList(ConvNeXtBlock(192, 384, 7, dilation) for dilation in (1, 2, 4, 8, 1, 2))
        self.pro_out = nn.Linear(192, 2 * _SUB_FRAMES)

    def durations(self, hidden: Tensor, exists: Tensor, speeds: Tensor) -> Tensor:
        """Prosody frames of each symbol, int64 ``[B, T]``: at least 1, and 0 where the item has ended.

        Args:
            hidden: ``[B, T, 192]``, zero where the item has ended.
            exists: ``[B, T, 1]``.
            speeds: ``[B]``.
        """
        conv, activation, out = self.dur
        logs = out(activation(conv(hidden.transpose(1, 2))).transpose(1, 2))
        lengths = ((torch.exp(logs) - 1) / speeds[:, None, None]).round().clamp(min=1)
        return (lengths * exists).squeeze(2).long()

    def curves(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """f0 in Hz and energy, each ``[B, 2T]``, of ``[B, T, 192]`` prosody frames."""
        x = self.pro_in(hidden).mul_(mask)
        for block in self.pro:
            x = block(x, mask)
        batch, length, _ = x.shape
        both = self.pro_out(x).view(batch, length, 2, _SUB_FRAMES).transpose(1, 2).reshape(batch, 2, -1)
        return both[:, 0] * 100, both[:, 1]


class TextEncoder(nn.Module):
    """Embedding, two ConvNeXt blocks, and one transformer layer, applied ``passes`` times."""

    def __init__(self, channels: int, hidden: int, passes: int) -> None:
        super().__init__()
        # Not nn.Embedding(…): drawing its initial values on the meta device imports 70 MB of torch for good.
        self.emb = nn.Embedding.from_pretrained(torch.empty(_SYMBOLS, channels))  # type: ignore[no-untyped-call]
        self.convs = nn.ModuleList(ConvNeXtBlock(channels, hidden, 5) for _ in range(2))
        self.attn = TransformerLayer(channels, hidden)
        self.norm = nn.LayerNorm(channels)
        self.passes = passes

    def forward(self, ids: Tensor, exists: Tensor) -> Tensor:
        """Symbols ``[B, T]`` -> ``[B, T, C]``, zero where ``exists`` (``[B, T, 1]``) is."""
        x = self.emb(ids) * exists
        for conv in self.convs:
            x = conv(x, exists)
        keys = exists.bool().transpose(1, 2).unsqueeze(1)
        for _ in range(self.passes):
            x = self.attn(x, keys)
        out: Tensor = self.norm(x) * exists
        return out


class TransformerLayer(nn.Module):
    """A pre-norm transformer layer ("Attention Is All You Need", Vaswani et al., 2017; norm first).

    torch's own layer takes another path with masks than without; this one has one path.
    """

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels)
        self.self_attn = SelfAttention(channels, heads=2)
        self.norm2 = nn.LayerNorm(channels)
        self.linear1 = nn.Linear(channels, hidden)
        self.linear2 = nn.Linear(hidden, channels)

    def forward(self, x: Tensor, keys: Tensor) -> Tensor:
        """``[B, T, C]`` -> ``[B, T, C]``; ``keys`` is bool ``[B, 1, 1, T]``, true where a symbol exists."""
        x = x + self.self_attn(self.norm1(x), keys)
        out: Tensor = x + self.linear2(F.gelu(self.linear1(self.norm2(x))))
        return out


class SelfAttention(nn.Module):
    """Multi-head self-attention with the parameter names of ``nn.MultiheadAttention``."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(3 * channels, channels))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * channels))
        self.out_proj = nn.Linear(channels, channels)
        self.heads = heads

    def forward(self, x: Tensor, keys: Tensor) -> Tensor:
        batch, length, channels = x.shape
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keys)
        out: Tensor = self.out_proj(y.transpose(1, 2).reshape(batch, length, channels))
        return out


def _mask(lengths: Tensor, padded: int) -> Tensor:
    """float32 ``[B, padded, 1]``: 1 within each item, 0 beyond."""
    return (torch.arange(padded) < lengths[:, None]).float().unsqueeze(2)


def _expansion(durations: Tensor) -> tuple[Tensor, Tensor]:
    """Which symbol each frame belongs to.

    Args:
        durations: int64 ``[B, T]``, frames of each symbol.

    Returns:
        int64 ``[B, N]``, N a common padded length (the last symbol is repeated), and the true lengths ``[B]``.
    """
    ends = durations.cumsum(1)
    counts = ends[:, -1].contiguous()
    padded = -(-int(counts.max()) // _LENGTH_STEP) * _LENGTH_STEP
    frames = torch.arange(padded).expand(len(durations), -1).contiguous()
    return torch.searchsorted(ends, frames, right=True).clamp_(max=durations.shape[1] - 1), counts


def _gathered(x: Tensor, index: Tensor) -> Tensor:
    """``[B, T, C]`` at ``[B, N]`` -> ``[B, N, C]``."""
    return x.gather(1, index.unsqueeze(2).expand(-1, -1, x.shape[2]))
