"""Texts of any length, written block by block by a model: its cache, its end, its pieces, its guidance."""

import math
from dataclasses import replace

import pytest
import torch

from candi.base.errors import UserError
from candi.base.labels import Label
from candi.data.pieces import Piece
from candi.data.tokenizer import Tokenizer
from candi.diffusion.guidance import DiscreteGuidance, GradientGuidance
from candi.diffusion.methods import METHODS
from candi.evaluation.answers import continuations
from candi.evaluation.progress import SweepProgress
from candi.evaluation.samples import make
from candi.model.model import Model, Template
from candi.model.trace import PositionKind, trace
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.views.frames import frames
from tests.evaluation.test_compare import CELL

LENGTH, BLOCK = 16, 4
PLAIN = Tokenizer.characters([Piece("abcdefgh", False)])
ENDED = Tokenizer.characters([Piece("abcdefgh", True)], rows=True)


def _model(name: str = "mdlm", tokenizer: Tokenizer = PLAIN, **changes) -> Model:
    torch.manual_seed(0)
    settings = METHODS[name]()
    settings = replace(settings, rank_min=0.1, rank_max=0.4) if name == "candi" else settings
    trunk = DiTSettings(width=16, blocks=2, heads=2, conditioning=8, convolution=3)
    values = {"block": BLOCK, **changes}
    denoiser = Denoiser.build(ModelConfig(tokenizer.vocab_size, LENGTH, name, settings, trunk, **values)).eval()
    for parameter in denoiser.parameters():  # gates begin at 0; large enough that a block depends on those before it
        parameter.data.add_(0.5 * torch.randn_like(parameter))
    return Model(denoiser, tokenizer)


@pytest.mark.parametrize("length", [5, LENGTH, 3 * LENGTH + 2])
@pytest.mark.parametrize("name", sorted(set(METHODS) - {"ar"}))
def test_any_length_with_and_without_the_cache(name, length):
    """The same tokens; in the longest the window slides twice."""
    model = _model(name)
    cached, uncached = (model.sample(3, length=length, seed=1, steps=3, cache=cache) for cache in (True, False))
    assert cached.shape == (3, length)
    assert torch.equal(cached, uncached)


def test_a_block_depends_on_those_before_it():
    model = _model()
    one, two = (model.sample(8, length=8, seed=1, prompt=prompt)[:, 4:] for prompt in ("aaaa", "hhhh"))
    assert not torch.equal(one, two)


def test_what_is_older_than_the_window_is_forgotten():
    """Where the window is full, its older half is: block 5 sees blocks 3 and 4 (counted from 1), and nothing else."""
    model = _model()
    far, near = "aaaa" * 2 + "bcde" * 2, "hhhh" * 2 + "bcde" * 2
    one, two = (model.sample(6, length=20, seed=1, prompt=prompt)[:, 16:] for prompt in (far, near))
    assert torch.equal(one, two)
    three = model.sample(6, length=20, seed=1, prompt="aaaa" * 3 + "bcde")[:, 16:]
    assert not torch.equal(one, three)


@pytest.mark.parametrize("prompt", ["", "a", "abcd", "abcdef", "abcdefgh" * 5])
def test_prompts_of_any_length(prompt):
    """In the middle of a block, at its end, longer than the window."""
    texts = _model("candi").generate(2, prompt=prompt, length=len(prompt) + 6, steps=2)
    assert all(text.startswith(prompt) and len(text) == len(prompt) + 6 for text in texts)


def test_infilling_inside_blocks():
    texts = _model().generate(3, infill="a__d__gh_", steps=2)
    assert all((t[0], t[3], t[6:8], len(t)) == ("a", "d", "gh", 9) for t in texts)


