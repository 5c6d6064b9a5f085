"""Networks of the transformers library between our token vectors and our head."""

import json

import pytest
import torch

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.diffusion.methods import METHODS
from candi.diffusion.sampler import bind, last_state, sample
from candi.nets.causal import KVCachedDenoiser
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.transformers_trunk import TransformersSettings

pytest.importorskip("transformers")
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
