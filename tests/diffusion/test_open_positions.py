import pytest
import torch

from candi.diffusion.open_positions import OpenPositions, capacity_for


class _WithCapacity(OpenPositions):
    """With a capacity on a CPU too, which otherwise needs none."""

    def __init__(self, open, capacity):
        super().__init__(open)
        self.capacity = capacity


OPEN = torch.tensor([[True, False, True], [False, False, True]])


@pytest.mark.parametrize("positions", [OpenPositions(OPEN), *(_WithCapacity(OPEN, n) for n in (3, 5, 100))])
def test_gather_and_scatter_are_indexing_by_the_mask_and_back(positions):
    values = torch.arange(12.0).view(2, 3, 2)
    assert torch.equal(positions.gather(values)[:3], values[OPEN])
    assert torch.equal(positions.scatter(positions.gather(values)), values * OPEN[..., None])


@pytest.mark.parametrize("positions", [OpenPositions(OPEN), _WithCapacity(OPEN, 5)])
def test_gradients_are_those_of_indexing(positions):
    values = torch.randn(2, 3, 2, requires_grad=True)
    weight = torch.randn(2, 3, 2)
    (positions.scatter(positions.gather(values).square()) * weight).sum().backward()
    assert torch.allclose(values.grad, 2 * values * weight * OPEN[..., None])


def test_nothing_open():
    positions = OpenPositions(torch.zeros(2, 3, dtype=torch.bool))
    assert positions.gather(torch.ones(2, 3, 4)).shape == (0, 4)
    assert torch.equal(positions.scatter(torch.ones(0, 4)), torch.zeros(2, 3, 4))


def test_more_open_than_the_capacity_is_refused():
    with pytest.raises(RuntimeError):
        _WithCapacity(OPEN, 2).gather(torch.ones(2, 3))


def test_the_capacity_is_enough_and_not_much_more():
    """Of 2,000 batches of 16 rows at stratified times none overflows, and less than an eighth of it is idle."""
    generator = torch.Generator().manual_seed(0)
    fraction = (torch.arange(16) + 1) / 16
    capacity = capacity_for(fraction, 1024)
    t = (torch.arange(16) + torch.rand(2000, 16, generator=generator)) / 16
    open = torch.stack([torch.binomial(torch.full((2000,), 1024.0), t[:, i], generator=generator) for i in range(16)])
    assert float(open.sum(0).max()) < capacity < 1.14 * float(open.sum(0).mean())
    assert capacity_for(torch.ones(4), 100) == 400
