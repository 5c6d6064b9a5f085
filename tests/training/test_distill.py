"""Distillation: what a target is, that a student of many steps' noise gains by it, and that its runs are runs."""

import json

import pytest
import torch

from candi.base.errors import UserError
from candi.base.rng import Repeated, Rng
from candi.cli import main
from candi.diffusion.distillation import LOSSES, divergence, paired, walked
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import METHODS
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import bind_step
from candi.diffusion.state import State
from candi.hub.loading import load
from candi.model.checkpoint import CHECKPOINTS
from candi.nets.ideal import IdealDenoiser
from candi.training.distill_objective import Distillation, DistillObjective
from tests.toys import Toy, denoiser_of
from tests.training.runs import Forked, finish, losses, tensors, train_here

pytestmark = pytest.mark.usefixtures("cache")
TOY = Toy()
DIFFUSION = sorted(set(METHODS) - {"ar"})


def _method(name: str):
    options = {"rank_min": 0.1, "rank_max": 0.4} if name in ("candi", "onehot") else {}
    return METHODS[name](**options).build(TokenEmbedding(TOY.vocab_size, 8)).eval()


def _smooth(method) -> IdealDenoiser:
    """The exact posterior of the toy with a trace of everything: a walk may leave its support."""
    every = torch.cartesian_prod(*[torch.arange(TOY.vocab_size)] * TOY.length)
    code = TOY.vocab_size ** torch.arange(TOY.length - 1, -1, -1)
    p = torch.full((len(every),), 1e-3 / len(every), dtype=torch.float64)
    p[(TOY.sequences * code).sum(-1)] += (1 - 1e-3) * TOY.probabilities
    return IdealDenoiser(method, every, p, TOY.vocab_size)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["mdlm", "udlm", "duo"])
def test_the_mean_target_is_the_posterior_itself(double, name):
    """Of masked and uniform noise, whose states hold tokens and nothing else: E[p(x0_i | z_s) | z_t] = p(x0_i | z_t)

    for the exact posterior, whatever the number of steps between. So forward KL to the distributions of an exact
    teacher has the teacher itself for its best student: there is nothing to gain but by a sharper target.
    2,000 walks of 32 steps, of which a standard error is below 0.011 and what is left of the discretisation 0.01.
    """
    method, n = _method(name), 2000
    ideal = _smooth(method)
    x0 = TOY.truth(1, 3).expand(n, -1)
    known = torch.tensor([True, False, False, False]).expand(n, -1) if name == "mdlm" else torch.zeros(n, 4).bool()
    first = method.corrupt(x0[:1], torch.tensor([0.7]), Rng.from_seed(5))
    tokens = x0.where(known, 0) if name == "mdlm" else first.tokens.expand(n, -1)
    state = State(torch.full((n,), 0.7), known, tokens)
    times = [torch.full((n,), t) for t in torch.linspace(0.7, 0.2, 33).tolist()]
    target = walked(method, ideal, bind_step(method), state, times, Rng.from_seed(0))
    log_p = target.prediction.log_probs().flatten(0, 1)
    mean = method.posterior(log_p, target.tokens.flatten(), target.t.flatten()).exp().view(n, 4, -1).mean(0)
    own = method.posterior(ideal(state).log_probs()[0], tokens[0], state.t[:1].expand(4)).exp()
    open = ~known[0]
    torch.testing.assert_close(mean[open], own[open], rtol=0, atol=0.05)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["mdlm", "udlm", "candi"])
def test_a_student_that_is_its_target_has_no_distance(double, name, loss):
    """And none other has less; posteriors of a network that leaves out its own position are compared whole."""
    method = _method(name)
    x0 = TOY.truth(64, 1)
    state = method.corrupt(x0, torch.full((64,), 0.6), Rng.from_seed(1))
    prediction = _smooth(method)(state)
    target = walked(
        method, lambda _: prediction, lambda z, p, s, r: p() and z, state, [state.t, state.t], Rng.from_seed(0)
    )
    assert divergence(method, prediction, state, target, loss).abs().max() < 1e-9
    other = prediction.tempered(0.5)
    open = ~state.known
    assert (divergence(method, other, state, target, loss)[open] >= 0).all()
    assert divergence(method, other, state, target, loss)[open].mean() > 0.01


