"""CANDI as one would write it down from the paper: the measure of what our path saves.

One-hot noise [B, L, V] is made and multiplied by W; logits are made at every position; draws are a dense exponential
race in float64; nothing is compiled. Trunk, sizes and precision are the same as ours.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from candi.diffusion.schedules import RankLinear
from candi.nets.dit import DiT, DiTSettings


class Plain(nn.Module):
    def __init__(self, vocab_size: int, trunk: DiTSettings) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, trunk.width))
        self.mask_vector = nn.Parameter(torch.randn(trunk.width))
        self.trunk = DiT(trunk)
        self.head = nn.Linear(trunk.width, vocab_size)
        self.sigma, self.vocab_size = RankLinear(0.05, 0.25), vocab_size

    def logits(self, x: Tensor, tokens: Tensor, known: Tensor, t: Tensor) -> Tensor:
        rows, sigma = F.normalize(self.weight, dim=-1), self.sigma(t)[:, None, None]
        noisy = torch.lerp(
            x @ rows / (1 + sigma.square() * self.vocab_size).sqrt(), F.normalize(self.mask_vector, dim=0), 0.5
        )
        hidden = torch.where(known[..., None], rows[tokens], noisy)
        out: Tensor = self.head(self.trunk(hidden, -torch.log(1 - 0.999 * t)))
        return out

    def loss(self, x0: Tensor) -> Tensor:
        t = torch.rand(len(x0), device=x0.device).clamp(min=1e-3)
        known = torch.rand(x0.shape, device=x0.device) > t[:, None]
        clean = F.one_hot(x0, self.vocab_size).float()
        x = clean + self.sigma(t)[:, None, None] * torch.randn_like(clean)
        losses = F.cross_entropy(self.logits(x, x0, known, t).float().transpose(1, 2), x0, reduction="none")
        return (losses * ~known / t[:, None]).mean()

    @torch.no_grad()
    def sample(self, n: int, length: int, steps: int, exact: bool) -> Tensor:
        device = self.weight.device
        t = torch.ones(n, device=device)
        x = self.sigma(t)[:, None, None] * torch.randn(n, length, self.vocab_size, device=device)
        tokens = torch.zeros(n, length, dtype=torch.long, device=device)
        known = torch.zeros(n, length, dtype=torch.bool, device=device)
        for step in range(steps, 0, -1):
            t, s = torch.full_like(t, step / steps), torch.full_like(t, (step - 1) / steps)
            p = torch.softmax(self.logits(x, tokens, known, t).double(), -1)
            drawn = (p / torch.empty_like(p).exponential_()).argmax(-1)
            revealed = ~known & (torch.rand(known.shape, device=device) < 1 / step)
            target = p.float() if exact else F.one_hot(drawn, self.vocab_size).float()
            x = target + (self.sigma(s) / self.sigma(t))[:, None, None] * (x - target)
            tokens, known = torch.where(revealed, drawn, tokens), known | revealed
        return tokens


class PlainTraining:
    """AdamW, clipping and averaging around it, parameter by parameter."""

    def __init__(self, model: Plain, autocast: bool) -> None:
        self.model, self.autocast = model, autocast
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)
        self.average = [parameter.detach().clone() for parameter in model.parameters()]

    def step(self, x0: Tensor) -> None:
        with torch.autocast(x0.device.type, torch.bfloat16, enabled=self.autocast):
            loss = self.model.loss(x0)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            for shadow, parameter in zip(self.average, self.model.parameters(), strict=True):
                shadow.mul_(0.9999).add_(parameter, alpha=1e-4)
