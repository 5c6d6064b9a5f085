"""Where Gaussian noise lives.

`onehot` and `projected` are the same law: noise on the one-hot vector in R^V, seen by the network through W.
`onehot` holds the V-sized vector; `projected` only its image y = W^T x~ in R^D, because W^T eps ~ N(0, W^T W).
`embedding` adds isotropic noise to the token vectors themselves.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from candi.base.rng import Rng
from candi.base.types import Hidden, LogProbs, Mask, PerToken, Times, Tokens, Values
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.prediction import Prediction
from candi.diffusion.readout import chunks


class Space(ABC):
    isotropic: ClassVar[bool] = False  # is the noise that the network sees the same in all directions?

    def __init__(self, embedding: TokenEmbedding) -> None:
        self.embedding = embedding

    @property
    @abstractmethod
    def power(self) -> float:
        """E|noise|^2 as the network sees it, at unit sigma."""

    @abstractmethod
    def point(self, tokens: Tokens) -> Values:
        """The noiseless place of each token."""

    @abstractmethod
    def noise(self, shape: torch.Size, rng: Rng) -> Values:
        """Noise of unit sigma for [B, L] positions."""

    @abstractmethod
    def hidden(self, values: Values) -> Hidden:
        """What the network sees of the values: y [B, L, D]."""

    @abstractmethod
    def expect(self, prediction: Prediction) -> Values:
        """E[point(x0)] under the prediction; zero at positions that are not open."""

    @abstractmethod
    def gap(self, prediction: Prediction, x0: Tokens) -> PerToken:
        """|point(x0) - E[point]|^2 at open positions, in the metric of the noise."""

    def size(self, tokens: Tokens) -> PerToken:
        """|point|^2 in the metric of the noise: 1 for unit vectors."""
        return torch.ones_like(tokens, dtype=self.embedding.weight.dtype)

    def image(self, change: LogProbs) -> Values:
        """A change of the one-hot vectors [B, L, V] as it is seen in this space: c W."""
        return change.to(self.embedding.weight.dtype) @ self.embedding.directions()

    @abstractmethod
    def log_density(self, values: Values, sigma_t: Times) -> LogProbs:
        """log q(values | x0 = v) for every v, up to a constant in v."""

    @property
    def recordable(self) -> bool:
        """Whether making noise is the same work in every step of training."""
        return True

    def invalidate_caches(self) -> None:  # noqa: B027 - most spaces cache nothing
        """Drop what was computed from the token vectors."""

    def nearest(self, values: Values, where: Mask) -> Tokens:
        """The likeliest token, argmax_v q(values | x0 = v): what noise looks like just now.

        In one-hot noise that is the argmax of the noisy one-hot vector, in isotropic noise of the products y.w_v.
        """
        rows, size = values[where], self.embedding.vocab_size
        parts = [self.likeliest(rows[part]) for part in chunks(len(rows), size, rows.device)]
        return torch.zeros_like(where, dtype=torch.long).index_put((where,), torch.cat(parts))

    def likeliest(self, rows: Float[Tensor, "N K"]) -> Int[Tensor, "N"]:
        """argmax_v log q(row | x0 = v), which no sigma changes."""
        return self.log_density(rows[None], rows.new_ones(1))[0].argmax(-1)


class OneHot(Space):
    """x~ = onehot(x) + sigma eps in R^V, held explicitly. The reference; for small V."""

    @property
    def power(self) -> float:
        return float(self.embedding.vocab_size)  # E|W^T eps|^2 = tr(W^T W) = V, rows being unit vectors

    def point(self, tokens: Tokens) -> Values:
        return F.one_hot(tokens, self.embedding.vocab_size).to(self.embedding.weight.dtype)

    def noise(self, shape: torch.Size, rng: Rng) -> Values:
        return rng.normal(*shape, self.embedding.vocab_size, dtype=self.embedding.weight.dtype)

    def hidden(self, values: Values) -> Hidden:
        with _full_precision(values):
            return values @ self.embedding.directions()

    def expect(self, prediction: Prediction) -> Values:
        return prediction.log_probs().exp()

    def gap(self, prediction: Prediction, x0: Tokens) -> PerToken:
        return onehot_gap(prediction, x0)

    def image(self, change: LogProbs) -> Values:
        return change.to(self.embedding.weight.dtype)

    def log_density(self, values: Values, sigma_t: Times) -> LogProbs:
        return values / sigma_t.square()[:, None, None]  # -|x~ - e_v|^2 / 2 = x~_v + terms without v


class Projected(Space):
    """y = w_x + sigma C z with C = chol(W^T W): the image of one-hot noise, with no tensor of size V."""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__(embedding)
        self._factor: tuple[tuple[object, ...], Tensor] | None = None
        self._pinv: tuple[tuple[object, ...], Tensor, Tensor] | None = None

    @property
    def power(self) -> float:
        return float(self.embedding.vocab_size)

    def point(self, tokens: Tokens) -> Values:
        return self.embedding.direction(tokens)

    def noise(self, shape: torch.Size, rng: Rng) -> Values:
        weight = self.embedding.weight
        with _full_precision(weight):
            if self.embedding.vocab_size <= self.embedding.width:
                # W^T W is singular here, and eps in R^V is the smaller of the two
                return rng.normal(*shape, self.embedding.vocab_size, dtype=weight.dtype) @ self.embedding.directions()
            noise: Tensor = _GramNoise.apply(
                weight, self.factor(), rng.normal(*shape, self.embedding.width, dtype=weight.dtype)
            )
            return noise

    @property
    def recordable(self) -> bool:
        return self.embedding.vocab_size <= self.embedding.width  # else there is a factor, which is kept or made anew

    def hidden(self, values: Values) -> Hidden:
        return values

    def expect(self, prediction: Prediction) -> Values:
        return prediction.mean(self.embedding.directions())

    def gap(self, prediction: Prediction, x0: Tokens) -> PerToken:
        """d G^+ d with d = w_x0 - E[w]. For V <= D y determines x~, and it is the gap of the one-hot vectors."""
        if self.embedding.vocab_size <= self.embedding.width:
            return onehot_gap(prediction, x0)
        rows = self.embedding.directions()
        with _full_precision(rows):
            inverse = torch.linalg.pinv((rows.T @ rows).double(), hermitian=True).to(rows.dtype)
        return table_gap(prediction, x0, rows, inverse)

    def size(self, tokens: Tokens) -> PerToken:
        return self._whitened()[1][tokens]

    def log_density(self, values: Values, sigma_t: Times) -> LogProbs:
        """-(y - w_v)^T G^+ (y - w_v) / 2 = y G^+ w_v - w_v G^+ w_v / 2 + a term without v, G = W^T W.

        For independent rows, which V <= D allows, y G^+ w_v is the noisy one-hot vector itself, y = x~ W, and
        w_v G^+ w_v = 1. Beyond, y does not determine it, and this is all that y says of the token.
        """
        whitened, own = self._whitened()
        return (values @ whitened.T - own / 2) / sigma_t.square()[:, None, None]

    def _whitened(self) -> tuple[Float[Tensor, "V D"], Float[Tensor, "V"]]:
        """W G^+ = pinv(W)^T, and w_v G^+ w_v."""
        key = self._key()
        if self._pinv is None or self._pinv[0] != key:
            rows = self.embedding.directions().detach().double()
            if len(rows) <= rows.shape[1]:
                whitened = torch.linalg.pinv(rows).T
            else:  # G is the smaller matrix
                whitened = rows @ torch.linalg.pinv(rows.T @ rows, hermitian=True)
            own = (whitened * rows).sum(-1)
            self._pinv = key, whitened.to(self.embedding.weight.dtype), own.to(self.embedding.weight.dtype)
        return self._pinv[1:]

    def factor(self) -> Tensor:
        """C, with C C^T = W^T W: once for all noise that is made with the same weights, in training and in sampling."""
        key = self._key()
        if self._factor is None or self._factor[0] != key:
            self._factor = key, _cholesky_of_gram(self.embedding.weight.detach())
        return self._factor[1]

    def _key(self) -> tuple[object, ...]:
        """Which weights these are."""
        weight = self.embedding.weight
        return weight.data_ptr(), weight._version, weight.device, weight.dtype

    def invalidate_caches(self) -> None:
        self._factor = self._pinv = None


class Embedding(Space):
    """y = w_x + sigma z with isotropic z: rank degradation means the same at any V."""

    isotropic = True

    @property
    def power(self) -> float:
        return float(self.embedding.width)

    def point(self, tokens: Tokens) -> Values:
        return self.embedding.direction(tokens)

    def noise(self, shape: torch.Size, rng: Rng) -> Values:
        return rng.normal(*shape, self.embedding.width, dtype=self.embedding.weight.dtype)

    def hidden(self, values: Values) -> Hidden:
        return values

    def expect(self, prediction: Prediction) -> Values:
        return prediction.mean(self.embedding.directions())

    def gap(self, prediction: Prediction, x0: Tokens) -> PerToken:
        return table_gap(prediction, x0, self.embedding.directions())

    def log_density(self, values: Values, sigma_t: Times) -> LogProbs:
        return values @ self.embedding.directions().T / sigma_t.square()[:, None, None]  # unit rows: |w_v|^2 drops out


def onehot_gap(prediction: Prediction, x0: Tokens) -> PerToken:
    """|onehot(x0) - p|^2 = 1 - 2 p_x0 + sum_v p_v^2."""

    def of(log_p: Float[Tensor, "N V"], tokens: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
        p = log_p.exp()
        return 1 - 2 * p.gather(-1, tokens[:, None])[:, 0] + p.square().sum(-1)

    return prediction.reduce(of, x0)


def table_gap(
    prediction: Prediction, x0: Tokens, table: Float[Tensor, "V D"], metric: Float[Tensor, "D D"] | None = None
) -> PerToken:
    """d M d with d = w_x0 - sum_v p_v w_v."""

    def of(log_p: Float[Tensor, "N V"], tokens: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
        with _full_precision(log_p):
            difference = table[tokens] - log_p.exp().to(table.dtype) @ table
            return (difference * (difference if metric is None else difference @ metric)).sum(-1)

    return prediction.reduce(of, x0)


SPACES: Mapping[str, type[Space]] = {"onehot": OneHot, "projected": Projected, "embedding": Embedding}


def _full_precision(like: Tensor) -> torch.autocast:
    """Noise keeps the precision of the parameters, also inside bf16 autocast."""
    return torch.autocast(like.device.type, enabled=False)


def _rows_at_once(weight: Tensor) -> int:
    """A CPU holds no second table of V rows; a GPU does one large product."""
    return len(weight) if weight.is_cuda else 4096


def _cholesky_of_gram(weight: Tensor) -> Tensor:
    """C [D, D] with C C^T = W^T W of the normalised rows."""
    gram = weight.new_zeros(weight.shape[1], weight.shape[1])
    for part in weight.split(_rows_at_once(weight)):
        unit = F.normalize(part, dim=-1)
        gram.addmm_(unit.T, unit)
    gram.diagonal().add_(1e-6 * gram.diagonal().mean())  # a millionth of the mean eigenvalue keeps float32 safe
    # no check for a matrix that is not positive: it would wait for the device, and the jitter has seen to it
    return torch.linalg.cholesky_ex(gram).L


class _GramNoise(torch.autograd.Function):
    """n = C z, with the gradient of its law. The factor itself need not be differentiated:

    n(W) = (I + (G(W) - G_0) G_0^-1 / 2) C z has covariance G(W) up to second order around the weights at hand, so its
    gradient is an exact reparametrisation: dL/dG = sum g (G_0^-1 n)^T / 2 with G_0^-1 n = C^-T z, and with u = w/|w|,
    G = sum u u^T: du = (dG + dG^T) u, dw = (du - u (u.du))/|w|.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, factor: Tensor, z: Tensor) -> Tensor:
        ctx.save_for_backward(weight, factor, z)
        return z @ factor.T

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        weight, factor, z = ctx.saved_tensors
        identity = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
        slope = upstream.flatten(0, -2).T @ (z.flatten(0, -2) @ inverse) / 2  # rows of z C^-1 are C^-T z
        slope = slope + slope.T
        out = torch.empty_like(weight)
        for part, target in zip(weight.split(_rows_at_once(weight)), out.split(_rows_at_once(weight)), strict=True):
            length = part.norm(dim=-1, keepdim=True)
            unit = part / length
            pull = unit @ slope
            pull -= unit * (unit * pull).sum(-1, keepdim=True)
            torch.div(pull, length, out=target)
        return out, None, None
