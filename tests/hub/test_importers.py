"""Published checkpoints: small random networks in the layouts of four projects, and what the projects' code computes.

tests/hub/published holds them: the weights (random, never trained), and cases with inputs and outputs of the original
code in float32. Tolerance 1e-4 relative, as losses at t = 0.001 are in the thousands.
"""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import candi
from candi.base.errors import UserError
from candi.cli import main
from candi.data.corpus import Piece
from candi.data.tokenizer import Tokenizer
from candi.diffusion.kernels import masked
from candi.diffusion.prediction import Prediction
from candi.diffusion.schedules import RankLinear
from candi.diffusion.state import State, hidden
from candi.hub.importers import IMPORTERS, import_model
from candi.hub.importers.source import read_source
from candi.hub.model_card import ModelCard
from candi.model.model import Model
from candi.nets.blockwise import BlockDenoiser

PUBLISHED = Path(__file__).parent / "published"
NAMES = ("mdlm", "bd3lm", "duo", "sedd", "candi")
LETTERS = "".join(chr(ord("A") + i) for i in range(41))


def _tokenizer(folder: Path, size: int) -> Path:
    path = folder / f"{size}.tokenizer.json"
    path.write_text(Tokenizer.characters([Piece(LETTERS[:size], True)]).json)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Model]:
    folder = tmp_path_factory.mktemp("imported")
    for name in NAMES:
        size = 41 if name == "duo" else 40
        import_model(str(PUBLISHED / name), folder / name, tokenizer=str(_tokenizer(folder, size)))
    return {name: candi.load(folder / name, "cpu") for name in NAMES}


def _cases(name: str) -> dict[str, torch.Tensor]:
    return load_file(PUBLISHED / f"{name}.cases.safetensors")


def _close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """To 1e-4 of the value, or of the largest one where it is small."""
    torch.testing.assert_close(
        found.to(expected), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max().clamp(max=10.0))
    )


def _masked(model: Model, cases: dict[str, torch.Tensor]) -> tuple[State, Prediction]:
    x, t = cases["in.xt"], cases["in.t"]
    known = x < 40
    state = State(t, known, hidden(x, known))
    with torch.no_grad():
        return state, model.denoiser(state)


@pytest.mark.parametrize("clock", ["off", "on"])
def test_mdlm(models, tmp_path, clock):
    """Logits, log-probabilities, loss and reverse step; with the clock that its configuration may ask for."""
    model, cases = models["mdlm"], _cases("mdlm")
    if clock == "on":
        folder = shutil.copytree(PUBLISHED / "mdlm", tmp_path / "on")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"time_conditioning": True}))
        import_model(str(folder), tmp_path / "out", tokenizer=str(_tokenizer(tmp_path, 40)))
        model = candi.load(tmp_path / "out", "cpu")
    method, (state, prediction) = model.denoiser.method, _masked(model, cases)
    open, x0 = ~state.known, cases["in.x0"]
    with torch.no_grad():
        logits = model.denoiser.head(prediction.features.flatten(0, 1)).view(4, 24, 40)
        _close(logits, cases[f"out.{clock}.logits"][..., :40])  # theirs has a column for the mask, set to -1e6 later
        _close(prediction.log_probs()[open], cases[f"out.{clock}.log_probs"][..., :40][open])
        _close(method.loss(prediction, state, x0), cases[f"out.{clock}.loss_per_token"])
        step = method.transition(state, prediction, cases["in.s"]).exp()
    move = cases["out.move_chance"][:, None, None]
    _close(step[open], (cases[f"out.{clock}.ddpm.q_xs_unnormalised"] / move)[open])


