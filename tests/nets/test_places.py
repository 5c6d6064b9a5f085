import pytest
import torch

from candi.nets.places import Places, room_for


class _Roomy(Places):
    """With room on a CPU too, which otherwise needs none."""

    def __init__(self, open, room):
        super().__init__(open)
        self.room = room


OPEN = torch.tensor([[True, False, True], [False, False, True]])


@pytest.mark.parametrize("places", [Places(OPEN), _Roomy(OPEN, 3), _Roomy(OPEN, 5), _Roomy(OPEN, 100)])
def test_take_and_spread_are_indexing_by_the_mask_and_back(places):
    values = torch.arange(12.0).view(2, 3, 2)
    assert torch.equal(places.take(values)[:3], values[OPEN])
    assert torch.equal(places.spread(places.take(values)), values * OPEN[..., None])


@pytest.mark.parametrize("places", [Places(OPEN), _Roomy(OPEN, 5)])
def test_gradients_are_those_of_indexing(places):
    values = torch.randn(2, 3, 2, requires_grad=True)
    weight = torch.randn(2, 3, 2)
    (places.spread(places.take(values).square()) * weight).sum().backward()
    assert torch.allclose(values.grad, 2 * values * weight * OPEN[..., None])


def test_nothing_open():
    places = Places(torch.zeros(2, 3, dtype=torch.bool))
    assert places.take(torch.ones(2, 3, 4)).shape == (0, 4)
    assert torch.equal(places.spread(torch.ones(0, 4)), torch.zeros(2, 3, 4))


def test_more_open_than_there_is_room_for_is_refused():
    with pytest.raises(RuntimeError):
        _Roomy(OPEN, 2).take(torch.ones(2, 3))


def test_room_is_enough_and_not_much_more():
    """Of 2,000 batches of 16 rows at stratified times none overflows, and less than an eighth of the room is idle."""
    generator = torch.Generator().manual_seed(0)
    share = (torch.arange(16) + 1) / 16
    room = room_for(share, 1024)
    t = (torch.arange(16) + torch.rand(2000, 16, generator=generator)) / 16
    open = torch.stack([torch.binomial(torch.full((2000,), 1024.0), t[:, i], generator=generator) for i in range(16)])
    assert float(open.sum(0).max()) < room < 1.14 * float(open.sum(0).mean())
    assert room_for(torch.ones(4), 100) == 400