@pytest.mark.parametrize("name", DIFFUSION)
def test_a_pair_is_one_draw_of_noise_at_two_times(name):
    """What is known at t is known at s, and less noise leaves a state that is nearer to the data."""
    method = _method(name)
    x0 = TOY.truth(4000, 2)
    late, early = method.pair(x0, torch.full((4000,), 0.8), torch.full((4000,), 0.3), Rng.from_seed(0))
    assert not (late.known & ~early.known).any()
    right = [float((method.decode(one).where(one.known | torch.tensor(name != "mdlm"), -1) == x0).double().mean())
             for one in (late, early)]  # fmt: skip
    assert right[1] > right[0] + 0.02
    if name in ("candi", "onehot", "embedding"):
        point = method.space.point(x0)
        noise = [(one.noisy - point) / method.sigma(one.t)[:, None, None] for one in (late, early)]
        torch.testing.assert_close(*noise, rtol=1e-3, atol=1e-4)


def test_repeated_numbers_are_the_same_numbers():
    rng = Repeated(Rng.from_seed(3))
    first = [rng.uniform(4, 2), rng.normal(4, dtype=torch.float64)]
    again = rng.again()
    assert torch.equal(again.uniform(4, 2), first[0])
    assert torch.equal(again.normal(4, dtype=torch.float64), first[1])


def test_data_is_the_target_where_a_pair_reveals_it():
    method = _method("mdlm")
    x0 = TOY.truth(64, 1)
    state, later = method.pair(x0, torch.full((64,), 0.9), torch.full((64,), 0.4), Rng.from_seed(1))
    target = paired(_smooth(method).float(), state, later, x0)
    assert torch.equal(target.hard, ~state.known & later.known)
    flat = Prediction.from_logits(torch.zeros(64, 4, 6), ~state.known)
    found = divergence(method, flat, state, target)
    assert found[target.hard].tolist() == pytest.approx([torch.tensor(6.0).log().item()] * int(target.hard.sum()))
    assert not found[state.known].any()


@pytest.mark.parametrize("name", DIFFUSION)
@pytest.mark.parametrize(
    "how", [{}, {"targets": "draws", "mix": 0.5}, {"pairs": "noise", "answer": "average"}, {"answer": "average"}]
)
def test_every_method_can_be_distilled_in_every_way(name, how):
    """Losses are finite, have gradients, and known positions cost nothing."""
    student = denoiser_of(name, 7, _TRUNK, length=8)
    teacher = denoiser_of(name, 7, _TRUNK, length=8).eval().requires_grad_(False)
    objective = DistillObjective(
        student, lambda z, label, x0: teacher(z, label), teacher.method, 4, Distillation(**how)
    )
    objective.follow(lambda: {key: value.detach() for key, value in student.named_parameters()})
    objective.train()
    objective.begin_step(0.5)
    x0, given = torch.randint(7, (6, 8)), torch.arange(8).expand(6, -1) < 2
    loss = objective(x0, range(6), 6, Rng.per_row(range(6)), None, given)
    assert loss.isfinite().all()
    assert not loss[given].any()
    loss.mean().backward()
    assert student.head.weight.grad.abs().sum() > 0


def test_the_average_that_answers_is_the_average():
    """Other averaged weights give other targets; taken anew before every step."""
    student = denoiser_of("candi", 7, _TRUNK, length=8)
    teacher = denoiser_of("candi", 7, _TRUNK, length=8).eval().requires_grad_(False)
    how = Distillation(answer="average")
    objective = DistillObjective(student, lambda z, label, x0: teacher(z, label), teacher.method, 4, how)
    x0, found = torch.randint(7, (6, 8)), []
    for moved in (0.0, 0.5):
        weights = {key: value.detach() + moved for key, value in student.named_parameters()}
        objective.follow(lambda weights=weights: weights)
        objective.begin_step(0.5)
        found.append(objective(x0, range(6), 6, Rng.per_row(range(6))).detach())
    assert not torch.allclose(*found)


def _trunk():
    from candi.nets.dit import DiTSettings

    return DiTSettings(width=16, blocks=1, heads=2, conditioning=8)


_TRUNK = _trunk()


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, cache):
    folder = tmp_path_factory.mktemp("teacher") / "candi"
    train_here(folder, steps=20, validate_every=0)
    return folder


def _flags(teacher, out, *more: str) -> list[str]:
    small = "--rounds 2 --steps 6 --batch-size 4 --checkpoint-every 3 --validate-every 0 --log-every 2 --device cpu"
    return ["distill", str(teacher), "--out", str(out), *small.split(), *more]