def _bd3lm(models, tokens: torch.Tensor) -> State:
    """A state of each block of 4."""
    known = tokens < 40
    return State(torch.full((tokens.numel() // 4,), 0.5), *(x.view(-1, 4) for x in (known, hidden(tokens, known))))


def _logits(model: Model, features: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return model.denoiser.head(features.flatten(0, 1)).view(*like.shape[:-1], 40)


def test_bd3lm(models):
    """Both copies side by side: logits, log-probabilities, loss and the reverse step."""
    model, cases = models["bd3lm"], _cases("bd3lm")
    method, x0 = model.denoiser.method, cases["in.x0"]
    assert model.config.block == 4
    state = dataclasses.replace(_bd3lm(models, cases["in.xt"]), t=cases["in.t"].view(-1, 4)[:, 0])
    with torch.no_grad():
        prediction = model.denoiser(state, context=x0)
        _close(_logits(model, prediction.features, cases["out.train.logits"]), cases["out.train.logits"][..., :40])
        open, dense = ~state.known, prediction.log_probs()
        _close(dense[open], cases["out.train.log_probs"][..., :40].reshape(-1, 4, 40)[open])
        _close(method.loss(prediction, state, x0.view(-1, 4)).view(3, 24), cases["out.loss_per_token"])


def test_bd3lm_writes_with_its_cache_as_without(models):
    """Two finished blocks and an open one: logits, log-probabilities and a step of the open block."""
    model, cases = models["bd3lm"], _cases("bd3lm")
    x = cases["in.x_sampling"]
    open_block = x[:, 8:]
    known = open_block < 40
    state = State(cases["in.step_t"], known, hidden(open_block, known))
    for cached in (True, False):
        reader = BlockDenoiser(model.denoiser, cached=cached)
        reader.extend(x[:, :8])
        with torch.no_grad():
            prediction = reader(state)
            theirs = cases["out.sampling.logits"][:, 8:]
            _close(_logits(model, prediction.features, theirs), theirs[..., :40])
            wanted = cases["out.sampling.last_block.log_probs"][..., :40][~known]
            _close(prediction.log_probs()[~known], wanted)
            step = model.denoiser.method.transition(state, prediction, cases["in.step_s"]).exp()
        _close(step[~known], cases["out.sampling.last_block.q_xs"][~known])


def test_bd3lm_with_a_clock_differs(models, tmp_path):
    """Theirs tells clean blocks the time of the noisy ones, ours tells them that they are clean; so it is refused. With

    that time at both copies our trunk computes what theirs does.
    """
    model, cases = models["bd3lm"], _cases("bd3lm")
    state, x0, denoiser = _bd3lm(models, cases["in.xt"]), cases["in.x0"], model.denoiser
    vectors, clean = denoiser.method.embed(state), denoiser.method.embedding.lookup(x0.view(-1, 4))
    both = torch.cat([vectors.view(3, 6, 4, -1), clean.view(3, 6, 4, -1)], 1).flatten(0, 1)
    joined = denoiser.blocks.side_by_side(24, x0.device)
    with torch.no_grad():
        features = denoiser.trunk(both, cases["in.sigma_in"].repeat_interleave(12), None, joined)
    theirs = cases["out.train_timecond.logits"]
    _close(_logits(model, joined.rows(features)[:, :6].flatten(0, 1), theirs), theirs[..., :40])
    folder = shutil.copytree(PUBLISHED / "bd3lm", tmp_path / "on")
    config = json.loads((folder / "config.json").read_text())
    for change, said in ({"time_conditioning": True}, "time_conditioning"), ({"causal": True}, "autoregressive"):
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(UserError, match=said):
            import_model(str(folder), tmp_path / "out", tokenizer=str(_tokenizer(tmp_path, 40)))


def test_bd3lm_without_blocks_is_mdlm(models, tmp_path):
    """As the network that theirs start from (block_size1024-pretrain)."""
    folder, cases = shutil.copytree(PUBLISHED / "bd3lm", tmp_path / "plain"), _cases("bd3lm")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"cross_attn": False}))
    import_model(str(folder), tmp_path / "out", tokenizer=str(_tokenizer(tmp_path, 40)))
    model = candi.load(tmp_path / "out", "cpu")
    assert model.config.block is None
    known = cases["in.xt"] < 40
    state = State(torch.full((3,), 0.5), known, hidden(cases["in.xt"], known))
    with torch.no_grad():
        features = model.denoiser(state).features
    _close(_logits(model, features, cases["out.plain.logits"]), cases["out.plain.logits"][..., :40])


def test_sedd(models):
    """Masked diffusion with a clock: its scores, times exp(sigma) - 1 and normalised, are our probabilities.

    Its analytic step is the same up to that normalisation, which its own leaves out; its loss, of scores that are not
    normalised, is another one, and ours is the masked bound of its posterior.
    """
    model, cases = models["sedd"], _cases("sedd")
    state, prediction = _masked(model, cases)
    open, x0 = ~state.known, cases["in.x0"]
    sigma = cases["out.sigma"]
    torch.testing.assert_close(model.denoiser.time_input(state), sigma)
    with torch.no_grad():
        logits = model.denoiser.head(prediction.features.flatten(0, 1)).view(4, 24, 40)
        _close(logits, cases["out.raw_logits"][..., :40])
        theirs = cases["out.denoiser.probs"][open]
        _close(prediction.log_probs().exp()[open], theirs / theirs.sum(-1, keepdim=True))
        step = model.denoiser.method.transition(state, prediction, cases["in.s"]).exp()[open]
        total = cases["out.denoiser.probs"].sum(-1)[open]
        _close(step[:, :40], cases["out.analytic.probs"][open][:, :40] / total[:, None] * _sedd_step(cases)[open])
        loss = model.denoiser.method.loss(prediction, state, x0)
    nll = -(theirs / theirs.sum(-1, keepdim=True)).gather(-1, x0[open][:, None])[:, 0].log()
    _close(loss[open], nll / cases["in.t"][:, None].expand_as(x0)[open])


def _sedd_step(cases: dict[str, torch.Tensor]) -> torch.Tensor:
    """Their score (exp(d) - 1) is p (exp(d) - 1)/(exp(sigma) - 1), d = sigma_t - sigma_s; the chance of revealing is

    (alpha_s - alpha_t)/(1 - alpha_t), which for the same p is the same number: alpha = exp(-sigma).
    """
    s, t = (-(1 - 0.999 * cases[f"in.{name}"]).log() for name in "st")
    theirs = torch.expm1(t - s) / torch.expm1(t)
    ours = (torch.exp(-s) - torch.exp(-t)) / -torch.expm1(-t)
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-6)
    return (ours / theirs)[:, None, None].expand(4, 24, 1)


