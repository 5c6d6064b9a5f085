"""Networks of the transformers library between our token vectors and our head."""

import json

import pytest
import torch

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.diffusion.methods import METHODS
from candi.diffusion.sampler import bind, last_state, sample
from candi.nets import transformers_attention
from candi.nets.causal import KVCachedDenoiser
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.transformers_trunk import TransformersSettings

masking_utils = pytest.importorskip("transformers.masking_utils")
_SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9}
NETWORKS = {
    "llama": _SMALL, "qwen2": _SMALL | {"num_key_value_heads": 2}, "bert": _SMALL,
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 9, "bos_token_id": 1, "eos_token_id": 1},
    "modernbert": _SMALL | dict.fromkeys([f"{one}_token_id" for one in ("pad", "bos", "eos", "cls", "sep")], 0),
}  # fmt: skip


def _settings(kind: str, **options: object) -> TransformersSettings:
    return TransformersSettings(32, json.dumps({"model_type": kind, **NETWORKS[kind]}), **options)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("causal", [False, True])
def test_a_position_sees_both_sides_or_its_left_alone(kind, causal):
    torch.manual_seed(0)
    trunk = _settings(kind).build(causal).eval()
    vectors = torch.randn(2, 7, 32)
    changed = vectors.clone()
    changed[:, 4] = torch.randn(2, 32)
    with torch.no_grad():
        difference = (trunk(vectors, torch.zeros(2)) - trunk(changed, torch.zeros(2))).abs().amax(-1).amax(0)
    assert (difference > 1e-6).tolist() == ([False] * 4 + [True] * 3 if causal else [True] * 7)
    assert len(trunk.sharding_units()) == 2


@pytest.mark.parametrize("shift", ["no", "front", "repeat"])
def test_a_prediction_is_read_where_it_was_learned(shift):
    """One place before its own, where a vector stands before the first or the first is read from itself."""
    torch.manual_seed(0)
    plain, moved = (_settings("llama", shift=how, time=False).build(False).eval() for how in ("no", shift))
    moved.load_state_dict({**moved.state_dict(), **plain.state_dict()})
    vectors, time = torch.randn(2, 5, 32), torch.zeros(2)
    with torch.no_grad():
        found = moved(vectors, time)
        if shift == "front":
            moved.front.data = torch.randn(32)
            longer = torch.cat([moved.front.expand(2, 1, 32), vectors], 1)
            torch.testing.assert_close(moved(vectors, time), plain(longer, time)[:, :-1])
        elif shift == "repeat":
            features = plain(vectors, time)
            torch.testing.assert_close(found, torch.cat([features[:, :1], features[:, :-1]], 1))
        else:
            torch.testing.assert_close(found, plain(vectors, time))


def test_the_time_begins_unseen_and_can_be_learned():
    torch.manual_seed(0)
    trunk = _settings("llama").build(False)
    vectors = torch.randn(2, 5, 32)
    early, late = trunk(vectors, torch.zeros(2)), trunk(vectors, torch.ones(2))
    assert torch.equal(early, late)
    late.square().sum().backward()
    assert float(trunk.timestep_embedder.mlp[-1].weight.grad.norm()) > 0


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_cache_changes_nothing(kind):
    torch.manual_seed(0)
    config = ModelConfig(9, 6, "ar", METHODS["ar"](), _settings(kind, time=False), trunk="transformers")
    denoiser = Denoiser.build(config).eval()
    denoiser.head.weight.data.normal_()
    method, nothing = denoiser.method, torch.zeros(3, 6, dtype=torch.long)
    ends = []
    for cached in (False, True):
        network = KVCachedDenoiser(denoiser, denoiser.trunk.new_cache()) if cached else denoiser
        sampling = bind(method)
        prior = sampling.prior(nothing, nothing.bool(), Rng.from_seed(0))
        ends.append(
            last_state(sample(network, sampling.step, prior, sampling.timesteps(6, 6), Rng.from_seed(1))).tokens
        )
    assert torch.equal(*ends)


@pytest.mark.parametrize(
    ("architecture", "complaint"),
    [("{", "no config.json"), ('{"model_type": "lama"}', "no config.json"), ("[]", "no config.json"),
     ('{"model_type": "llama", "hidden_size": 64}', "is 64 wide, the trunk 32")],
)  # fmt: skip
def test_what_is_no_architecture_is_refused(architecture, complaint):
    with pytest.raises(UserError, match=complaint):
        TransformersSettings(32, architecture).build(False)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2", "bert"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_the_library_and_gets_no_mask(kind, causal, monkeypatch):
    """Whose plain one is given a mask of all pairs; layers of GPT-2 may scale it by their number."""
    torch.manual_seed(0)
    monkeypatch.setitem(NETWORKS, "gpt2", NETWORKS["gpt2"] | {"scale_attn_by_inverse_layer_idx": True})
    monkeypatch.setattr(masking_utils, "is_tracing", lambda *_: True)  # some of its versions build one then
    masks, attend = [], transformers_attention.attend
    monkeypatch.setattr(
        transformers_attention, "attend", lambda *given, **more: masks.append(given[4]) or attend(*given, **more)
    )
    trunk = _settings(kind, time=False).build(causal).eval()
    vectors = torch.randn(2, 5, 32)
    seen = torch.ones(5, 5).tril() if causal else torch.ones(5, 5)
    with torch.no_grad():
        found = trunk(vectors, torch.zeros(2))
        trunk.network.config._attn_implementation = "eager"
        mask = torch.zeros(5, 5).masked_fill(seen == 0, -1e9).expand(2, 1, 5, 5)
        expected = trunk.network(inputs_embeds=vectors, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(found, expected)
    assert masks == [None, None]


def test_layers_that_see_a_window_keep_the_attention_of_the_library():
    """A window is a mask."""
    names = {kind: _settings(kind).build(False).network.config._attn_implementation for kind in ("modernbert", "llama")}
    assert names == {"modernbert": "sdpa", "llama": transformers_attention.NAME}


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_attention_with_dropout_is_left_to_the_library(p, monkeypatch):
    torch.manual_seed(0)
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": p}
    monkeypatch.setitem(NETWORKS, "bert", NETWORKS["bert"] | dropout)
    trunk, vectors, time = _settings("bert").build(False), torch.randn(2, 5, 32), torch.zeros(2)
    learning, done = trunk.train()(vectors, time), trunk.eval()(vectors, time)
    assert torch.equal(learning, done) == (p == 0)
