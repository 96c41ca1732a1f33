"""Estimates of the time and memory of an epoch on 8, 64 and 512 GPUs, computed from measurements on one GPU.

    python -m benchmarks.scaling    # prints them as Markdown; nothing is measured

All inputs are in `Measured` and `Assumed`, and in the text.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

from benchmarks.report import wrap_prose
from benchmarks.step_problem import BN50, Shape

BILLION = Shape("1B frames x 1M features", 360, 1_000_000, 5000, 1000, 1_000_000_000, rate=2.0)
GPUS, BATCHES, NODE = (8, 64, 512), (256, 16_384), 8
MASTER_AND_COPY = 6  # bytes of a weight: float32, and bfloat16 for products
UPDATE = (
    12  # bytes of HBM traffic per weight and step: float32 read and written, bfloat16 written and read by the product
)
GRADIENT = 4  # bytes of a weight's gradient, which is stored if it is summed over processes


@dataclass(frozen=True)
class Measured:
    """From docs/speed.md: BN-50 on one NVIDIA H200 at a batch of 256, in seconds and bytes; `wide` is D = 400k."""

    one_at_once: float = 0.726e-3
    two_at_once: float = 0.562e-3
    softmax_and_sums: float = 103e-6  # "the rest", without the second factor's products
    wide_step: float = 1.47e-3
    wide_bytes: float = 6.1 * 2**30
    ordinary_step: float = 0.99e-3
    launches: float = 0.63e-3

    @property
    def traffic(self) -> float:
        """Seconds per step for Theta's traffic, of which two minibatches at once save half."""
        return 2 * (self.one_at_once - self.two_at_once)

    @property
    def products(self) -> float:
        return self.one_at_once - self.traffic - self.softmax_and_sums

    @property
    def flops(self) -> float:
        """Operations per second reached by the products."""
        return BN50.flops / self.products

    @property
    def bandwidth(self) -> float:
        """Bytes per second reached by the traffic."""
        return UPDATE * weights(BN50, 1) / self.traffic


@dataclass(frozen=True)
class Assumed:
    """Bytes and seconds that were not measured; the page gives their sources."""

    memory: float = 141e9
    nvlink: float = 450e9
    infiniband: float = 50e9
    share_reached: float = 0.8
    nvlink_latency: float = 3e-6
    infiniband_latency: float = 8e-6
    reading: float = 5e9


MEASURED, ASSUMED = Measured(), Assumed()


