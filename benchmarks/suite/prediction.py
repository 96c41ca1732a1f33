"""The latency of one utterance: its frames in, the scores of all classes out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from torch import Tensor

from benchmarks.data import gamma
from benchmarks.measure import Run
from benchmarks.report import Row
from benchmarks.step_contenders import Trained
from benchmarks.step_problem import TIMIT, Problem, make_problem
from benchmarks.suite.race import PLAIN, race_with_ceiling
from benchmarks.suite.sizes import Sizes
from bochner.ops import cosine_scores


def rows(sizes: Sizes) -> Iterator[Row]:
    shape = TIMIT.with_features(sizes.prediction_features)
    problem = make_problem(shape, num_rows=sizes.frames, device=sizes.device)
    table = (
        f"Prediction of {sizes.frames} frames: d {shape.num_inputs}, D {shape.num_features:,}, C {shape.num_classes}"
    )
    theirs = {PLAIN: lambda: plain_scores(problem), "scikit-learn": scikit_learn(problem)}
    flops = 2.0 * sizes.frames * shape.num_features * (shape.num_inputs + shape.num_classes)
    yield from race_with_ceiling(table, ours(problem), theirs, sizes, flops=flops, note="Scores of all classes.")


def ours(problem: Problem) -> dict[str, Run]:
    """A model called on the frames, and the operation that never stores all features."""
    model, (weights, bias) = Trained(problem).model.to(problem.X.device), problem.head
    amplitude = problem.shape.amplitude

    def scores() -> Tensor:
        return cosine_scores(problem.X, problem.W, problem.b, weights, amplitude=amplitude).add_(bias)

    return {"model": torch.no_grad()(lambda: model(problem.X)), "cosine_scores": scores}


def plain_scores(problem: Problem) -> Tensor:
    weights, bias = problem.head
    return problem.shape.amplitude * torch.cos(problem.X @ problem.W + problem.b) @ weights.T + bias


def scikit_learn(problem: Problem) -> Run:
    """RBFSampler and a linear classifier of the same size, on the same frames, on the CPU."""
    shape, X = problem.shape, problem.X.cpu().numpy()
    sampler = RBFSampler(gamma=gamma((2 * shape.num_inputs) ** 0.5), n_components=shape.num_features, random_state=0)
    head = SGDClassifier(loss="log_loss")
    head.classes_ = np.arange(shape.num_classes)
    head.coef_, head.intercept_ = (part.cpu().numpy() for part in problem.head)
    model = make_pipeline(sampler.fit(X), head)
    return lambda: model.decision_function(X)
