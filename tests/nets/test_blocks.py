"""Blocks: the attention's pattern, the cache, and the exact posterior of a small distribution, block by block."""

import dataclasses
import json

import pytest
import torch

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.data.pieces import Piece
from candi.data.tokenizer import Tokenizer
from candi.diffusion.guidance import tempered
from candi.diffusion.methods import AR, METHODS
from candi.diffusion.sampler import bind, last_state
from candi.diffusion.state import State
from candi.model.model import Model
from candi.nets.blocks import Blocks, Joined, Memory, Pattern
from candi.nets.blockwise import BlockDenoiser, sample_blocks
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.nets.ideal import IdealBlockDenoiser
from candi.nets.transformers_trunk import TransformersSettings
from candi.training.objective import DenoisingObjective
from tests.diffusion.test_exact import TOY, N, floor  # noqa: F401 - a fixture

LENGTH, BLOCK, VOCAB = 12, 4, 7
TOKENIZER = Tokenizer.characters([Piece("abcdefg", False)])
DIFFUSION = sorted(set(METHODS) - {"ar"})
TRUNKS = {
    "dit": DiTSettings(width=16, blocks=2, heads=2, conditioning=8),
    "dit with a convolution": DiTSettings(width=16, blocks=2, heads=2, conditioning=8, convolution=6),
    "transformers": TransformersSettings(),
    "transformers, shifted": TransformersSettings(shift="front"),
    "transformers, the first repeated": TransformersSettings(shift="repeat"),
}


def _denoiser(name: str, trunk: str = "dit", block: int | None = BLOCK, length: int = LENGTH) -> Denoiser:
    settings = METHODS[name]()
    if name == "candi":
        settings = dataclasses.replace(settings, rank_min=0.1, rank_max=0.4)
    torch.manual_seed(0)
    config = ModelConfig(
        VOCAB, length, name, settings, TRUNKS[trunk], trunk=trunk.split(" ")[0].strip(","), block=block
    )
    denoiser = Denoiser.build(config).eval()
    for parameter in denoiser.parameters():  # gates begin at 0
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    return denoiser


def _corrupted(denoiser: Denoiser, seed: int = 1) -> tuple[torch.Tensor, State]:
    x0 = torch.randint(VOCAB, (2, LENGTH), generator=torch.Generator().manual_seed(seed))
    parts = denoiser.split(x0)
    return x0, denoiser.method.corrupt(parts, torch.linspace(0.1, 0.9, len(parts)), Rng.from_seed(seed))


def _block(state: State, number: int) -> State:
    count = LENGTH // BLOCK
    return State(
        state.t[number::count], state.known[number::count], state.tokens[number::count],
        None if state.values is None else state.values[number::count],
        noise_t=None if state.noise_t is None else state.noise_t[number::count],
    )  # fmt: skip


