"""Guidance by any classifier: its gradient is added to the score.

score + w g, that is X^0 <- X^0 + w sigma_t^2 g at noisy positions, g = d log p(y | x) / d x at the one-hot vectors that
the noisy state looks like just now (known positions hold their token). The classifier need not know noise.
"""

from dataclasses import dataclass, replace

from candi.base.errors import UserError
from candi.diffusion.guidance.base import Context, LogProbability, gradient, with_context
from candi.diffusion.methods.base import Method
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import Denoise, Step
from candi.diffusion.schedules import over_positions
from candi.diffusion.state import State


@dataclass(frozen=True)
class GradientGuidance:
    """For methods with Gaussian noise. `reveal` also tilts what is drawn: p(x0_i = v) ~ p_v exp(reveal g[i, v])."""

    classifier: LogProbability
    weight: float
    reveal: float = 0.0
    context: Context | None = None

    def behind(self, context: Context) -> "GradientGuidance":
        return replace(self, context=context)

    def over(self, method: Method, denoise: Denoise, step: Step) -> tuple[Denoise, Step]:
        gaussian = method.gaussian()
        if gaussian is None:
            raise UserError(
                f"{type(method).__name__} has no Gaussian noise to add a gradient to; guide it with discrete guidance "
                "and a classifier that knows its noise."
            )
        space, sigma = gaussian
        size = method.embedding.vocab_size

        def denoise_guided(state: State) -> Prediction:
            tokens = with_context(self.context, method.decode(state))
            slope = gradient(self.classifier, tokens, size, state.t)[1][:, -state.known.shape[1] :]
            prediction = denoise(state)
            if self.reveal:
                prediction = prediction.tilted(self.reveal * slope)
            return prediction.shifted(over_positions(sigma(state.u).square()) * self.weight * space.image(slope))

        return denoise_guided, step
