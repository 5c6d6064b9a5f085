"""What is minimised: at which times, and what of the labels the network is told."""

import math

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.open_positions import capacity_for
from candi.nets.dit import DiTSettings
from candi.nets.labels import LabelEmbedding
from candi.training.objective import T_MIN, DenoisingObjective, stratified
from tests.toys import denoiser_of

TRUNK = DiTSettings(width=16, blocks=1, heads=2, conditioning=8)


class _Fixed(Rng):
    """Uniform numbers that are what a test wants them to be."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values, self.device = values, torch.device("cpu")

    def uniform(self, *shape, dtype=torch.float32):
        return self.values.to(dtype).expand(shape)


def test_times_by_hand():
    """t_i = t_min + (1 - t_min)(i + u)/B, over the whole global batch of which these are two rows."""
    times = stratified([1, 3], 4, _Fixed(torch.tensor(0.5)))
    assert times.tolist() == pytest.approx([0.001 + 0.999 * 0.375, 0.001 + 0.999 * 0.875])
    assert T_MIN == 1e-3
    assert stratified([0], 4, _Fixed(torch.tensor(0.0))).tolist() == pytest.approx([1e-3])


def test_the_loss_is_the_methods_own_at_those_times():
    denoiser = denoiser_of("candi", 11, TRUNK)
    torch.nn.init.normal_(denoiser.head.weight)
    x0 = torch.randint(11, (4, 6))
    found = DenoisingObjective(denoiser)(x0, [4, 5, 6, 7], 8, Rng.from_seed(3))
    rng = Rng.from_seed(3)
    state = denoiser.method.corrupt(x0, stratified([4, 5, 6, 7], 8, rng), rng)
    torch.testing.assert_close(found, denoiser.method.loss(denoiser(state), state, x0))
    assert int((found > 0).sum()) == int((~state.known).sum()) > 0


def test_a_share_of_the_labels_is_hidden_in_training_alone(monkeypatch):
    """2,000 rows, four standard errors. Label 2 of 2 stands for none."""
    denoiser = denoiser_of("mdlm", 11, TRUNK, label="rings")
    told = []
    predict = denoiser.predict
    monkeypatch.setattr(
        denoiser, "predict", lambda f, state, label, *more: told.append(label) or predict(f, state, label, *more)
    )
    x0, label = torch.randint(11, (2000, 4)), torch.arange(2000)[:, None] % 2
    objective = DenoisingObjective(denoiser, label_dropout=0.2)
    for training in (True, False):
        objective.train(training)(x0, range(2000), 2000, Rng.from_seed(0), label)
    hidden = told[0] != label
    assert (told[0][hidden] == 2).all()
    assert abs(float(hidden.double().mean()) - 0.2) < 4 * math.sqrt(0.2 * 0.8 / 2000)
    assert torch.equal(told[1], label)


def test_some_rows_have_none_of_several_labels():
    """Each label is hidden by itself, and all of them at once: 1 - .8 (1 - .2^3) of rows, four standard errors."""
    embedding = LabelEmbedding([2, 3, 4], 8)
    denoiser = denoiser_of("mdlm", 11, TRUNK, label="rings")
    denoiser.labels = LabelEmbedding([2, 3, 4], TRUNK.conditioning)
    told = []
    denoiser.predict = lambda f, state, label, *more, predict=denoiser.predict: (
        told.append(label) or predict(f, state, label, *more)
    )
    x0, label = torch.randint(11, (4000, 4)), torch.zeros(4000, 3, dtype=torch.long)
    DenoisingObjective(denoiser, label_dropout=0.2).train()(x0, range(4000), 4000, Rng.from_seed(0), label)
    none = told[0] == embedding.none(x0[:, 0])
    everywhere, share = float(none.all(-1).double().mean()), 1 - 0.8 * (1 - 0.2**3)
    assert abs(everywhere - share) < 4 * math.sqrt(share * (1 - share) / 4000)
    assert 0.3 < float(none.double().mean()) < 0.42  # 1 - .8^2


def test_a_step_of_training_tells_the_method_how_far_it_is():
    objective = DenoisingObjective(denoiser_of("duo", 11, TRUNK))
    objective.begin_step(0.25)
    assert objective.denoiser.method.progress == 0.25


@pytest.mark.parametrize("name", ["mdlm", "candi"])
def test_room_is_made_for_the_latest_times_that_the_rows_can_have(monkeypatch, name):
    """A GPU is told beforehand how many positions are open at most: too few would end the run."""
    told = []
    method = (denoiser := denoiser_of(name, 11, TRUNK)).method
    count = lambda share, length: told.append(share) or capacity_for(share, length)  # noqa: E731
    monkeypatch.setattr("candi.training.objective.capacity_for", count)
    DenoisingObjective(denoiser)(torch.randint(11, (2, 6)), [1, 3], 4, Rng.from_seed(0))
    latest = stratified([1, 3], 4, _Fixed(torch.tensor(1.0)))
    torch.testing.assert_close(told[0].float(), method.corrupted_fraction(latest))