def test_the_pattern_is_the_one_of_the_definition():
    """Position by position: the same block and copy; or a clean block before; or, from a clean one, its own."""
    every = range(LENGTH // BLOCK)
    sees = Pattern(BLOCK, every, every).sees(torch.device("cpu"))
    for q in range(2 * LENGTH):
        for k in range(2 * LENGTH):
            mine, theirs, q_clean, k_clean = q % LENGTH // BLOCK, k % LENGTH // BLOCK, q >= LENGTH, k >= LENGTH
            wanted = (mine == theirs and q_clean == k_clean) or (k_clean and theirs < mine)
            assert bool(sees[q, k]) == wanted, (q, k)


@pytest.mark.quick
@pytest.mark.parametrize("trunk", TRUNKS)
@pytest.mark.parametrize("name", ["mdlm", "candi"])
def test_one_pass_and_the_cache_compute_the_same(double, name, trunk):
    """What training computes side by side is what sampling computes block by block, whether blocks are read one by one

    or several at once.
    """
    denoiser = _denoiser(name, trunk)
    x0, state = _corrupted(denoiser)
    at_once = denoiser.predict(denoiser.features, state, None, x0).features.unflatten(0, (2, -1))
    one_by_one, late, uncached = BlockDenoiser(denoiser), BlockDenoiser(denoiser), BlockDenoiser(denoiser, cached=False)
    late.extend(x0[:, : 2 * BLOCK])
    for number in range(3):
        part = _block(state, number)
        for reader in (one_by_one, uncached, *([late] if number == 2 else [])):
            torch.testing.assert_close(reader(part).features, at_once[:, number], rtol=1e-6, atol=1e-6)
        for reader in (one_by_one, uncached):
            reader.extend(x0[:, number * BLOCK : (number + 1) * BLOCK])


@pytest.mark.parametrize("trunk", TRUNKS)
def test_a_block_sees_nothing_of_later_ones(double, trunk):
    denoiser = _denoiser("mdlm", trunk)
    x0, state = _corrupted(denoiser)
    before = denoiser(state, context=x0).features.unflatten(0, (2, -1))
    changed = x0.clone()
    changed[:, BLOCK : 2 * BLOCK] = (changed[:, BLOCK : 2 * BLOCK] + 1) % VOCAB
    after = denoiser(state, context=changed).features.unflatten(0, (2, -1))
    torch.testing.assert_close(after[:, :2], before[:, :2], rtol=0, atol=0)  # its own block it sees noisy alone
    assert (after[:, 2] - before[:, 2]).abs().max() > 1e-3


@pytest.mark.parametrize("name", DIFFUSION)
def test_one_block_is_the_plain_method(name):
    """Loss and samples under one seed, to the bit."""
    plain, whole = _denoiser(name, block=None), _denoiser(name, block=LENGTH)
    x0 = torch.randint(VOCAB, (4, LENGTH), generator=torch.Generator().manual_seed(3))
    losses = [
        DenoisingObjective(one)(x0, range(4), 4, Rng.per_row(range(4))) for one in (plain, whole)
    ]  # fmt: skip
    assert torch.equal(*losses)
    samples = [Model(one, TOKENIZER).sample(3, steps=6, seed=5) for one in (plain, whole)]
    assert torch.equal(*samples)


@pytest.mark.parametrize("name", ["mdlm", "candi"])
def test_both_copies_of_a_single_block_are_the_plain_network(double, name):
    """Side by side, where the clean copy is seen by nobody."""
    denoiser = _denoiser(name, block=LENGTH)
    x0 = torch.randint(VOCAB, (3, LENGTH))
    state = denoiser.method.corrupt(x0, torch.tensor([0.2, 0.5, 0.8]), Rng.from_seed(0))
    joined = Blocks(LENGTH).side_by_side(LENGTH, x0.device)
    inputs = (state.t, state.known, state.tokens, state.values, state.noise_t, None)
    torch.testing.assert_close(denoiser.features(*inputs, x0, joined), denoiser.features(*inputs))


def _walked(method, size: int, steps: int, n: int = N, **options: str) -> torch.Tensor:
    """Samples of the toy, block by block, with the exact posterior."""
    ideal = IdealBlockDenoiser(method, TOY.sequences, TOY.probabilities, TOY.vocab_size, size)
    sampling, rng = bind(method, **options), Rng.from_seed(0)
    nothing = torch.zeros(n, TOY.length, dtype=torch.long)
    prior = sampling.prior(nothing, nothing.bool(), rng)
    steps_of = sampling.timesteps(steps, size)
    walk = sample_blocks(
        [ideal], tempered(ideal, 1.0), sampling.step, prior, steps_of,
        lambda number, rows: rng if not number else Rng.from_seed(number), size,
    )  # fmt: skip
    return last_state(walk).tokens


def _method(name: str):
    from candi.diffusion.embeddings import TokenEmbedding

    options = {"rank_min": 0.01, "rank_max": 0.48} if name == "candi" else {}
    return METHODS[name](**options).build(TokenEmbedding(TOY.vocab_size, 8))


@pytest.mark.parametrize("name", ["mdlm", "candi"])
@pytest.mark.parametrize("size", [1, 2])
def test_sampling_in_blocks_reaches_the_truth(double, floor, name, size):  # noqa: F811
    """Tolerance as of the plain methods: 0.006 for what is left of the discretisation."""
    assert TOY.distance(_walked(_method(name), size, 96)) < floor + 0.006


def test_one_step_a_block_of_one_is_the_chain_rule(double, floor):  # noqa: F811
    """A block of one token needs one step: p(x) = prod p(x_i | x_<i), and nothing is left of the discretisation."""
    assert TOY.distance(_walked(_method("mdlm"), 1, 1)) < floor + 0.002
    assert TOY.distance(_walked(_method("mdlm"), 2, 1)) > floor + 0.02  # two tokens at once are drawn independently


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("name", ["mdlm", "udlm"])
def test_the_bound_in_blocks_is_the_entropy(double, name, size):
    """sum_k -log p(x^k | x^<k) in expectation; for any size the same number. Three standard errors."""
    method = _method(name)
    if method.leave_one_out and size == 1:
        pytest.skip("without its one position a state of one position says nothing: covered by the larger ones")
    ideal = IdealBlockDenoiser(method, TOY.sequences, TOY.probabilities, TOY.vocab_size, size)
    blocks, n = Blocks(size), 4000
    x0 = TOY.truth(n, 7)
    parts = blocks.split(x0)
    t = 1e-4 + (1 - 1e-4) * torch.rand(len(parts), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    state = method.corrupt(parts, t, Rng.from_seed(4))
    prediction = ideal.side_by_side(state, x0)
    nats = method.loss(prediction, state, parts).reshape(n, -1).sum(-1)
    nats = nats + method.endpoint_terms(lambda _: prediction, parts, Rng.from_seed(5)).reshape(n, -1).sum(-1)
    expected = -(TOY.probabilities * TOY.probabilities.log()).sum()
    assert abs(nats.mean() - expected) < 3 * nats.std() / n**0.5


@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral", "gpt2", "gpt_neox", "opt", "phi", "bert", "electra"])
def test_networks_of_transformers_that_read_blocks(kind):
    """One pass and the cache agree, and what fills the window is the plain network; shifted, as from a causal one."""
    values = {"model_type": kind, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
              "intermediate_size": 48, "max_position_embeddings": 64, "vocab_size": 8}  # fmt: skip
    more = {"gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64, "attn_pdrop": 0.0},
            "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32}, "electra": {"embedding_size": 32},
            "qwen2": {"num_key_value_heads": 1},
            "mistral": {"num_key_value_heads": 1, "sliding_window": None}, "gpt_neox": {"rotary_pct": 1.0}}  # fmt: skip
    architecture = json.dumps(values | more.get(kind, {}))
    settings = TransformersSettings(width=32, architecture=architecture, shift="front")
    torch.manual_seed(0)
    for block in (BLOCK, LENGTH):
        config = ModelConfig(VOCAB, LENGTH, "mdlm", METHODS["mdlm"](), settings, trunk="transformers", block=block)
        denoiser = Denoiser.build(config).eval()
        denoiser.trunk.front.data.normal_()
        x0 = torch.randint(VOCAB, (2, LENGTH), generator=torch.Generator().manual_seed(1))
        parts = denoiser.split(x0)
        state = denoiser.method.corrupt(parts, torch.linspace(0.3, 0.9, len(parts)), Rng.from_seed(1))
        last = torch.arange(len(parts) // 2 - 1, len(parts), len(parts) // 2)
        reader = BlockDenoiser(denoiser)
        if block < LENGTH:
            reader.extend(x0[:, :-block])
        with torch.no_grad():
            whole = denoiser(state, context=x0).features[last]
            found = reader(State(state.t[last], state.known[last], state.tokens[last])).features
        torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["roberta", "mamba", "bloom"])
def test_other_networks_of_transformers_are_refused(kind):
    """Their attention is not told of blocks, or their positions count from elsewhere."""
    architecture = json.dumps({"model_type": kind, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2})
    settings = TransformersSettings(width=32, architecture=architecture)
    with pytest.raises(UserError, match="cannot read blocks"):
        Denoiser.build(
            ModelConfig(VOCAB, LENGTH, "mdlm", METHODS["mdlm"](), settings, trunk="transformers", block=BLOCK)
        )


def test_a_block_of_one_of_a_causal_network_is_the_network(double):
    """A causal language model, made to write block by block of one token, predicts what it predicted."""
    trunk = TransformersSettings()
    torch.manual_seed(0)
    causal = Denoiser.build(ModelConfig(VOCAB, LENGTH, "ar", METHODS["ar"](), trunk, trunk="transformers")).eval()
    for name, parameter in causal.named_parameters():  # the head begins at 0, and would predict one thing
        if "timestep" not in name:  # a language model is told no time
            parameter.data.add_(0.1 * torch.randn_like(parameter))
    blocky = ModelConfig(
        VOCAB, LENGTH, "mdlm", METHODS["mdlm"](), trunk.started_from(True, False), trunk="transformers", block=1
    )
    denoiser = Denoiser.build(blocky).eval()
    weights = {**denoiser.state_dict(), **causal.state_dict()}
    weights["trunk.front"] = causal.method.embedding.mask_vector().detach()
    assert isinstance(causal.method, AR)
    denoiser.load_state_dict(weights)
    x0 = torch.randint(VOCAB, (3, LENGTH))
    expected = causal(causal.method.corrupt(x0, torch.ones(3), Rng.from_seed(0))).nll(x0)
    parts = denoiser.split(x0)
    state = denoiser.method.prior(parts, torch.zeros_like(parts, dtype=torch.bool), Rng.from_seed(0))
    found = denoiser(state, context=x0).nll(parts).view(x0.shape)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_the_memory_keeps_only_clean_positions():
    denoiser = _denoiser("mdlm", "transformers, shifted")
    reader = BlockDenoiser(denoiser)
    reader.extend(torch.zeros(2, 2 * BLOCK, dtype=torch.long))
    state = denoiser.method.prior(torch.zeros(2, BLOCK).long(), torch.zeros(2, BLOCK).bool(), Rng.from_seed(0))
    for _ in range(3):
        reader(state)
    assert {layer.keys.shape[2] for layer in reader.memory.layers.values()} == {1 + 2 * BLOCK}  # one in front
    reader.select(torch.tensor([1]))
    assert {len(layer.keys) for layer in reader.memory.layers.values()} == {1}


def test_a_convolution_remembers_its_inputs():
    denoiser = _denoiser("mdlm", "dit with a convolution")
    memory = Memory()
    tokens = torch.zeros(4, BLOCK, dtype=torch.long)
    vectors, time = denoiser.method.embedding.lookup(tokens), torch.zeros(4)
    denoiser.trunk(vectors, time, None, Joined(Pattern(BLOCK, range(0), range(0, 2)), memory))
    assert memory.layers[0].inputs.shape == (2, 16, 3)  # 6 positions: 3 before, itself, 2 after


@pytest.mark.parametrize(
    ("length", "block", "said"),
    [(250, 16, "--block 10 does"), (250, 0, "--block 1 does"), (250, 300, "--block 250 does")],
)
def test_blocks_that_do_not_fill_a_sequence_are_refused(length, block, said):
    with pytest.raises(UserError, match=said):
        ModelConfig(VOCAB, length, "mdlm", METHODS["mdlm"](), TRUNKS["dit"], block=block)


def test_a_causal_method_and_a_trunk_without_blocks_are_refused():
    with pytest.raises(UserError, match="token by token already; leave out --block"):
        _denoiser("ar")
    denoiser = _denoiser("mdlm")
    denoiser.trunk.reads_blocks = False
    with pytest.raises(UserError, match="cannot read blocks"):
        Denoiser(denoiser.method, denoiser.trunk, block=BLOCK)
