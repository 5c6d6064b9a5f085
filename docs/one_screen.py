"""CANDI on one screen: data, noise, network, loss and samples, each a piece of the library.

    python docs/one_screen.py [STEPS]

Masking decides which positions stay clean: known ~ Bernoulli(alpha(t)). Gaussian noise covers the rest:
y = w_x + sigma(t) z. The network predicts p(x0 | z_t) at the noisy positions and learns it by cross-entropy,
weighted by -alpha'/(1 - alpha). Sampling goes back from noise: some positions are revealed at each step, the others
move along the ODE.
"""

import sys
from pydoc_data.topics import topics

import torch

from candi import (
    CANDI,
    Denoiser,
    DiT,
    DiTSettings,
    Rng,
    TokenEmbedding,
    bind_step,
    last_state,
    sample,
    schedules,
    spaces,
    timesteps,
)

STEPS, BATCH, LENGTH, WIDTH = int(sys.argv[1]) if len(sys.argv) > 1 else 600, 32, 64, 64
torch.manual_seed(0)

# data: the manual that every Python carries, a token for each character
text = "\n".join(topics.values())
alphabet = sorted(set(text))
number = {character: index for index, character in enumerate(alphabet)}
data = torch.tensor([number[character] for character in text])

# method: where noise lives, how it grows, how positions are masked
embedding = TokenEmbedding(len(alphabet), WIDTH)
method = CANDI(embedding, space=spaces.Projected(embedding), sigma=schedules.RankLinear(0.05, 0.25))

# network: token vectors -> trunk -> head
denoiser = Denoiser(method, DiT(DiTSettings(width=WIDTH, blocks=3, heads=4, convolution=7)))
optimizer = torch.optim.AdamW(denoiser.parameters(), lr=2e-3)

# training: E_t [ -alpha'/(1 - alpha) * -log p(x0_i | z_t) ] over noisy positions
for step in range(STEPS):
    rng = Rng.from_seed(step)
    starts = rng.integers(BATCH, below=len(data) - LENGTH)
    x0 = data[starts[:, None] + torch.arange(LENGTH)]
    t = (torch.arange(BATCH) + rng.uniform(BATCH)) / BATCH  # one time in each of BATCH intervals
    state = method.corrupt(x0, t.clamp(min=1e-3), rng)
    loss = method.loss(denoiser(state), state, x0).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(denoiser.parameters(), 1.0)
    optimizer.step()
    if step % 100 == 0 or step == STEPS - 1:
        print(f"step {step}: {float(loss.detach()):.3f} nats a character")

# sampling: from noise, with a prompt that stays
denoiser.eval()
prompt = torch.tensor([number[character] for character in "The "])
x0, known = torch.zeros(4, LENGTH, dtype=torch.long), torch.zeros(4, LENGTH, dtype=torch.bool)
x0[:, : len(prompt)], known[:, : len(prompt)] = prompt, True
rng = Rng.from_seed(1)
end = last_state(sample(denoiser, bind_step(method), method.prior(x0, known, rng), timesteps(32), rng))
for row in method.decode(end).tolist():
    print("|", "".join(alphabet[token] for token in row).replace("\n", " "))
