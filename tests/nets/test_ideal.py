import torch

from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import CANDI
from candi.diffusion.schedules import RankLinear
from candi.diffusion.spaces import SPACES
from tests.toys import Toy


def test_marginals_equal_bayes_rule_by_enumeration(double):
    """Sequence by sequence in plain Python, with the Gaussian densities written out."""
    toy = Toy(vocab_size=4, length=3, support=10)
    embedding = TokenEmbedding(4, 5)
    method = CANDI(embedding, space=SPACES["onehot"](embedding), sigma=RankLinear(0.1, 0.4))
    state = method.corrupt(toy.truth(6, seed=2), torch.linspace(0.2, 0.9, 6), Rng.from_seed(1))
    predicted = toy.ideal(method)(state).log_probs().exp()
    sigma = method.sigma(state.t)
    for b in range(6):
        marginals = torch.zeros(3, 4)
        for sequence, prior in zip(toy.sequences.tolist(), toy.probabilities.tolist(), strict=True):
            chance = torch.tensor(prior)
            for i, token in enumerate(sequence):
                if state.known[b, i]:
                    chance = chance * float(int(state.tokens[b, i]) == token)
                else:
                    mean = torch.eye(4)[token]
                    chance = chance * torch.exp(
                        torch.distributions.Normal(mean, sigma[b]).log_prob(state.values[b, i]).sum()
                    )
            for i, token in enumerate(sequence):
                marginals[i, token] += chance
        marginals /= marginals.sum(-1, keepdim=True)
        open = ~state.known[b]
        torch.testing.assert_close(predicted[b, open], marginals[open])
