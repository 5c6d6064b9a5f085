"""Which guidance a run takes with a classifier: by gradient where there is Gaussian noise, discrete elsewhere."""

from candi.base.errors import UserError
from candi.diffusion.guidance.base import Guidance, LogProbability
from candi.diffusion.guidance.discrete import DiscreteGuidance
from candi.diffusion.guidance.gradient import GradientGuidance
from candi.diffusion.methods.base import Method


def guide_for(
    method: Method, classifier: LogProbability, weight: float, *, reveal: float = 0.0, first_order: bool = True
) -> Guidance:
    if method.gaussian() is not None:
        return GradientGuidance(classifier, weight, reveal)
    if method.extra_symbols is None:
        raise UserError(f"{type(method).__name__} cannot be guided by a classifier; train it with --label instead.")
    if reveal:
        raise UserError(f"{type(method).__name__} has no gradient to tilt what is revealed by; leave out --reveal.")
    return DiscreteGuidance(classifier, weight, first_order)