def test_every_round_is_a_run_with_its_teacher_in_its_card(teacher, tmp_path, capsys):
    main(_flags(teacher, tmp_path / "out", "--teacher-steps", "8"))
    assert "Students of 4, 2 steps" in capsys.readouterr().err
    for number, steps in (1, 4), (2, 2):
        model = load(tmp_path / "out" / f"round-{number}", "cpu")
        assert model.recommended["steps"] == steps
        assert len(model.generate(2)) == 2
    cards = [
        json.loads(next((tmp_path / "out" / f"round-{n}" / CHECKPOINTS).glob("*/card.json")).read_text())
        for n in (1, 2)
    ]
    assert [card["distilled"]["teacher_steps"] for card in cards] == [8, 4]
    assert cards[1]["distilled"]["source"] == str(tmp_path / "out" / "round-1")
    assert cards[0]["distilled"]["sha256"] != cards[1]["distilled"]["sha256"]
    main(["evaluate", str(tmp_path / "out" / "round-1"), "--data", "pydoc", "--sequences", "2", "--times", "1"])
    main(_flags(tmp_path / "out" / "round-2", tmp_path / "more", "--rounds", "1"))
    assert load(tmp_path / "more" / "round-1", "cpu").recommended["steps"] == 1
    main(["export", str(tmp_path / "more" / "round-1"), "--out", str(tmp_path / "packed")])
    page = (tmp_path / "packed" / "README.md").read_text()
    assert "That was its teacher; it learned to take a single step." in page
    assert "loss on held-out data" not in page  # what was measured there is the distance to its teacher
    for source in (tmp_path / "more" / "round-1", tmp_path / "packed"):
        with pytest.raises(SystemExit):
            main(_flags(source, tmp_path / "none", "--data", "pydoc"))
        assert "takes one step already" in capsys.readouterr().err


@pytest.mark.parametrize("how", [(), ("--pairs", "noise", "--answer", "average")])
def test_a_killed_distillation_resumes_to_the_bit(teacher, tmp_path, how):
    more = ("--teacher-steps", "4", *how)
    main(_flags(teacher, tmp_path / "whole", *more))
    process = Forked(_flags(teacher, tmp_path / "killed", *more), _KILLED)
    process.communicate()
    assert process.returncode == -9
    finish(Forked(_flags(teacher, tmp_path / "killed", *more)))
    for number in (1, 2):
        folders = [tmp_path / name / f"round-{number}" for name in ("whole", "killed")]
        newest = [max((folder / CHECKPOINTS).iterdir()) for folder in folders]
        assert tensors(newest[0]) == tensors(newest[1])
        assert losses(folders[0]) == losses(folders[1])