@pytest.mark.parametrize("name", ["mdlm", "candi"])
def test_a_text_depends_on_its_number_alone(name):
    """Rows that end go on no further, and those that go on are not changed by it."""
    model = _model(name, ENDED, rows=True)
    together = model.sample(12, seed=3, length=40, steps=2)
    alone = torch.cat([model.sample(12, seed=3, length=40, steps=2, batch_size=size) for size in (5,)])
    assert torch.equal(together, alone)
    ends = [row.tolist().index(ENDED.end) if ENDED.end in row else None for row in together]
    assert len(set(ends)) > 4  # they end at different times
    for row, end in zip(together.tolist(), ends, strict=True):
        if end is not None:
            after = (end // BLOCK + 1) * BLOCK
            assert set(row[after:]) <= {ENDED.pad}
    assert [len(text) for text in model.texts(together)] == [40 if end is None else end for end in ends]


def test_rows_that_have_ended_cost_nothing(monkeypatch):
    model, rows = _model("mdlm", ENDED, rows=True), []
    forward = model.denoiser.trunk.forward

    def counted(vectors, time, condition, joined):
        if len(joined.pattern.open):
            rows.append(len(vectors))
        return forward(vectors, time, condition, joined)

    monkeypatch.setattr(model.denoiser.trunk, "forward", counted)
    model.sample(12, seed=3, length=40, steps=2)
    assert rows == sorted(rows, reverse=True)
    assert rows[-1] < 12


def test_without_ends_all_of_the_length_is_written():
    tokens = _model("mdlm", ENDED).sample(6, seed=3, length=40, steps=2, ends=False)
    assert all(row.index(ENDED.end) < 36 and set(row[-4:]) != {ENDED.pad} for row in tokens.tolist())


def test_a_text_ends_before_a_stop_string():
    """It is cut there, after the prompt; and nothing is written behind the block in which it stands."""
    model = _model()
    whole = model.generate(6, seed=2, length=40, prompt="ab")
    stopped = model.generate(6, seed=2, length=40, prompt="ab", stop=["b", "gg"])
    for one, two in zip(whole, stopped, strict=True):
        found = [place for place in (one.find("b", 2), one.find("gg", 2)) if place >= 0]
        assert two == (one[: min(found)] if found else one)
    with pytest.raises(UserError, match="stop string is empty"):
        model.generate(1, stop="")


@pytest.mark.parametrize(
    ("name", "tokenizer", "options"),
    [("mdlm", ENDED, {}), ("candi", PLAIN, {"stop": "de"}), ("mdlm", PLAIN, {"prompt": "abc"})],
)
def test_streaming_gives_the_same_text(name, tokenizer, options):
    model = _model(name, tokenizer, rows=tokenizer is ENDED)
    for seed in range(4):
        pieces = list(model.stream(seed=seed, length=33, steps=2, **options))
        assert "".join(pieces) == model.generate(1, seed=seed, length=33, steps=2, **options)[0]
        assert tokenizer is ENDED or "stop" in options or len(pieces) == 9  # a piece a block


@pytest.mark.parametrize(("name", "pieces"), [("ar", LENGTH), ("udlm", 1)])
def test_streaming_without_blocks(name, pieces):
    model = _model(name, block=None)
    found = list(model.stream(seed=1))
    assert ("".join(found), len(found)) == (model.generate(1, seed=1)[0], pieces)


def test_an_end_or_a_stop_string_that_is_given_ends_nothing():
    """A prompt may hold the token that ends a text, and a template what would stop it."""
    model = _model("mdlm", ENDED)
    first = Template(torch.tensor([ENDED.end, 1, 2, *[0] * 21]), torch.arange(24) < 3)
    tokens = model.sample(templates=[first] * 8, seed=1, steps=2)
    texts = [model.text(row, 3) for row in tokens.tolist()]
    assert all(text.startswith(model.tokenizer.show([ENDED.end, 1, 2])) for text in texts)
    assert len({len(text) for text in texts}) > 3
    plain = _model("mdlm")
    given = Template(torch.tensor([0, 1, 2, 0, *[0] * 20]), torch.arange(24) < 4)  # abca
    found = plain.generate(templates=[given] * 4, n=4, seed=1, steps=2, stop="bc")
    assert all(text.startswith("abca") and "bc" not in text[4:] for text in found)


def test_given_tokens_that_are_still_to_come_are_kept():
    """An end that is drawn before them does not end the row; a stop string is not put together over a gap."""
    model = _model("mdlm", ENDED)
    later = [0] * 8 + list(range(8))
    known = torch.arange(16) >= 8
    tokens = model.sample(templates=[Template(torch.tensor(later), known)] * 40, seed=0, steps=2)
    assert torch.equal(tokens[:, 8:], torch.tensor(later[8:]).expand(40, -1))
    assert (tokens[:, :8] == ENDED.end).any(-1).sum() > 5


def test_without_ends_the_text_goes_on_too():
    model = _model("mdlm", ENDED)
    ended, whole = (model.generate(6, seed=3, length=40, steps=2, ends=ends) for ends in (True, False))
    assert all(two.startswith(one) and len(two) > len(one) for one, two in zip(ended, whole, strict=True))
    assert "".join(model.stream(seed=3, length=40, steps=2, ends=False)) == whole[0]


def test_frames_end_with_the_text_that_is_written():
    options = {"length": 40, "steps": 2, "seed": 2, "stop": ["b"]}
    model = _model()
    assert list(frames(model, options, 0))[-1].text == model.generate(1, **options)[0]


def test_a_trace_shows_all_of_a_text_and_ends_with_it():
    model = _model("candi", ENDED, rows=True)
    steps = list(trace(model, {"length": 24, "steps": 2, "seed": 5}))
    assert {len(step.tokens) for step in steps} == {24}
    assert [step.last for step in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[0].steps == 12
    assert [float(step.clean) for step in steps] == sorted(float(step.clean) for step in steps)
    asked = [one for one in steps if one.top is not None]
    first = (asked[0].kinds == PositionKind.NOISY) & (torch.arange(24) >= BLOCK)
    assert not asked[0].top.probabilities[first].any()  # of later blocks nothing has been asked yet
    assert asked[0].top.entropy[first].tolist() == pytest.approx([math.log(ENDED.vocab_size)] * 20)
    shown = list(frames(model, {"length": 24, "steps": 2, "seed": 5}, 0))
    assert shown[-1].text == model.generate(1, length=24, steps=2, seed=5)[0]


def _likes_a(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """log p of a classifier that wants a first letter again: at each position the token of position 0."""
    return (x[:, 1:, :8] * x[:, :1, :8].detach()).sum((1, 2))


@pytest.mark.parametrize(
    ("name", "guide"),
    [("candi", GradientGuidance(_likes_a, 9.0, 9.0)), ("mdlm", DiscreteGuidance(_likes_a, 60.0)),
     ("mdlm", DiscreteGuidance(_likes_a, 60.0, first_order=False))],
)  # fmt: skip
def test_guidance_sees_what_is_written_before(name, guide):
    """What the classifier wants is decided by the first position, which stands in the first block."""
    model = _model(name)
    share = [
        float((model.sample(16, length=12, seed=1, steps=4, prompt="f", guide=one)[:, 4:] == 5).double().mean())
        for one in (None, guide)
    ]
    assert share[1] > share[0] + 0.3


def test_a_guide_that_cannot_see_behind_is_refused():
    class Own:
        def over(self, method, denoise, step):
            return denoise, step

    with pytest.raises(UserError, match="Own cannot steer a text that is written in blocks"):
        _model().generate(1, guide=Own())


def test_labels_reach_both_copies():
    model = _model(labels=(Label("kind"),))
    plain, one, two = (
        model.sample(6, length=12, seed=1, steps=2, **options)
        for options in ({}, {"label": 1}, {"label": 1, "label_weight": 2.0})
    )
    assert not torch.equal(plain, one)
    assert not torch.equal(one, two)
    assert torch.equal(two, model.sample(6, length=12, seed=1, steps=2, label=1, label_weight=2.0, cache=False))


def test_templates_that_differ_change_no_other_row():
    model = _model()
    some = [Template(torch.zeros(12).long(), torch.arange(12) < given) for given in (0, 6, 8, 11)]
    together = model.sample(templates=some, seed=4, steps=2)
    for number, template in enumerate(some):
        alone = last = None
        for step in model.trajectory(1, seed=4, first=number, templates=[template], steps=2):
            last = step
        alone = last.state.tokens[0]
        assert torch.equal(together[number], alone)


def test_first_hitting_in_blocks():
    model = _model("mdlm")
    tokens = model.sample(3, length=10, seed=1, order="first-hitting")
    assert tokens.shape == (3, 10)
    assert model.planned_steps(torch.arange(10) < 5, {"order": "first-hitting"}) == 8


def test_by_default_each_token_comes_at_its_own_time():
    """A step a token, unless steps or an order are named, or a block has more tokens than steps are taken."""
    model = _model("mdlm")
    assert model.with_defaults()["order"] == "first-hitting"
    one, two = (model.sample(4, length=12, seed=1, **options) for options in ({}, {"order": "first-hitting"}))
    assert torch.equal(one, two)
    for options in {"steps": 4}, {"order": "confidence"}, {"remask": "on"}:
        assert model.with_defaults(**options).get("order") == options.get("order")
    assert "order" not in _model("udlm").with_defaults()
    assert "order" not in _model("mdlm", block=None).with_defaults()


def test_config_keeps_the_block(tmp_path):
    model = _model()
    model.save_pretrained(tmp_path)
    again = Model.read(tmp_path)
    assert again.config.block == BLOCK
    assert again.recommended["steps"] == BLOCK
    assert torch.equal(again.sample(2, length=20, seed=1), model.sample(2, length=20, seed=1))


def test_answers_end_where_a_block_ends():
    """In blocks of one masked diffusion is a chain: answers of two tokens have probabilities that add up to 1."""
    model = _model("mdlm", block=1)
    every = [[one, two] for one in range(8) for two in range(8)]
    found = continuations(model, [[1, 2, 3]] * 64, every, times=50)
    total = sum(math.exp(-one.nats) for one in found)
    assert abs(math.log(total)) < 4 * max(one.error for one in found)  # all see the same times
    with pytest.raises(UserError, match="does not fill blocks of 4, and this model knows no end of texts"):
        continuations(_model("mdlm"), [[1]], [[1, 2]])
    with pytest.raises(UserError, match="writes rows in blocks"):
        continuations(_model("mdlm", ENDED, rows=True), [[1]], [[1, 2]])
    one, two = (continuations(_model("mdlm"), [context], [[1, 2, 3]])[0].nats for context in ([5], [1, 2, 3, 4, 5]))
    assert one == pytest.approx(two, rel=0.2)  # other draws of the same times
    assert continuations(_model("mdlm", ENDED), [[1]], [[1, 2]])[0].nats > 0


def test_a_sweep_of_blocks_counts_every_evaluation(tmp_path):
    """Samples of one length, whether their texts end or not, are compared with those of other methods."""
    model = _model("mdlm", ENDED)
    cell = replace(CELL, run="run", steps=2, temperature=1.0, n=3, length=24, seed=0, options={}, guidance=None)
    counted = []

    class Progress(SweepProgress):
        def advance(self, evaluations):
            counted.append(evaluations)

    found = make(model, cell, 2, progress=Progress(1, 6))
    assert sum(counted) == 3 * 2
    assert len(found.texts) == 3
    for length, evaluations in (2, 6), (6, 6):  # shorter than a block, and no multiple of one
        counted.clear()
        make(model, replace(cell, length=length), 2, progress=Progress(1, 6))
        assert sum(counted) <= evaluations
