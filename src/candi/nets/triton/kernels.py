"""The kernels themselves, in Triton's dialect: no types, and `n`, `v`, `k` for rows, columns and inner dimension."""

import triton
import triton.language as tl


@triton.jit
def sums(
    rows, weight, bias, maxima, totals, parts, scale, count, size, width: tl.constexpr, blocks,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PART: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    # neighbouring programs share columns of W, which then come from the cache
    place = tl.program_id(0)
    span = GROUP * tl.cdiv(count, ROWS)
    first = place // span * GROUP
    wide = tl.minimum(blocks - first, GROUP)
    block = first + place % span % wide
    n = place % span // wide * ROWS + tl.arange(0, ROWS)
    v = block * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, DEPTH)
    at_row = rows + tl.where(n < count, n, 0)[:, None].to(tl.int64) * width + k[None, :]
    at_weight = weight + tl.where(v < size, v, 0)[None, :].to(tl.int64) * width + k[:, None]
    z = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, width, DEPTH):
        if EVEN:
            x, w = tl.load(at_row), tl.load(at_weight)
        else:
            inside = start + k < width
            x = tl.load(at_row, mask=inside[None, :], other=0.0)
            w = tl.load(at_weight, mask=inside[:, None], other=0.0)
        z = tl.dot(x, w, z, input_precision="ieee")
        at_row += DEPTH
        at_weight += DEPTH
    z = (z + tl.load(bias + v, mask=v < size, other=0.0)[None, :].to(tl.float32)) * scale
    z = tl.where(v[None, :] < size, z, float("-inf"))
    largest = tl.max(z, 1)
    e = tl.exp(z - tl.where(largest == float("-inf"), 0.0, largest)[:, None])
    here = n.to(tl.int64) * blocks + block
    tl.store(maxima + here, largest, mask=n < count)
    if parts is None:
        tl.store(totals + here, tl.sum(e, 1), mask=n < count)
    else:
        each: tl.constexpr = BLOCK // PART
        by_part = tl.sum(tl.reshape(e, (ROWS, each, PART)), 2)
        tl.store(totals + here, tl.sum(by_part, 1), mask=n < count)
        tl.store(parts + here[:, None] * each + tl.arange(0, each)[None, :], by_part, mask=n[:, None] < count)


@triton.jit
def below(target, total):
    """min(target, the largest number below total): then the first cumulative sum above it is that of a possible one."""
    return tl.where(target < total, target, total * (1.0 - 1.2e-16))


@triton.jit
def pick(
    rows, weight, bias, maxima, totals, parts, uniform, drawn, scale, size, width, blocks,
    BLOCKS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    # which block
    j = tl.arange(0, BLOCKS)
    peaks = tl.load(maxima + n * blocks + j, mask=j < blocks, other=float("-inf"))
    share = tl.exp(peaks - tl.max(peaks, 0))
    mass = (tl.load(totals + n * blocks + j, mask=j < blocks, other=0.0) * share).to(tl.float64)
    cumulative = tl.cumsum(mass, 0)
    total = tl.max(cumulative, 0)
    target = below(tl.load(uniform + n).to(tl.float64) * total, total)
    block = tl.sum((cumulative <= target).to(tl.int32), 0)
    rest = target - tl.sum(tl.where(j == block - 1, cumulative, 0.0), 0)
    rest = rest / tl.sum(
        tl.where(j == block, mass, 0.0), 0
    )  # a share of the block: how its sum was rounded is no matter
    # which part of it
    each: tl.constexpr = BLOCK // PART
    i = tl.arange(0, each)
    mass = tl.load(parts + (n * blocks + block) * each + i).to(tl.float64)
    cumulative = tl.cumsum(mass, 0)
    total = tl.max(cumulative, 0)
    rest = below(rest * total, total)
    part = tl.sum((cumulative <= rest).to(tl.int32), 0)
    rest = rest - tl.sum(tl.where(i == part - 1, cumulative, 0.0), 0)
    rest = rest / tl.sum(tl.where(i == part, mass, 0.0), 0)
    # which column of that
    v = block * BLOCK + part * PART + tl.arange(0, PART)
    k = tl.arange(0, WIDTH)
    x = tl.load(rows + n * width + k, mask=k < width, other=0.0).to(tl.float32)
    inside = (v[:, None] < size) & (k[None, :] < width)
    w = tl.load(weight + v[:, None].to(tl.int64) * width + k[None, :], mask=inside, other=0.0).to(tl.float32)
    z = (tl.sum(w * x[None, :], 1) + tl.load(bias + v, mask=v < size, other=0.0).to(tl.float32)) * scale
    z = tl.where(v < size, z, float("-inf"))
    cumulative = tl.cumsum(tl.exp(z - tl.max(z, 0)).to(tl.float64), 0)
    total = tl.max(cumulative, 0)
    column = tl.sum((cumulative <= below(rest * total, total)).to(tl.int32), 0)
    tl.store(drawn + n, (block * BLOCK + part * PART + column).to(tl.int64))


@triton.jit
def slope(logits, normaliser, targets, upstream, size, BLOCK: tl.constexpr):
    n = tl.program_id(0).to(tl.int64)
    v = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = logits + n * size + v
    p = tl.exp(tl.load(at, mask=v < size, other=0.0).to(tl.float32) - tl.load(normaliser + n))
    slope = tl.where(v == tl.load(targets + n), p - 1.0, p) * tl.load(upstream + n)
    tl.store(at, slope.to(logits.dtype.element_ty), mask=v < size)


@triton.jit
def softmax(logits, scale, size, BLOCK: tl.constexpr):
    row = logits + tl.program_id(0).to(tl.int64) * size
    v = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -1.0e30, tl.float32)  # of each lane, as is the sum
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        z = tl.load(row + start + v, mask=start + v < size, other=float("-inf")).to(tl.float32) * scale
        larger = tl.maximum(largest, z)
        total = total * tl.exp(largest - larger) + tl.exp(z - larger)
        largest = larger
    top = tl.max(largest, 0)
    inverse = 1.0 / tl.sum(total * tl.exp(largest - top), 0)
    for start in range(0, size, BLOCK):
        at = row + start + v
        z = tl.load(at, mask=start + v < size, other=0.0).to(tl.float32) * scale
        tl.store(at, (tl.exp(z - top) * inverse).to(logits.dtype.element_ty), mask=start + v < size)
