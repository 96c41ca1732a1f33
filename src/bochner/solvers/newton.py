"""Kernel logistic regression on landmarks by Newton steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Source
from bochner.kernels import Kernel
from bochner.models.landmarks import LandmarkModel
from bochner.models.losses import Loss, choose_loss
from bochner.ops.linalg import Report, Solution, conjugate_gradients, warn_stopped
from bochner.solvers.checkpoint import SolverCheckpoints
from bochner.solvers.landmarks import (
    Block,
    CrossKernel,
    Whitening,
    checkpoint_inputs,
    prepare,
    scores,
)
from bochner.solvers.rows import OwnShards, Tile

# The factor of alpha per Newton step on its way from k(x, x) down to its value.
DECAY = 0.03
# The relative residual to which conjugate gradients solve for a Newton step.
FORCING = 0.1
# A step that does not lower the objective is halved at most this often, down to 1e-6 of it.
HALVINGS = 20


class Point(NamedTuple):
    """An iterate of Newton's method: gamma [m, t], the mean loss there and its gradient [m, t]."""

    gamma: Tensor
    loss: float
    gradient: Tensor

    def objective(self, alpha: float) -> float:
        return self.loss + alpha / 2 * float(self.gamma.square().sum())


def fit_landmark_logistic(
    kernel: Kernel,
    landmarks: Tensor,
    source: Source,
    *,
    num_classes: int,
    alpha: float | None = None,
    tolerance: float = 1e-3,
    max_steps: int = 30,
    max_iterations: int = 100,
    memory_budget: int = 2**30,
    report: Report | None = None,
    group: Any = None,
    checkpoint_dir: Path | None = None,
    checkpoint_seconds: float = 60.0,
) -> LandmarkModel:
    """f = K_nm a + b with b the logits of the class frequencies and a [m, t] the minimum of

        mean_i loss(y_i, f(x_i)) + alpha / 2 trace(a^T K_mm a)    (means weighted by the rows' weights):

    logistic loss and one output, the log-odds of class 1, for two classes; softmax loss and one output per class for
    more. Newton steps with the exact Hessian, the softmax's coupling of classes included, each solved by conjugate
    gradients to a tenth; the preconditioner is that of `fit_landmark_ridge` weighted by p (1 - p) at the landmarks,
    averaged over classes. alpha starts at k(x, x) and is multiplied by 0.03 per step down to its value, which keeps
    every start inside the region where Newton's method converges quickly; a step that would raise the objective is
    halved.

    Stops when half the squared Newton decrement, the distance of the objective to its minimum in nats, is below
    `tolerance`; `report` gets the step and that number, and a ConvergenceWarning is issued if `max_steps`, rounding or
    the `max_iterations` of the last step kept it from being reached. alpha None means q k(x, x) / (5 n), with q
    the loss's curvature p (1 - p) at the class frequencies: as strong as the default for least squares.
    Checkpoints, of Newton steps, as in `fit_landmark_ridge`.
    A `group` of processes divides the rows as in `fit_landmark_ridge`.
    O(m^3) and at most `max_iterations` passes of O(n m (d + t)) per step; memory as `fit_landmark_ridge`.
    Source: Marteau-Ferey, Bach & Rudi 2019.

    >>> from bochner.kernels import Gaussian; from bochner.data import ArraySource
    >>> X = torch.linspace(-2, 2, 200)[:, None]
    >>> source = ArraySource(X, (X[:, 0] > 1).long())
    >>> model = fit_landmark_logistic(Gaussian(), X[::10], source, num_classes=2, alpha=1e-4)
    >>> bool(((model.decision(X) > 0) == (X > 1)).float().mean() > 0.98)
    True
    """
    checks.positive_float("tolerance", tolerance)
    checks.positive_int("max_steps", max_steps)
    checks.positive_int("max_iterations", max_iterations)
    loss = choose_loss("logistic" if num_classes == 2 else "softmax", num_classes)
    if group is not None:
        if checkpoint_dir is not None:
            raise ValueError(f"checkpoint_dir must be None with a group of processes, got {checkpoint_dir!r}.")
        source = OwnShards(source, group)
    options: dict[str, Any] = {"num_classes": num_classes, "memory_budget": memory_budget, "group": group}
    K, space, alpha = prepare(kernel, landmarks, source, loss, alpha=alpha, **options)
    newton = _Newton(K, space, loss)
    start, current, end = newton.start(), max(alpha, space.amplitude), f"max_steps={max_steps}"
    inputs = {}
    if checkpoint_dir is not None:
        settings = {"tolerance": tolerance, "max_steps": max_steps, "max_iterations": max_iterations}
        inputs = checkpoint_inputs(K, source, alpha=alpha, **settings)
    with SolverCheckpoints(checkpoint_dir, inputs, seconds=checkpoint_seconds) as checkpoints:
        stored, first = checkpoints.read({"gamma": start}, "alpha", "step"), 1
        if stored is not None:
            start, current, first = stored[0]["gamma"], stored[1]["alpha"], int(stored[1]["step"])
        point = newton.evaluate(start)
        for step in range(first, max_steps + 1):
            checkpoints.keep({"gamma": point.gamma}, {"step": step, "alpha": current})
            used, (direction, unsolved) = current, newton.direction(point, current, max_iterations)
            left = float((direction * (point.gradient + used * point.gamma)).sum()) / 2
            if report is not None:
                report(step, left)
            if used == alpha and left <= tolerance:
                # a truncated direction underestimates the distance
                end = "" if unsolved <= FORCING else f"max_iterations={max_iterations} in its last step"
                break
            moved = newton.descend(point, direction, used)
            if moved is None and used == alpha:
                end = "rounding"
                break
            point, current = moved or point, max(alpha, used * DECAY)
    if end:
        warn_stopped(
            "Newton's method",
            limit=end,
            reached=f"the objective last seen {left:.3g} above its minimum for alpha = {used:.3g}",
            tolerance=tolerance,
            remedy="raise the tolerance" if end == "rounding" else f"raise that, or alpha, {alpha:.3g}",
        )
    return LandmarkModel(kernel, K.landmarks, space.coefficients(point.gamma).to(K.landmarks), newton.bias)


