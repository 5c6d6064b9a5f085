"""Random numbers of many rows in one launch, in Triton's dialect: Philox, a cipher of (seed of a row; place, draw)."""

import triton
import triton.language as tl

UNIFORM, UNIFORM_DOUBLE, NORMAL, NORMAL_DOUBLE = (tl.constexpr(kind) for kind in range(4))


@triton.jit(do_not_specialize=["draw", "count", "blocks"])
def fill(out, seeds, draw, count, blocks, KIND: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) // blocks
    place = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    zero = place * 0
    a, b, c, d = tl.philox(tl.load(seeds + row), place, zero + draw, zero, zero)
    if KIND == UNIFORM:  # 24 bits
        value = (a >> 8).to(tl.float32) * (1.0 / 16777216)
    elif KIND == UNIFORM_DOUBLE:  # 53 bits
        value = _double(a, b)
    elif KIND == NORMAL:  # Box and Muller; the 32-bit uniform is never 0
        radius = tl.sqrt(-2 * tl.log((a.to(tl.float32) + 1) * (1.0 / 4294967296)))
        value = radius * tl.cos(b.to(tl.float32) * (6.283185307179586 / 4294967296))
    else:
        value = tl.sqrt(-2 * tl.log(1 - _double(a, b))) * tl.cos(_double(c, d) * 6.283185307179586)
    tl.store(out + row.to(tl.int64) * count + place, value, mask=place < count)


@triton.jit
def _double(high, low):
    return ((high >> 5).to(tl.float64) * 67108864.0 + (low >> 6).to(tl.float64)) * (1.0 / 9007199254740992)
