"""Networks of fully connected or time-delay layers, plain as in the papers or with batch normalisation and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.data.blocks import seeded
from bochner.models.heads import BottleneckHead, Head, LinearHead, glorot_uniform
from bochner.storage import Storable

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
}
COSINE = "cosine"  # units of random Fourier features while these are trained, see `bochner.search.fit`
_FUNCTIONS = {**ACTIVATIONS, COSINE: torch.cos}
EPSILON = 1e-5  # added to variances, as in torch.nn.BatchNorm1d
WINDOW = 3  # input frames of a time-delay layer: t - dilation, t and t + dilation


class Network(Storable):
    """L hidden layers under a linear head, with or without a bottleneck:

        z_0 = x,   z_l = dropout(activation(a_l)),   logits = head(z_L)
        a_l = W_l z_{l-1} + b_l,   or with batch normalisation   g_l (W_l z_{l-1} - m_l) / sqrt(v_l + 1e-5) + b_l

    Batch normalisation has `scales` g_l. With `residual`, z_{l-1} is added to z_l from the second layer on, where both
    have the same width. In training mode m_l and v_l are the mean and variance over the batch, and dropout sets a share
    of the units to 0 and scales up the others. A network is in evaluation mode unless `train()` is called: m_l and v_l
    are then `means` and `variances`, which `fit_statistics` computes, and dropout does nothing.

    `dilations` makes the first layers time-delay layers (TDNN): 1-d convolutions of width 3 over the frames of a row,
    which is 1 + 2 sum(dilations) spliced frames. Layer l computes its units at the frames t that later layers need,
    from t - dilation, t and t + dilation of the layer below; the last of them is at the middle frame only.

    X [N, d_0]; W_l [d_l, d_{l-1}] as in `torch.nn.Linear`, or [d_l, 3 d_{l-1}] of a time-delay layer; the vectors of a
    layer are [d_l]; weights[0] is W_1; the head takes d_L features. O(N sum_l d_l d_{l-1}) and the head's cost, times
    the frames of each time-delay layer; training keeps O(B sum_l d_l) activations of a batch of B rows.
    Sources: May 2018, Section 4.3 (4 layers of 1000, 2000 or 4000 tanh units were best); JMLR 2019, Section 6. Ioffe &
    Szegedy 2015; Srivastava et al. 2014; He et al. 2016; Peddinti, Povey & Khudanpur 2015 (sub-sampled TDNN).

    >>> network = Network.draw(num_inputs=3, hidden=[8, 8], num_outputs=5, generator=Generator().manual_seed(0))
    >>> network(torch.ones(2, 3)).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
        activation: str,
        head: Head,
        *,
        scales: Sequence[Tensor] | None = None,
        means: Sequence[Tensor] | None = None,
        variances: Sequence[Tensor] | None = None,
        dropout: float = 0.0,
        residual: bool = False,
        dilations: Sequence[int] = (),
    ) -> None:
        super().__init__()
        if activation != COSINE:
            checks.one_of("activation", activation, ACTIVATIONS)
        self.dilations = check_dilations(dilations, len(weights))
        self.num_outputs = _check_shapes(list(weights), list(biases), head, len(self.dilations))
        self.weights, self.biases = nn.ParameterList(weights), nn.ParameterList(biases)
        self.activation = activation
        self.head = head
        for name, values in (("scales", scales), ("means", means), ("variances", variances)):
            if (values is None) != (scales is None):
                raise ValueError("scales, means and variances must be given together, or none of them.")
            if values is not None and [value.shape for value in values] != [bias.shape for bias in biases]:
                shapes = [tuple(value.shape) for value in values]
                raise ValueError(f"{name} must have the shapes of biases, got {shapes}.")
        self.scales = None if scales is None else nn.ParameterList(scales)
        self.means = None if means is None else nn.ParameterList(_frozen(means))
        self.variances = None if variances is None else nn.ParameterList(_frozen(variances))
        self.dropout = check_dropout(dropout)
        self.residual = bool(residual)
        self.amplitude = 1.0  # of the units, other than 1 only for cosines
        self.neighbours = _neighbours(self.dilations)
        self._noise: Generator | None = None
        self.eval()

    @classmethod
    def draw(
        cls,
        *,
        num_inputs: int,
        hidden: Sequence[int],
        num_outputs: int,
        activation: str = "tanh",
        rank: int | None = None,
        batch_norm: bool = False,
        dropout: float = 0.0,
        residual: bool = False,
        dilations: Sequence[int] = (),
        generator: Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Network:
        """A network at its random start, on the generator's device; `rank` puts a linear bottleneck before the output.

        Tanh layers and the head start uniform in +-sqrt(6 / (d_in + d_out)) (Glorot & Bengio 2010), as in the papers.
        ReLU and GELU layers start uniform in +-sqrt(6 / d_in) (He et al. 2015): a ReLU halves the mean square of its
        input, so that Glorot's variance, right for tanh near 0, would halve the signal in every layer. Biases are 0.
        """
        checks.positive_int("num_inputs", num_inputs)
        checks.positive_int("num_outputs", num_outputs)
        checks.one_of("activation", activation, ACTIVATIONS)
        widths = _check_widths(hidden)
        dilations = check_dilations(dilations, len(widths))
        frames = 1 + 2 * sum(dilations)
        if num_inputs % frames:
            raise ValueError(
                f"num_inputs must be a multiple of {frames}, the frames of dilations={list(dilations)}, "
                f"got {num_inputs}."
            )
        inputs = [num_inputs // frames, *widths[:-1]]
        inputs[: len(dilations)] = [WINDOW * width for width in inputs[: len(dilations)]]
        start = glorot_uniform if activation == "tanh" else _he_uniform
        weights = [start(b, a, generator=generator, dtype=dtype) for a, b in zip(inputs, widths, strict=True)]
        zeros = [torch.zeros(len(W), dtype=dtype, device=W.device) for W in weights]
        statistics = {"scales": [b + 1 for b in zeros], "means": zeros, "variances": [b + 1 for b in zeros]}
        return cls(
            weights,
            [b.clone() for b in zeros],
            activation,
            _draw_head(widths[-1], num_outputs, rank, generator, dtype),
            dropout=dropout,
            residual=residual,
            dilations=dilations,
            **(statistics if batch_norm else {}),
        )

    @property
    def num_inputs(self) -> int:
        width = self.weights[0].shape[1]
        return width // WINDOW * (1 + 2 * sum(self.dilations)) if self.dilations else width

    @property
    def widths(self) -> list[int]:
        """Units in each hidden layer."""
        return [len(W) for W in self.weights]

    def forward(self, X: Tensor) -> Tensor:
        Z = checks.inputs("X", X, width=self.num_inputs)
        return self.head(self._hidden(Z, self.training))

    def _hidden(self, X: Tensor, training: bool, *, refit: bool = False) -> Tensor:
        """z_L; with `refit` the statistics of each layer become those of X, in evaluation mode."""
        Z = X.unflatten(1, (1 + 2 * sum(self.dilations), -1)) if self.dilations else X
        for layer, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            below = Z
            if layer < len(self.dilations):
                self.neighbours[layer] = places = self.neighbours[layer].to(Z.device)
                around = Z[:, places]  # [N, frames of this layer, 3, d]
                below, Z = around[:, :, WINDOW // 2], around.flatten(2)
                if Z.shape[1] == 1:
                    below, Z = below.squeeze(1), Z.squeeze(1)
            if self.scales is None:
                A = nn.functional.linear(Z, W, b)
            else:
                A = self._normalize(nn.functional.linear(Z, W), layer, training, refit)
            Z = _FUNCTIONS[self.activation](A)
            if self.amplitude != 1.0:
                Z = self.amplitude * Z
            if training and self.dropout:
                kept = torch.empty_like(Z).bernoulli_(1 - self.dropout, generator=self.noise)
                Z = Z * kept / (1 - self.dropout)
            if self.residual and layer and below.shape == Z.shape:
                Z = Z + below
        return Z

    def _normalize(self, A: Tensor, layer: int, training: bool, refit: bool) -> Tensor:
        assert self.scales is not None
        assert self.means is not None
        assert self.variances is not None
        mean, variance, scale, bias = self.means[layer], self.variances[layer], self.scales[layer], self.biases[layer]
        rows = A.reshape(-1, A.shape[-1])
        if refit:
            variance.copy_(rows.to(variance).var(dim=0, correction=0))
            mean.copy_(rows.to(mean).mean(dim=0))
        if training and len(rows) > 1:  # one row has no variance
            normal = nn.functional.batch_norm(rows, None, None, scale, bias, True, 0.0, EPSILON)
        else:
            normal = nn.functional.batch_norm(rows, mean, variance, scale, bias, False, 0.0, EPSILON)
        return normal.reshape(A.shape)

    @torch.no_grad()
    def fit_statistics(self, X: Tensor) -> None:
        """Set `means` and `variances` of each layer to those of the rows X [N, d_0], without dropout.

        They are those of the current weights: running averages lag behind, do not fit averaged weights, and contain the
        variance added by dropout. Source: Izmailov et al. 2018; Li et al. 2019.
        """
        if self.scales is not None:
            self._hidden(checks.inputs("X", X, width=self.num_inputs), False, refit=True)

    def seed_dropout(self, seed: int, *path: int) -> None:
        """Make the units dropped in the next training steps depend on `seed` and `path` only."""
        self.noise.manual_seed(seeded(seed, "dropout", *path).initial_seed())

    @property
    def noise(self) -> Generator:
        """The generator that dropout draws from, on the device of the weights."""
        device = self.weights[0].device
        if self._noise is None or self._noise.device != device:
            self._noise = Generator(device)
        return self._noise

    @torch.no_grad()
    def folded_layers(self) -> list[tuple[Tensor, Tensor]]:
        """W and b of each layer with the batch normalisation of evaluation mode folded in, in float64."""
        layers = [(W.double(), b.double()) for W, b in zip(self.weights, self.biases, strict=True)]
        if self.scales is None or self.means is None or self.variances is None:
            return layers
        folded = []
        for (W, b), g, m, v in zip(layers, self.scales, self.means, self.variances, strict=True):
            factor = g.double() / (v.double() + EPSILON).sqrt()
            folded.append((factor[:, None] * W, b - factor * m.double()))
        return folded

    @torch.no_grad()
    def fold_inputs(self, mean: Tensor, std: Tensor) -> None:
        """Turn f((x - mean) / std) into f(x), in place.

        W_1 <- W_1 / std, then b_1 <- b_1 - W_1 mean, or with batch normalisation m_1 <- m_1 + W_1 mean. Not for
        time-delay layers, whose weights are shared by inputs with different means.
        """
        if self.dilations:
            raise ValueError(f"dilations must be empty for fold_inputs, got {list(self.dilations)}.")
        W, b = self.weights[0], self.biases[0]
        W.copy_(W / std.to(W))
        if self.means is None:
            b.sub_(W @ mean.to(W))
        else:
            self.means[0].add_(W @ mean.to(W))

    def lower(self, num_layers: int, *, generator: Generator) -> Network:
        """The first `num_layers` hidden layers under a fresh head of this one's kind.

        The layers are shared, not copied: training the lower network also trains this one. A bottleneck keeps its rank
        where the layer below it is that wide.

        >>> deep = Network.draw(num_inputs=3, hidden=[8, 4], num_outputs=5, generator=Generator().manual_seed(0))
        >>> shallow = deep.lower(1, generator=Generator().manual_seed(1))
        >>> shallow.widths, shallow.weights[0] is deep.weights[0]
        ([8], True)
        """
        if checks.positive_int("num_layers", num_layers) > len(self.weights):
            raise ValueError(f"num_layers must be at most {len(self.weights)}, the hidden layers, got {num_layers}.")
        if num_layers < len(self.dilations):
            raise ValueError(
                f"num_layers must be at least {len(self.dilations)}, the time-delay layers, got {num_layers}."
            )
        top = self.weights[num_layers - 1]
        rank = min(self.head.rank, len(top), self.num_outputs) if isinstance(self.head, BottleneckHead) else None
        head = _draw_head(len(top), self.num_outputs, rank, generator, top.dtype).to(top.device)
        parts = {name: getattr(self, name) for name in ("scales", "means", "variances")}
        return Network(
            [*self.weights[:num_layers]],
            [*self.biases[:num_layers]],
            self.activation,
            head,
            dropout=self.dropout,
            residual=self.residual,
            dilations=self.dilations,
            **{name: None if values is None else [*values[:num_layers]] for name, values in parts.items()},
        )


def check_dilations(dilations: Sequence[int], num_layers: int) -> tuple[int, ...]:
    """The dilations as a tuple; one positive integer for each of the first layers."""
    if len(dilations) > num_layers:
        raise ValueError(f"dilations must be at most one per hidden layer, {num_layers}, got {list(dilations)}.")
    return tuple(checks.positive_int(f"dilations[{i}]", dilation) for i, dilation in enumerate(dilations))


def check_dropout(dropout: float) -> float:
    if not 0 <= checks.nonnegative_float("dropout", dropout) < 1:
        raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout!r}.")
    return float(dropout)


def _neighbours(dilations: Sequence[int]) -> list[Tensor]:
    """For each time-delay layer the places [frames, 3] of its inputs among the frames of the layer below.

    >>> [places.tolist() for places in _neighbours([1, 2])]
    [[[0, 1, 2], [2, 3, 4], [4, 5, 6]], [[0, 1, 2]]]
    """
    needed = [0]
    places = []
    for layer, dilation in reversed(list(enumerate(dilations))):
        offsets = range(-dilation, dilation + 1, dilation)
        below = sorted({t + offset for t in needed for offset in offsets})
        if layer == 0:  # the row has all frames
            below = list(range(-sum(dilations), sum(dilations) + 1))
        places.append(torch.tensor([[below.index(t + offset) for offset in offsets] for t in needed]))
        needed = below
    return places[::-1]


def _frozen(values: Sequence[Tensor]) -> list[nn.Parameter]:
    """Statistics as parameters that no optimizer changes; those of another network stay shared with it."""
    return [v if isinstance(v, nn.Parameter) else nn.Parameter(v, requires_grad=False) for v in values]


def _draw_head(num_features: int, num_outputs: int, rank: int | None, generator: Generator, dtype: torch.dtype) -> Head:
    if rank is not None:
        return BottleneckHead.glorot(
            num_features=num_features, num_outputs=num_outputs, rank=rank, generator=generator, dtype=dtype
        )
    weights = glorot_uniform(num_outputs, num_features, generator=generator, dtype=dtype)
    return LinearHead(weights, weights.new_zeros(num_outputs))


def _he_uniform(d_out: int, d_in: int, *, generator: Generator, dtype: torch.dtype) -> Tensor:
    uniform = torch.rand(d_out, d_in, generator=generator, device=generator.device, dtype=dtype)
    return (2 * uniform - 1) * math.sqrt(6 / d_in)


def _check_widths(hidden: Sequence[int]) -> list[int]:
    if len(hidden) == 0:
        raise ValueError("hidden must hold the width of at least one layer, got none.")
    return [checks.positive_int(f"hidden[{i}]", width) for i, width in enumerate(hidden)]


def _check_shapes(weights: list[Tensor], biases: list[Tensor], head: Head, num_delayed: int) -> int:
    """Check that each layer fits the next; returns the number of outputs of the last."""
    if len(weights) == 0 or len(weights) != len(biases):
        raise ValueError(
            f"weights and biases must hold one tensor per layer, at least one, got {len(weights)} and {len(biases)}."
        )
    for i, (W, b) in enumerate(zip(weights, biases, strict=True)):
        d_in = len(weights[i - 1]) * (WINDOW if i < num_delayed else 1) if i else W.shape[-1]
        if W.ndim != 2 or W.shape[1] != d_in or b.shape != W.shape[:1] or (i < num_delayed and d_in % WINDOW):
            raise ValueError(
                f"weights[{i}] must be [d_out, {d_in}] and biases[{i}] [d_out], "
                f"got {tuple(W.shape)} and {tuple(b.shape)}."
            )
    return _num_outputs(head, weights[-1])


def _num_outputs(head: Head, top: Tensor) -> int:
    if not isinstance(head, Head):
        raise TypeError(f"head must be a LinearHead or BottleneckHead, got {type(head).__name__}.")
    try:
        with torch.no_grad():
            return head(top.new_empty(0, len(top))).shape[1]  # no rows: costs nothing, knows no layout
    except RuntimeError as error:
        raise ValueError(f"head must take {len(top)} features, the width of the last layer: {error}") from error