class _Newton:
    """The objective in gamma = L^T a, where its penalty is alpha / 2 ||gamma||^2."""

    def __init__(self, K: CrossKernel, space: Whitening, loss: Loss) -> None:
        self.K, self.space, self.loss = K, space, loss
        self.offset = loss.offset(K.summary.mean)
        self.bias = self.offset.to(K.landmarks)

    def start(self) -> Tensor:
        return self.space.root.new_zeros(len(self.space.root), len(self.offset))

    def evaluate(self, gamma: Tensor) -> Point:
        coefficients = self.K.rows_of(self.space.coefficients(gamma))
        total = 0.0

        def residual(rows: Tile, block: Block) -> Tensor:
            nonlocal total
            f, targets = scores(block, coefficients) + self.bias, self.loss.targets(rows.targets)
            total += float((self.loss.value(f, targets) * rows.weight).sum(dtype=torch.float64))
            return self.loss.residual(f, targets)

        gradient = self.space.pull(self.K.adjoint(residual))
        if self.K.group is not None:
            total = float(self.K.group.sum(gradient.new_tensor([total])))
        return Point(gamma, total / self.K.summary.total_weight, gradient)

    def direction(self, point: Point, alpha: float, max_iterations: int) -> Solution:
        """H^{-1} gradient, to a tenth; all outputs are one unknown, since the softmax couples them."""
        m, t = point.gamma.shape
        coefficients = self.space.coefficients(point.gamma)
        at_landmarks = self.space.root @ point.gamma + self.offset
        factor = self.space.factor_hessian(self.loss.curvature(at_landmarks), alpha)

        def apply(flat: Tensor) -> Tensor:
            gamma = flat.view(m, t)
            both = self.K.rows_of(torch.cat([coefficients, self.space.coefficients(gamma)], dim=1))

            def curve(rows: Tile, block: Block) -> Tensor:
                f, directions = scores(block, both).split(t, dim=1)
                return self.loss.curve(f + self.bias, directions)

            return (self.space.pull(self.K.adjoint(curve)) + alpha * gamma).reshape(-1, 1)

        flat, left = conjugate_gradients(
            apply,
            (point.gradient + alpha * point.gamma).reshape(-1, 1),
            lambda residual: factor.solve_squared(residual.view(m, t)).reshape(-1, 1),
            tolerance=FORCING,
            max_iterations=max_iterations,
        )
        return Solution(flat.view(m, t), left)

    def descend(self, point: Point, direction: Tensor, alpha: float) -> Point | None:
        """The first of the steps 1, 1/2, 1/4 .. that lowers the objective, if any."""
        for halving in range(HALVINGS):
            trial = self.evaluate(point.gamma - direction * 0.5**halving)
            if trial.objective(alpha) < point.objective(alpha):
                return trial
        return None
