"""ONNX graphs from formulas: every operation on a `Value` adds a node."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bochner import checks

# Bytes of weights in a file: protocol buffers are limited to 2 GiB, and nodes need some of it.
MAX_BYTES = 2**31 - 2**20


def onnx(module: str = "") -> Any:
    """`onnx` or one of its modules, imported on first use."""
    return checks.imported(f"onnx.{module}".rstrip("."), extra="onnx")


@dataclass
class Graph:
    """Nodes and constants; `dtype` is that of every float within."""

    dtype: torch.dtype
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    stored_bytes: int = 0

    def add(self, kind: str, *inputs: Operand, **attributes: Any) -> Value:
        """The output of one more node."""
        names = [value.name if isinstance(value, Value) else self.constant(value).name for value in inputs]
        output = self.name(kind)
        self.nodes.append(onnx("helper").make_node(kind, names, [output.name], **attributes))
        return output

    def constant(self, values: Tensor | float) -> Value:
        """A tensor that is stored in the file: floats in the graph's dtype, integers unchanged."""
        tensor = values.detach().cpu() if isinstance(values, Tensor) else torch.tensor(values, dtype=self.dtype)
        if tensor.is_floating_point():
            tensor = tensor.to(self.dtype)
        self._count_bytes(tensor.nbytes)
        value = self.name("Constant")
        self.constants.append(onnx("numpy_helper").from_array(tensor.contiguous().numpy(), value.name))
        return value

    def strings(self, values: Sequence[str]) -> Value:
        """A vector of strings that is stored in the file."""
        value, kind = self.name("Constant"), onnx().TensorProto.STRING
        texts = [text.encode() for text in values]
        self.constants.append(onnx("helper").make_tensor(value.name, kind, [len(texts)], texts))
        return value

    def name(self, kind: str) -> Value:
        """A value with a unique name in this graph and graphs within it."""
        return Value(self, f"{kind}_{next(self.numbers)}")

    def inner(self) -> Graph:
        """An empty graph for the body of a node of this one."""
        return Graph(self.dtype, numbers=self.numbers)

    def proto(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        return onnx("helper").make_graph(self.nodes, name, inputs, outputs, initializer=self.constants)

    def _count_bytes(self, number: int) -> None:
        self.stored_bytes += number
        if self.stored_bytes > MAX_BYTES:
            raise ValueError(
                f"model has more than {self.stored_bytes:,} bytes of weights, and an ONNX file ends at {MAX_BYTES:,}; "
                "use fewer features, or a bottleneck head if it has many outputs."
            )


@dataclass(frozen=True)
class Value:
    """A tensor of the graph, known by its name."""

    graph: Graph
    name: str

    def apply(self, kind: str, *others: Operand, **attributes: Any) -> Value:
        """The output of a node with this value as its first input."""
        return self.graph.add(kind, self, *others, **attributes)

    def __add__(self, other: Operand) -> Value:
        return self.apply("Add", other)

    def __sub__(self, other: Operand) -> Value:
        return self.apply("Sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self.apply("Mul", other)

    def __truediv__(self, other: Operand) -> Value:
        return self.apply("Div", other)

    def __matmul__(self, other: Operand) -> Value:
        return self.apply("MatMul", other)

    def square(self) -> Value:
        return self * self

    def exp(self) -> Value:
        return self.apply("Exp")

    def affine(self, weights: Tensor, bias: Tensor) -> Value:
        """x W^T + b, for weights W [C, D] and bias b [C]."""
        return self.apply("Gemm", weights, bias, transB=1)

    def squared_lengths(self) -> Value:
        """||x||^2 of each row, [N, 1]."""
        return self.square().apply("ReduceSum", torch.tensor([1]), keepdims=1)

    def to(self, dtype: torch.dtype) -> Value:
        return self.apply("Cast", to=getattr(onnx().TensorProto, element_name(dtype)))

    def info(self, shape: Sequence[int | str | None] | None, *, kind: str = "") -> Any:
        """This value as an input or output of its graph; `kind` is ONNX's name of its elements, floats by default."""
        kind = kind or element_name(self.graph.dtype)
        return onnx("helper").make_tensor_value_info(self.name, getattr(onnx().TensorProto, kind), shape)


Operand = Value | Tensor | float
Step = Callable[..., Value]


def element_name(dtype: torch.dtype) -> str:
    """ONNX's name of the elements of such tensors."""
    return {torch.float32: "FLOAT", torch.float64: "DOUBLE", torch.int64: "INT64"}[dtype]


def scan(step: Step, state: Value, *sequences: Operand, ranks: Sequence[int]) -> Value:
    """The last of state <- step(state, a[i], b[i], ..), i = 0, 1, .., for sequences a, b, .. along their first axis.

    One state is held at a time, and the graph does not grow with the length. `ranks` are those of the state and of
    a[i], b[i], ..: ONNX Runtime needs them where it cannot infer the shape of the state.
    """
    body = state.graph.inner()
    slots = [body.name("Slice") for _ in ranks]
    end = step(*slots)
    infos = [slot.info([None] * rank) for slot, rank in zip(slots, ranks, strict=True)]
    graph = body.proto("step", infos, [end.info([None] * ranks[0])])
    return state.apply("Scan", *sequences, body=graph, num_scan_inputs=len(sequences))