def test_duo(models):
    """Logits, the posterior of a step and of the last one, and the loss at each token."""
    model, cases = models["duo"], _cases("duo")
    method, x, t, x0 = model.denoiser.method, cases["in.xt"], cases["in.t"], cases["in.x0"]
    state = State(t, torch.zeros_like(x, dtype=torch.bool), x)
    torch.testing.assert_close(method.alpha(t), cases["out.alpha"])
    torch.testing.assert_close(model.denoiser.time_input(state), cases["out.sigma"])
    with torch.no_grad():
        prediction = model.denoiser(state)
        _close(prediction.log_probs(), cases["out.log_probs"])
        _close(method.loss(prediction, state, x0), cases["out.loss_per_token"])
        _close(method.transition(state, prediction, cases["in.s"]).exp(), cases["out.ancestral.q_xs"])
        _close(method.transition(state, prediction, torch.zeros(4)).exp(), cases["out.ancestral.q_x0"])
        mixed = method.embedding.mixture(cases["in.topk_ids"], cases["in.topk_weights"])
        soft = State(t[1:3], torch.zeros(2, 24, dtype=torch.bool), x[1:3], mixed)
        features = model.denoiser(soft).features.flatten(0, 1)
        _close(model.denoiser.head(features).view(2, 24, 41), cases["out.topk.logits"])