@dataclass(frozen=True)
class Layout:
    """`features` parts of the model times `data` shares of the rows; parts of one model are neighbours, 8 per node."""

    name: str
    features: int
    data: int

    @property
    def along_features(self) -> tuple[int, int]:
        """Processes per node and nodes that sum scores."""
        return min(self.features, NODE), math.ceil(self.features / NODE)

    @property
    def along_data(self) -> tuple[int, int]:
        """Processes per node and nodes that sum gradients."""
        inside = min(self.data, max(1, NODE // self.features))
        return inside, self.data // inside


ONE = Layout("one GPU", 1, 1)


@dataclass(frozen=True)
class Plan:
    """Seconds per step by category, and bytes per GPU."""

    shape: Shape
    layout: Layout
    batch: int
    compute: float
    traffic: float
    messages: float
    reading: float
    memory: float

    @property
    def step(self) -> float:
        """Rows are read while the GPU computes; the other parts do not overlap."""
        return max(self.compute + self.traffic + self.messages, self.reading)

    @property
    def epoch(self) -> float:
        return self.step * math.ceil(self.shape.num_rows / self.batch)

    @property
    def bottleneck(self) -> str:
        if self.memory > ASSUMED.memory:
            return "memory"
        if self.reading >= self.step:
            return "reading"
        parts = {"compute": self.compute, "HBM": self.traffic, "all-reduce": self.messages}
        return max(parts, key=lambda name: parts[name])


def weights(shape: Shape, features: int) -> int:
    """Numbers of a bottleneck's two factors on one GPU: D r / F + r C."""
    assert shape.rank is not None
    return math.ceil(shape.num_features / features) * shape.rank + shape.rank * shape.num_classes


def all_reduce(size: float, inside: int, nodes: int) -> float:
    """Seconds to sum `size` bytes over `inside` GPUs of each of `nodes` nodes.

    2 (g - 1) / g size / NVLink in the node, then 2 (m - 1) / m (size / g) / InfiniBand between nodes, each GPU with its
    own adapter and its g-th of the message; and 2 log2 latencies of each.
    """
    within = 2 * (inside - 1) / inside * size / (ASSUMED.share_reached * ASSUMED.nvlink)
    between = 2 * (nodes - 1) / nodes * size / inside / (ASSUMED.share_reached * ASSUMED.infiniband)
    near, far = (math.ceil(math.log2(count)) for count in (inside, nodes))
    return within + between + 2 * (near * ASSUMED.nvlink_latency + far * ASSUMED.infiniband_latency)


def plan(shape: Shape, layout: Layout, *, batch: int) -> Plan:
    rows, held = math.ceil(batch / layout.data), weights(shape, layout.features)
    summed = layout.data > 1
    assert shape.rank is not None
    return Plan(
        shape,
        layout,
        batch,
        compute=_divided(shape, layout, rows) + undivided(shape, rows),
        traffic=(UPDATE + 2 * GRADIENT * summed) * held / MEASURED.bandwidth,
        messages=all_reduce(4 * rows * shape.rank, *layout.along_features) + all_reduce(4 * held, *layout.along_data),
        reading=4 * batch * shape.num_inputs / ASSUMED.reading,
        memory=_excess() * counted_bytes(shape, layout, rows, summed=summed),
    )


def _divided(shape: Shape, layout: Layout, rows: int) -> float:
    """Seconds for the projection, the scores and the derivatives of this GPU's features."""
    assert shape.rank is not None
    own = math.ceil(shape.num_features / layout.features) * (shape.num_inputs + 2 * shape.rank)
    return 2.0 * rows * own / MEASURED.flops


def undivided(shape: Shape, rows: int) -> float:
    """Seconds of a step that do not decrease with more parts of the features."""
    assert shape.rank is not None
    second = 6.0 * rows * shape.rank * shape.num_classes
    return second / MEASURED.flops + MEASURED.softmax_and_sums * rows / BN50.batch_size


def counted_bytes(shape: Shape, layout: Layout, rows: int, *, summed: bool) -> float:
    """The map, the weights with their copy (and gradient), and the features and scores of the rows."""
    assert shape.rank is not None
    D = math.ceil(shape.num_features / layout.features)
    model = MASTER_AND_COPY * D * shape.num_inputs
    model += (MASTER_AND_COPY + GRADIENT * summed) * weights(shape, layout.features)
    return float(model + rows * (2 * D + 8 * (shape.rank + shape.num_classes)))


def _excess() -> float:
    """Measured over counted bytes, for D = 400k with the features of 8 minibatches."""
    return MEASURED.wide_bytes / counted_bytes(BN50.with_features(400_000), ONE, 8 * 256, summed=False)


def wide_check() -> float:
    """Estimated seconds of a step for D = 400k with 4 minibatches at once, which was also measured."""
    found = plan(BN50.with_features(400_000), ONE, batch=256)
    return found.compute + found.traffic / 4


def layouts(shape: Shape, gpus: int, *, batch: int) -> list[Plan]:
    """Data-parallel, feature-parallel, and the fastest mesh of both that fits."""
    ends = [Layout("data-parallel", 1, gpus), Layout("feature-parallel", gpus, 1)]
    inner = [2**power for power in range(1, int(math.log2(gpus)))]
    grids = [plan(shape, Layout("mesh", parts, gpus // parts), batch=batch) for parts in inner]
    fitting = [grid for grid in grids if grid.memory <= ASSUMED.memory] or grids
    return [*(plan(shape, end, batch=batch) for end in ends), min(fitting, key=lambda grid: grid.step)]


def duration(seconds: float) -> str:
    """
    >>> duration(31.66), duration(600), duration(20_000)
    ('31.7 s', '10.0 min', '5.6 h')
    """
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _row(found: Plan, alone: Plan) -> str:
    layout, star = found.layout, "*" if found.step < MEASURED.launches else ""
    parts = [f"{1e3 * each:.3f}" for each in (found.compute, found.traffic, found.messages, found.reading, found.step)]
    ends = [duration(found.epoch), f"{alone.epoch / found.epoch:.1f}", f"{found.memory / 1e9:.1f}", found.bottleneck]
    where = f"{layout.name}, {layout.data} x {layout.features}"
    return _line(f"{layout.data * layout.features}", where, *parts[:-1], parts[-1] + star, *ends)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def table(shape: Shape, *, batch: int) -> str:
    """All layouts of one model and batch, and the fastest for each number of GPUs."""
    alone = plan(shape, ONE, batch=batch)
    found = {gpus: layouts(shape, gpus, batch=batch) for gpus in GPUS}
    rows = [_row(alone, alone), *(_row(each, alone) for gpus in GPUS for each in found[gpus])]
    head = [f"### {shape.name}, batch {batch:,}\n", _line(*COLUMNS), _line("---:", "---", *["---:"] * 8, "---")]
    return "\n".join([*head, *rows, "", _fastest(found, alone)])


def _fastest(found: dict[int, list[Plan]], alone: Plan) -> str:
    best = {gpus: min(plans, key=lambda each: each.step) for gpus, plans in found.items()}
    texts = [f"{each.layout.name} on {gpus} ({duration(each.epoch)}, {each.bottleneck})" for gpus, each in best.items()]
    slower = [f"{p.layout.name} on {n}" for n, plans in found.items() for p in plans if p.step > alone.step]
    return f"**Fastest:** {', '.join(texts)}. Slower than one GPU: {', '.join(slower) or 'none'}."


def page() -> str:
    tables = "\n\n".join(table(shape, batch=batch) for shape in (BN50, BILLION) for batch in BATCHES)
    m, files = MEASURED, 4 * BILLION.num_rows * BILLION.num_inputs
    text = TEXT.format(
        tables=tables,
        traffic=f"{1e3 * m.traffic:.3f}",
        products=f"{1e3 * m.products:.3f}",
        tflops=f"{m.flops / 1e12:.0f}",
        bandwidth=f"{m.bandwidth / 1e12:.2f}",
        check=f"{1e3 * wide_check():.2f}",
        excess=f"{_excess():.2f}",
        slower=f"{m.ordinary_step / m.one_at_once:.2f}",
        undivided=f"{1e3 * undivided(BN50, 256):.3f}",
        files=f"{files / 1e12:.2f}",
        floor=duration(files / ASSUMED.reading),
    )
    return wrap_prose(text)


COLUMNS = (
    "GPUs", "layout, rows x features", "compute ms", "HBM ms", "all-reduce ms", "reading ms", "step ms", "epoch",
    "speed-up", "GB per GPU", "bottleneck",
)  # fmt: skip

TEXT = """# Scaling

**Estimates, not measurements**: nothing here was run on more than one GPU. The estimates are computed from steps
measured on one GPU (docs/speed.md) and from assumed bandwidths. Layouts and messages are those of docs/distributed.md.

Models: BN-50 is d 360, D 100,000, rank 1,000, C 5,000 and 16M frames; the other has the same d, rank and C with D
1,000,000 and 1B frames. Batch 256 is that of the papers, with the same iterates as on one GPU. Whether an epoch with
batches of 16,384 learns as much is not considered.

## Inputs

Measured on one H200 for BN-50 at batch 256:

| | value |
|---|---|
| step, 1 and 2 minibatches at once | 0.726 and 0.562 ms |
| softmax and sums: what the profile calls the rest, without the products of the second factor | 0.130 - 0.027 ms |
| D = 400k: step with 4 at once; memory | 1.47 ms; 6.1 GiB |

Two at once save half of Theta's traffic, so the traffic takes 2 (0.726 - 0.562) = {traffic} ms and the products the
rest, {products} ms: {tflops} TFLOP/s and {bandwidth} TB/s; the ceilings of this GPU are 776 and 4.23. **Check**: for D
= 400k with 4 at once this gives {check} ms; 1.47 ms were measured. Counted memory is multiplied by {excess}, the ratio
of the 6.1 GiB to the count.

Assumed:

| | value | source |
|---|---|---|
| memory of a GPU | 141 GB | NVIDIA, H200 |
| NVLink, each direction | 450 GB/s per GPU, 8 GPUs per node | NVIDIA, H200: 900 GB/s both ways |
| InfiniBand | 50 GB/s per GPU | NVIDIA, DGX H200: a 400 Gb/s adapter for each GPU |
| share of these that messages reach | 0.8 | assumption; measure it with nccl-tests |
| latency of a hop | 3 us in a node, 8 us between nodes | assumption; 2 log2 hops per message |
| rows read by a process | 5 GB/s | assumption: one core copying from the page cache |

## Cost model

With F parts of the features, R shares of the rows, n = batch / R rows and D / F features per GPU, each rounded up:

- compute: 2 n ((d + 2 r) D / F + 3 r C) operations at the rate above, and softmax and sums in proportion to n
- HBM: (D r / F + r C) weights of 12 bytes per step, and 8 more where the gradient is written out to be summed
- all-reduce: 4 n r bytes of scores over F processes, and 4 (D r / F + r C) of gradients over R; 2 (g - 1) / g of a
  message among g GPUs of a node, and 2 (m - 1) / m of its g-th part among m nodes
- reading: every process reads every row, 4 d bytes each, while the GPU computes
- step: the greater of reading and of the sum of the other three, which do not overlap; the bottleneck is reading
  if that is greater, else the greatest of the three, or memory if the model does not fit

A mesh is the fastest grid with 1 < F < GPUs. The estimates assume the fused kernels, one minibatch at once; with
several processes the ordinary step is used, which takes {slower} times as long on one GPU. A star marks steps below
0.63 ms, the time to launch kernels from Python, which is then the bottleneck without a CUDA graph. Frames are not kept
on the GPU. Reading W (6 % of Theta's traffic), optimizer states, stragglers and checkpoints are not counted. Products
of a few rows are slower than the rate above, but there HBM and messages dominate.

## Estimates

{tables}

## Possible improvements

- **Divide features rather than rows at small batches.** Scores are n r numbers and the gradient D r: at 256 rows that
  is 390 and 3,900 times less.
- **The second factor and the softmax** are computed by every process along the features: {undivided} ms of a step at
  256 rows for any number of GPUs. Dividing the classes as well would reduce it.
- **Reading.** 1B frames are {files} TB, and each process reads all of them: no epoch is shorter than {floor}. If
  processes read only the shards of their rows, that would be divided by R.
- **All-reduce of gradients** in bfloat16 would halve the bytes; overlapping it with the next product would hide
  it. Neither is implemented.
- **Memory** is never the limit in these cases. Optimizers with more state than plain SGD, and heads without a
  bottleneck, need more.
"""


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(page())


if __name__ == "__main__":
    main()
