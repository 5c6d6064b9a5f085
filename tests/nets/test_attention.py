"""Attention: one form for all kernels."""

import torch

from candi.nets.attention import attention


def test_attention_is_the_softmax_of_products():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 7, 8, dtype=torch.float64) for _ in range(3))
    scores = q @ k.transpose(-1, -2) / 8**0.5
    left = torch.ones(7, 7, dtype=torch.bool).tril()
    for causal, mask in ((False, None), (True, None), (False, left)):
        seen = left if causal or mask is not None else torch.ones_like(left)
        expected = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v
        torch.testing.assert_close(attention(q, k, v, causal, mask), expected)