class _Sigmas:
    """The noise that a state of theirs has, whatever the time."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    def __call__(self, t: torch.Tensor) -> torch.Tensor:
        return self.values


def test_candi(models, monkeypatch):
    """Logits, log-probabilities and loss of its noisy states; the steps of time differ on purpose (below)."""
    model, cases = models["candi"], _cases("candi")
    method, x0, t = model.denoiser.method, cases["in.x0"], cases["in.t"]
    known = cases["in.reveal_mask"].bool()
    _close(method.embedding.rows(), cases["out.token_embedding"])
    values = cases["out.hybrid.xt"] @ method.embedding.rows().detach()
    state = State(t, known, hidden(x0, known), values)
    monkeypatch.setattr(method, "sigma", _Sigmas(cases["out.continuous_noise"]))
    with torch.no_grad():
        prediction = model.denoiser(state)
        logits = model.denoiser.head(prediction.features.flatten(0, 1)).view(4, 24, 40)
        _close(logits, cases["out.hybrid.logits"])
        _close(prediction.log_probs()[~known], cases["out.hybrid.log_probs"][~known])
        _close(method.loss(prediction, state, x0), cases["out.hybrid.loss_per_token"])
        row = State(t[2:3], known[2:3], state.tokens[2:3], values[2:3])
        monkeypatch.setattr(method, "sigma", _Sigmas(cases["out.continuous_noise"][2:3]))
        tempered = model.denoiser(row).tempered(0.7).log_probs()
    _close(tempered[~known[2:3]], cases["out.hybrid.temp0.7.log_probs"][~known[2:3]])


def test_the_noise_of_candi_is_theirs_up_to_their_table(models):
    """error(sigma) = (V - 1)/V Phi(-1/(sigma sqrt 2)) between their percentiles, read off a table of 1,000 values.

    Linear interpolation between them, and a schedule that ends at 0.999, are within half a percent.
    """
    cases, method = _cases("candi"), models["candi"].denoiser.method
    assert isinstance(method.sigma, RankLinear)
    noise = 0.999 * cases["in.t"].double()  # what they call discrete noise
    torch.testing.assert_close(method.sigma(noise), cases["out.continuous_noise"].double(), rtol=5e-3, atol=0)
    torch.testing.assert_close(method.alpha(cases["in.t"]), cases["out.alpha"])


def test_the_step_of_candi_is_the_paper_s_and_not_theirs(models):
    """Theirs moves by (sigma_t - sigma_s)/sigma_s^2 of the way, the paper's Euler by (1 - k^2)/2, k = sigma_s/sigma_t.

    Both reveal a position with chance (t - s)/t; what they tell the network of time differs by alpha's 0.001.
    """
    cases, method = _cases("candi"), models["candi"].denoiser.method
    now, later = cases["out.step.sigma_now"], cases["out.step.sigma_next"]
    x, target = cases["out.hybrid.xt"], cases["out.exact_step.denoised"]
    share = ((now - later) / later.square()).view(-1, 1, 1)
    _close(torch.lerp(x, target, share), cases["out.exact_step.x_continuous"])
    assert method.solver == "euler"
    assert float((share - (1 - (later / now).square()) / 2).abs().max()) > 0.01
    t, s = cases["in.step_t"].view(1), cases["in.step_s"].view(1)
    chance = masked.transition(torch.zeros(1, 1, 1), method.alpha(t), method.alpha(s)).exp()[0, 0, 0]
    assert float(chance) == pytest.approx(float((t - s) / t), rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_an_imported_model_is_like_any_other(models, tmp_path, capsys, name):
    """It samples, infills, is read again to the bit, evaluated where there is a bound, and its card says what it is."""
    model = models[name]
    assert len(model.generate(2, steps=3, seed=0)[0]) == 24
    filled = model.generate(1, steps=3, infill="AB__CD__")[0]
    assert (filled[:2], filled[4:6]) == ("AB", "CD")
    model.save_pretrained(tmp_path / "again")
    again = candi.load(tmp_path / "again", "cpu")
    assert torch.equal(again.sample(2, steps=3), model.sample(2, steps=3))
    sizes = import_model(str(PUBLISHED / name), tmp_path / name,
                         tokenizer=str(_tokenizer(tmp_path, model.config.vocab_size)))  # fmt: skip
    card = ModelCard.read(sizes)
    assert card.imported is not None
    assert card.imported.layout == name
    assert card.imported.sha256 == read_source(str(PUBLISHED / name)).sha256
    assert "t = 0 is clean" in card.imported.conventions
    assert card.imported.sha256 in (sizes / "README.md").read_text()
    text = tmp_path / "text.txt"
    text.write_text(LETTERS[:40] * 40)
    if model.denoiser.method.bound:
        main(f"evaluate {sizes} --data {text} --sequences 4 --device cpu".split())
        assert "bits" in capsys.readouterr().out


def test_a_mask_among_the_tokens_is_never_drawn(tmp_path):
    """As in runs on LM1B, whose tokenizer has a mask of its own: the row stays, its probability is 0."""
    import_model(str(PUBLISHED / "mdlm"), tmp_path / "out", tokenizer=str(_tokenizer(tmp_path, 41)), mask=3)
    model = candi.load(tmp_path / "out", "cpu")
    assert model.config.vocab_size == 41
    assert not (model.sample(64, steps=4, temperature=3.0) == 3).any()
    table = load_file(PUBLISHED / "mdlm" / "model.safetensors")["backbone.vocab_embed.embedding"]
    assert torch.equal(model.denoiser.method.embedding.mask_vector(), table[3])


def test_a_token_to_pad_with_is_added_to_a_tokenizer_that_lacks_it(tmp_path):
    """As GPT-2's in the published DUO: 50,258 rows for 50,257 tokens."""
    import_model(str(PUBLISHED / "duo"), tmp_path / "out", tokenizer=str(_tokenizer(tmp_path, 40)))
    assert candi.load(tmp_path / "out", "cpu").tokenizer.vocab_size == 41