# the fourth step of the second round is never done
_KILLED = """
import os, signal
from candi.training import step
update, seen = step.TrainStep.update, []
def dying(self, number, micro):
    seen.append(number)
    if len(seen) == 11:
        os.kill(os.getpid(), signal.SIGKILL)
    return update(self, number, micro)
step.TrainStep.update = dying
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--teacher-steps", "12", "--rounds", "3"], "12 steps can be halved 2 times, not 3; give --rounds 2"),
        (["--teacher-steps", "1"], "A teacher takes 2 to 65,536 steps, not 1"),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--devices", "2"], "Distillation uses one device"),
        (["--precision", "float64"], "Distillation is in float32 or bf16"),
        (["--teacher-steps", "7"], "7 steps can be halved 0 times, not 2; give --teacher-steps 4"),
        (["--pairs", "noise", "--targets", "draws"], "Pairs of noise are of the data itself"),
        (["--loss", "kl"], "kl"),
        (["--student", "text8"], "another vocabulary than its teacher"),
    ],
)
def test_what_cannot_be_distilled_is_one_sentence(teacher, tmp_path, capsys, more, said):
    with pytest.raises(SystemExit) as exit:
        main(_flags(teacher, tmp_path / "out", *more))
    assert exit.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_teacher_that_is_missing_or_has_no_steps_is_one_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(_flags(tmp_path / "none", tmp_path / "out"))
    assert "none" in capsys.readouterr().err
    train_here(tmp_path / "ar", steps=2, method="ar", validate_every=0)
    with pytest.raises(SystemExit):
        main(_flags(tmp_path / "ar", tmp_path / "out"))
    assert "writes token by token; there are no steps to distil" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(_flags("text8", tmp_path / "out"))
    assert "does not say what it was trained on; give --data" in capsys.readouterr().err


def test_a_target_of_a_blockwise_teacher_is_of_its_blocks():
    from dataclasses import replace

    from candi.nets.denoiser import Denoiser

    plain = denoiser_of("mdlm", 7, _TRUNK, length=8)
    config = replace(plain.config, block=4)
    student, teacher = Denoiser.build(config), Denoiser.build(config).eval().requires_grad_(False)
    objective = DistillObjective(student, teacher, teacher.method, 2, Distillation())
    loss = objective(torch.randint(7, (3, 8)), range(3), 3, Rng.per_row(range(3)))
    assert loss.shape == (3, 8)
    with pytest.raises(UserError, match="average of the student needs whole weights"):
        DistillObjective(student, teacher, teacher.method, 2, Distillation(answer="average")).begin_step(0)


@pytest.mark.parametrize("name", ["udlm", "duo"])
def test_draws_are_of_the_posterior_with_the_own_position_put_in(name):
    """What a position shows is what it likely is: 20,000 draws, four standard errors of 0.0035."""
    method, n = _method(name), 20_000
    state = State(torch.full((n,), 0.3), torch.zeros(n, 1).bool(), torch.full((n, 1), 2))
    flat = Prediction.from_logits(torch.zeros(n, 1, 6), ~state.known)
    target = walked(
        method, lambda _: flat, lambda z, p, s, r: z, state, [state.t, state.t], Rng.from_seed(0), draws=True
    )
    expected = method.posterior(torch.zeros(1, 6).log_softmax(-1), state.tokens[:1, 0], state.t[:1]).exp()[0, 2]
    assert float((target.drawn == 2).double().mean()) == pytest.approx(float(expected), abs=0.014)
    assert float(expected) > 0.25  # of a flat network 1/6


def test_a_pair_of_a_linear_duo_has_its_noise():
    method = METHODS["duo"](schedule="linear", curriculum=0.0).build(TokenEmbedding(TOY.vocab_size, 8)).eval()
    x0 = TOY.truth(4000, 1)
    late, early = method.pair(x0, torch.full((4000,), 0.8), torch.full((4000,), 0.2), Rng.from_seed(0))
    for state, t in (late, 0.8), (early, 0.2):
        kept = 1 - t * 0.999 * 5 / 6
        assert float((state.tokens == x0).double().mean()) == pytest.approx(kept, abs=0.02)


def test_independent_noise_is_walked_along_its_path():
    """Noise falls in every step, and a pair has two amounts of one noise."""
    method = METHODS["candi"](independent=True, solver="ancestral").build(TokenEmbedding(TOY.vocab_size, 8)).eval()
    x0 = TOY.truth(200, 1)
    late, early = method.pair(x0, torch.full((200,), 0.8), torch.full((200,), 0.3), Rng.from_seed(0))
    assert (early.u < late.u).all()
    student = denoiser_of("candi", 7, _TRUNK, length=8, independent=True, solver="ancestral")
    teacher = denoiser_of("candi", 7, _TRUNK, length=8, independent=True, solver="ancestral").eval()
    objective = DistillObjective(
        student, lambda z, label, x: teacher(z, label), teacher.method, 4, Distillation(), ratio=2
    )
    assert objective(torch.randint(7, (6, 8)), range(6), 6, Rng.per_row(range(6))).isfinite().all()


def test_a_round_that_is_a_teacher_is_not_trained_further(teacher, tmp_path, capsys):
    main(_flags(teacher, tmp_path / "out", "--teacher-steps", "4"))
    before = tensors(max((tmp_path / "out" / "round-1" / CHECKPOINTS).iterdir()))
    with pytest.raises(SystemExit):
        main(_flags(teacher, tmp_path / "out", "--teacher-steps", "4", "--steps", "9"))
    assert "is the teacher of" in capsys.readouterr().err
    assert tensors(max((tmp_path / "out" / "round-1" / CHECKPOINTS).iterdir())) == before


def test_a_student_of_another_kind_is_one_sentence(teacher, tmp_path, capsys):
    """Of the same vocabulary; noise that lives among token vectors of another width is none of its own."""
    train_here(tmp_path / "masked", steps=2, method="mdlm", validate_every=0)
    train_here(tmp_path / "wide", steps=2, validate_every=0, model__width=32)
    for name, said in ("masked", "is not of the kind of its teacher"), ("wide", "is 32 wide and its teacher 16"):
        with pytest.raises(SystemExit):
            main(_flags(teacher, tmp_path / "out", "--student", str(tmp_path / name)))
        assert said in capsys.readouterr().err
