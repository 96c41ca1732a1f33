"""Choosing kernel, bandwidth, metric, features, penalty and solver from data, for all callers."""

from bochner.search.fit import Fitted, choose_solver, fit_model
from bochner.search.plan import (
    AdaptParams,
    KernelPlan,
    NetworkPlan,
    SelectionParams,
    SolverParams,
    Task,
    make_task,
)

__all__ = [
    "AdaptParams",
    "Fitted",
    "KernelPlan",
    "NetworkPlan",
    "SelectionParams",
    "SolverParams",
    "Task",
    "choose_solver",
    "fit_model",
    "make_task",
]