def _broken(folder: Path, config=None, **tensors) -> str:
    shutil.copytree(PUBLISHED / "mdlm", folder)
    weights = load_file(folder / "model.safetensors")
    for name, change in tensors.items():
        full = f"backbone.{name.replace('__', '.')}"
        if change is None:
            del weights[full]
        else:
            weights[full] = change
    save_file(weights, folder / "model.safetensors")
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | (config or {})))
    return str(folder)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"output_layer__linear__bias": None}, "backbone.output_layer.linear.bias missing, unexpected"),
        ({"blocks__0__extra": torch.zeros(3)}, "backbone.blocks.0.extra missing, unexpected or of another shape"),
        ({"blocks__1__mlp__0__bias": torch.zeros(5)}, "backbone.blocks.1.mlp.0.bias missing, unexpected or of another"),
        ({"vocab_embed__embedding": None}, "no backbone.vocab_embed.embedding of two dimensions"),
        ({"config": {"vocab_size": 99}}, "config.json says 99 for the rows, the tensors have 41"),
        ({"config": {"hidden_dim": 64}}, "config.json says 64 for the width, the tensors have 48"),
        ({"config": {"n_heads": "many"}}, "n_heads in config.json must be a number"),
        ({"config": {"n_heads": 5}}, "cannot be divided into 5 heads"),
        ({"config": {"model_length": None}}, "does not say how long its sequences are"),
        ({"config": {"model_type": "llama"}}, "of no layout that is known here (model_type 'llama')"),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_nothing_is_written(tmp_path, change, complaint, capsys):
    source = _broken(tmp_path / "source", **change)
    with pytest.raises(SystemExit) as stopped:
        main(["import", source, "--out", str(tmp_path / "out"), "--tokenizer", str(_tokenizer(tmp_path, 40))])
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert complaint in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["40.tokenizer.json", "source"]


def test_pickles_are_refused_with_what_to_do(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "last.ckpt").write_bytes(b"\x80\x04.")
    with pytest.raises(UserError, match=r"last.ckpt holds weights as a pickle.*safetensors.torch.save_file"):
        import_model(str(tmp_path / "source"), tmp_path / "out")
    with pytest.raises(UserError, match=r"last.ckpt holds weights as a pickle"):
        import_model(str(tmp_path / "source" / "last.ckpt"), tmp_path / "out")
    (tmp_path / "source" / "last.ckpt").unlink()
    with pytest.raises(UserError, match=r"no \*\.safetensors"):
        import_model(str(tmp_path / "source"), tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("duo", {"mask": 40}, "DUO has no mask"),
        ("sedd", {"mask": 3}, "the last row, 40"),
        ("candi", {"mask": 3}, "the last row, 40"),
        ("mdlm", {"mask": 41}, "cannot be row 41"),
        ("mdlm", {"layout": "candi"}, "no table algo"),
        ("mdlm", {"layout": "mdml"}, "did you mean 'mdlm'"),
        ("mdlm", {"layout": "sedd"}, "no tables graph and noise"),
    ],
)
def test_wrong_options_are_refused(tmp_path, name, options, complaint):
    tokenizer = str(_tokenizer(tmp_path, 41 if name == "duo" else 40))
    with pytest.raises(UserError, match=complaint):
        import_model(str(PUBLISHED / name), tmp_path / "out", tokenizer=tokenizer, **options)
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_of_another_size_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"has 30 tokens, .* 40; give its own"):
        import_model(str(PUBLISHED / "mdlm"), tmp_path / "out", tokenizer=str(_tokenizer(tmp_path, 30)))


def test_every_layout_recognises_its_own_alone():
    configs = {name: json.loads((PUBLISHED / name / "config.json").read_text())
               for name in NAMES}  # fmt: skip
    configs |= {"llada": {"model_type": "llada"}, "dream": {"model_type": "Dream"},
                "causal": {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
                "masked": {"model_type": "bert", "architectures": ["BertForMaskedLM"]}}  # fmt: skip
    assert configs.keys() == IMPORTERS.keys()
    for name, config in configs.items():
        assert [one.name for one in IMPORTERS.values() if one.recognises(config)] == [name]
