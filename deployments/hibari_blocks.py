"""What hibari's two networks share: a ConvNeXt block over time, and the strict loading of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deployments.contracts import Float32

Network = TypeVar("Network", bound=nn.Module)


class DepthwiseConv(nn.Module):
    """A convolution over time, each channel by itself; ``[B, T, C]`` -> ``[B, T - 2 * reach, C]``.

    One multiply-add per tap. On a CPU that is as fast as a library convolution in this layout (which the
    matrix products around it want), three times as fast with dilation, and keeps no primitive per shape.
    """

    def __init__(self, channels: int, taps: int, dilation: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(taps, channels))
        self.bias = nn.Parameter(torch.empty(channels))
        self.dilation = dilation

    def forward(self, x: Tensor) -> Tensor:
        taps, step = self.weight.shape[0], self.dilation
        length = x.shape[1] - (taps - 1) * step
        y = torch.addcmul(self.bias, x[:, :length], self.weight[0])
        for k in range(1, taps):
            y.addcmul_(x[:, k * step : k * step + length], self.weight[k])
        return y


class ConvNeXtBlock(nn.Module):
    """``x + γ · W₂ gelu(W₁ norm(dwconv(x)))``: the block of "A ConvNet for the 2020s" (Liu et al., 2022),
    over time as in Vocos (Siuzdak, 2023).

    Args:
        padded: with zeros around the input, the output is as long as the input; without, it is ``reach``
            shorter on each side, so that no work is spent on what a window's edge could not know anyway.
    """

    def __init__(
        self, channels: int, hidden: int, taps: int, dilation: int = 1, *, padded: bool = True
    ) -> None:
        super().__init__()
        self.dw = DepthwiseConv(channels, taps, dilation)
        self.norm = nn.LayerNorm(channels)
        self.pw1 = nn.Linear(channels, hidden)
        self.pw2 = nn.Linear(hidden, channels)
        self.gamma = nn.Parameter(torch.empty(channels))
        self.reach = dilation * (taps // 2)
        self.padded = padded

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``[B, T, C]`` -> ``[B, T', C]``; T' is T, or T - 2 * reach if not padded.

        Args:
            mask: ``[B, T', 1]``, 0 where the item has ended, so that the next block's convolution sees the
                zeros that it would see around the item alone. None when every frame exists.
        """
        reach = self.reach
        if self.padded:
            y = self.dw(F.pad(x, (0, 0, reach, reach)))
        else:
            y = self.dw(x)
            x = x[:, reach : x.shape[1] - reach]
        y = self.pw2(F.gelu(self.pw1(self.norm(y))))
        y = torch.addcmul(x, y, self.gamma)
        return y if mask is None else y.mul_(mask)


def frozen(build: Callable[[], Network], state: Mapping[str, Float32]) -> Network:
    """A network for inference, made of exactly the tensors in ``state``, which it keeps without a copy.

    Raises:
        RuntimeError: a tensor is missing, left over, or of the wrong shape; the message names it.
    """
    with torch.device("meta"):
        network = build()
    network.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()}, strict=True, assign=True)
    return network.requires_grad_(False).eval()
