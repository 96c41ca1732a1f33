"""The papers' tables and figures of acoustic models, with the papers' numbers in parentheses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from statistics import StatisticsError, correlation, fmean
from typing import Any

from bochner.report import Cell as TableCell
from bochner.report import Page, format_number
from bochner.studies.drawing import COLORS, MARKERS, Curve, Panel, draw_panel, finish, new_axes
from bochner.studies.findings import by, sets_of
from bochner.studies.published_tables import published_table
from bochner.studies.speech_cells import ERLL, HELDOUT, METRICS, NETWORK, Cell
from bochner.studies.study import Row

NAMES = tuple(field.name for field in fields(Cell) if field.name != "seed")
MIN_MODELS = 3


def averaged(rows: Sequence[Row]) -> list[Row]:
    """One row per model, with means over its seeds."""
    return [_mean(seeds) for seeds in by(rows, *NAMES).values()]


def correlations(rows: Sequence[Row]) -> dict[str, float | None]:
    """Pearson correlations between each heldout metric and the token error rate, over the models of one task.

    None for fewer than three models, or for a metric that is the same for all.
    """
    models = averaged(rows)
    errors = [row["ter"] for row in models]
    return {name: _correlation([row["metrics"][name] for row in models], errors) for name in METRICS}


def _mean(rows: Sequence[Row]) -> Row:
    means = {name: fmean(row[name] for row in rows) for name in (*HELDOUT, "ter")}
    return {**rows[0], **means, "metrics": {name: fmean(row["metrics"][name] for row in rows) for name in METRICS}}


def _correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """
    >>> _correlation([1, 2, 3], [2, 4, 6]), _correlation([1, 1, 1], [2, 4, 6])
    (1.0, None)
    """
    if len(x) < MIN_MODELS:
        return None
    try:
        return correlation(x, y)
    except StatisticsError:
        return None


# -- numbers of the papers --------------------------------------------------------------------------------------

ORIGINALS = {
    "synthetic timit-like": "TIMIT",
    "synthetic cantonese-like": "Cant.",
    "synthetic bengali-like": "Beng.",
    "synthetic broadcast-like": "BN-50",
}
"""The corpus of the papers that each replaces; none of them is available."""
WIDTHS = ("1000", "2000", "4000")
BEST = {"ter": "TER (dev)", "test_ter": "TER (test)"}
CORRELATED = {"erll:1": "erll_beta_1", "erll:0": "cross_entropy"}


def published_kernel(row: Row, metric: str) -> float | None:
    """The same kernel and tricks, on the corpus that the task replaces."""
    chosen = {"kernel": row["model"], "feature_selection": "yes" if row["selection"] else "no"}
    return _value("kernels", _about(row, metric) | chosen)


def published_network(row: Row, metric: str, widths: Sequence[int]) -> float | None:
    """The same tricks, and the papers' width, 1000, 2000 or 4000, of the same rank among `widths`."""
    return _value("networks", _about(row, metric) | {"hidden_units": WIDTHS[list(widths).index(row["width"])]})


def published_best(data: str, kind: str, metric: str) -> float | None:
    """
    >>> published_best("synthetic timit-like", "kernel", "test_ter")
    20.4
    """
    line = {"metric": BEST.get(metric, metric.upper()), "data": ORIGINALS[data]}
    return _value("best", line, column="dnn" if kind == NETWORK else "kernel")


def published_correlation(data: str, metric: str) -> float | None:
    """Published for ERLL with beta = 1 and for the cross-entropy."""
    return _value("correlation", {"metric": CORRELATED.get(metric, "")}, column=ORIGINALS[data])


def tricks_of(row: Row) -> str:
    """
    >>> tricks_of({"bottleneck": True, "criterion": "erll:1"})
    'bottleneck+erll'
    """
    return "+".join(["bottleneck"] * row["bottleneck"] + ["erll"] * (row["criterion"] == ERLL)) or "none"


def _about(row: Row, metric: str) -> dict[str, str]:
    return {"metric": metric.upper(), "data": ORIGINALS[row["data"]], "tricks": tricks_of(row)}


def _value(name: str, chosen: Mapping[str, str], *, column: str = "value") -> float | None:
    lines = published_table(f"speech_{name}")
    values = (line[column] for line in lines if all(line[key] == value for key, value in chosen.items()))
    return next(map(float, values), None)


# -- tables -----------------------------------------------------------------------------------------------------

COLUMNS = {"ce": "CE", "ent": "ENT", "erll": "ERLL", "err": "ERR", "ter": "TER dev %", "test_ter": "TER test %"}
ABLATED = [COLUMNS[name] for name in (*HELDOUT, "ter")]
Published = Callable[[Row, str], float | None]


def show_kernels(page: Page, rows: Sequence[Row]) -> None:
    lines: list[list[TableCell]] = [
        [*_kind(row), tricks_of(row), row["num_features"], *_beside(row, (*HELDOUT, "ter"), published_kernel)]
        for row in averaged(rows)
    ]
    page.table(["set", "kernel", "selection", "tricks", "D", *ABLATED], lines)
    page.note(_origin(rows) + " Theirs have 100,000 features, 200,000 on TIMIT.")


def show_networks(page: Page, rows: Sequence[Row]) -> None:
    widths = sorted({row["width"] for row in rows})

    def theirs(row: Row, metric: str) -> float | None:
        return published_network(row, metric, widths)

    lines: list[list[TableCell]] = [
        [row["data"], f"{row['depth']} x {row['width']}", tricks_of(row), *_beside(row, (*HELDOUT, "ter"), theirs)]
        for row in averaged(rows)
    ]
    page.table(["set", "layers x units", "tricks", *ABLATED], lines)
    pairs = ", ".join(f"{theirs} beside {ours}" for ours, theirs in zip(widths, WIDTHS, strict=False))
    page.note(f"{_origin(rows)} Their networks have four layers of {pairs} units.")


def show_best(page: Page, rows: Sequence[Row]) -> None:
    """Table 7: one line per metric, with the network and the kernel model."""
    for data, group in sets_of(rows):
        kinds = {row["kind"]: row for row in group}
        lines: list[list[TableCell]] = [
            [name, *(_pair(kinds[kind], metric, published_best(data, kind, metric)) for kind in kinds)]
            for metric, name in COLUMNS.items()
        ]
        page.table([data, *(f"best {kind}" for kind in kinds)], lines)
        chosen = "; ".join(f"{kind}: {row['model']}, of {row['models']}" for kind, row in kinds.items())
        page.note(f"Chosen on dev, and the only models evaluated on test ({group[0]['tokens']:,.0f} tokens): {chosen}.")
    page.note(_origin(rows))


def show_features(page: Page, rows: Sequence[Row]) -> None:
    models = averaged(rows)
    page.figures(
        [
            (_curves(data, group, metric), f"{data}: {COLUMNS[metric]} against the number of features.")
            for data, group in sets_of(models)
            for metric in ("ce", "ter")
        ]
    )
    page.table(
        ["set", "kernel", "selection", "D", "CE", "TER dev %"],
        [[*_kind(row), row["num_features"], row["ce"], 100 * row["ter"]] for row in models],
    )
    page.note("For comparison, TER dev % on Broadcast News from the papers:")
    page.table(
        ["kernel", "selection", "D", "TER dev %"],
        [
            [line["kernel"], line["feature_selection"], int(line["num_features"]), float(line["ter_dev"])]
            for line in published_table("speech_features")
        ],
    )


def show_perplexity(page: Page, rows: Sequence[Row]) -> None:
    """The slides' table: perplexity, the same with all silence as one state, and TER; the slides' numbers below."""
    names = ("perplexity", "perplexity_silence_collapsed")
    lines: list[list[TableCell]] = [
        [row["data"], "network" if row["model"] == NETWORK else "Laplacian, selected", len(group),
         *(fmean(seed[name] for seed in group) for name in names), 100 * fmean(seed["ter"] for seed in group)]
        for group in by(rows, *NAMES).values()
        if all(name in seed for seed in group for name in names) and (row := group[0])
    ]  # fmt: skip
    page.table(["set", "model", "seeds", "perplexity", "silence as one state", "TER dev %"], lines)
    page.note("For comparison, from the slides, on other speech (Babel):")
    theirs = published_table("speech_perplexity")
    head = ["data", "method", "perplexity", "collapsed", "ter"]
    page.table(head, [[line[name] if name in head[:2] else float(line[name]) for name in head] for line in theirs])


def show_depth(page: Page, rows: Sequence[Row]) -> None:
    """Table 3: one line per depth, one column per width."""
    for data, group in sets_of(averaged(rows)):
        widths = sorted({row["width"] for row in group})
        errors = {(row["depth"], row["width"]): 100 * row["ter"] for row in group}
        lines: list[list[TableCell]] = [
            [depth, *(errors.get((depth, width)) for width in widths)] for depth in sorted({d for d, _ in errors})
        ]
        page.table([f"{data}: layers", *(f"{width} units: TER dev %" for width in widths)], lines)
    page.note("For comparison, TER dev % on Broadcast News from the papers:")
    page.table(
        ["layers", *(f"{width} units" for width in WIDTHS)],
        [
            [int(line["hidden_layers"]), *(float(line[width]) for width in WIDTHS)]
            for line in published_table("speech_depth")
        ],
    )


def _beside(row: Row, metrics: Sequence[str], theirs: Published) -> list[TableCell]:
    return [_pair(row, metric, theirs(row, metric)) for metric in metrics]


def _pair(row: Row, metric: str, theirs: float | None) -> str:
    ours = 100 * row[metric] if metric.endswith("ter") else row[metric]
    return format_number(ours) + ("" if theirs is None else f" ({theirs:g})")


def _origin(rows: Sequence[Row]) -> str:
    """States that the numbers in parentheses are of another corpus."""
    originals = ", ".join(f"{ORIGINALS[data]} beside {data}" for data, _ in sets_of(rows))
    return f"In parentheses, the papers' numbers on other speech: {originals}. Only their order is comparable."


def _curves(data: str, rows: Sequence[Row], metric: str) -> Any:
    scale, curves = 100 if metric == "ter" else 1, []
    for style, ((kernel, selection), group) in enumerate(by(rows, "model", "selection").items()):
        points = [(row["num_features"], *[scale * row[metric]] * 3) for row in group]
        curves.append(Curve(f"{kernel}, selected" if selection else kernel, points, style))
    return draw_panel(Panel(data, "features D", COLUMNS[metric], curves, y_scale="linear"))


def _kind(row: Row) -> list[TableCell]:
    return [row["data"], row["model"], "yes" if row["selection"] else "no"]


# -- correlations of metrics with the error rate ----------------------------------------------------------------

FAMILIES = {
    "erll": ("entropy regularized log loss", "β", "linear"),
    "capped": ("capped log loss", "λ", "log"),
    "topk": ("top-k log loss", "share of rows ignored, 1 - k/N", "linear"),
}


def show_metrics(page: Page, rows: Sequence[Row]) -> None:
    """The three panels of Figure 2, their models, and all correlations."""
    measured = {data: correlations(group) for data, group in sets_of(rows)}
    drawn = [(_family(name, measured), f"Correlation of the {FAMILIES[name][0]} with TER on dev.") for name in FAMILIES]
    scattered = [
        (_models(data, group, metric, label), f"{data}: each point is a model of the ablations.")
        for data, group in sets_of(rows)
        for metric, label in (("erll:0", "cross-entropy"), ("erll:1", "ERLL, β = 1"))
    ]
    page.figures(drawn + scattered)
    lines: list[list[TableCell]] = [
        [metric, *(cell for data in measured for cell in (measured[data][metric], published_correlation(data, metric)))]
        for metric in METRICS
    ]
    page.table(["metric", *(name for data in measured for name in (data, "papers, other speech"))], lines)
    page.note("erll:0, capped:0 and topk:1 are all the cross-entropy.")


def _family(name: str, measured: dict[str, dict[str, float | None]]) -> Any:
    title, x, scale = FAMILIES[name]
    curves = []
    for style, (data, values) in enumerate(measured.items()):
        places = [(_place(metric), value) for metric, value in values.items() if metric.startswith(name)]
        points = [(x, y, y, y) for x, y in places if y is not None and (x > 0 or scale != "log")]
        curves.append(Curve(data, points, style))
    return draw_panel(Panel(title, x, "correlation with TER", curves, scale, "linear"))


def _place(metric: str) -> float:
    """The position of a metric on its axis.

    >>> _place("erll:2"), round(_place("topk:0.9"), 3)
    (2.0, 0.1)
    """
    name, _, value = metric.partition(":")
    return 1 - float(value) if name == "topk" else float(value)


def _models(data: str, rows: Sequence[Row], metric: str, label: str) -> Any:
    figure, axes = new_axes(data, label, "TER dev %", x_scale="linear", y_scale="linear")
    for style, ((model,), group) in enumerate(by(averaged(rows), "model").items()):
        axes.plot(
            [row["metrics"][metric] for row in group], [100 * row["ter"] for row in group], linestyle="none",
            color=COLORS[style], marker=MARKERS[style], markersize=4, label="networks" if model == NETWORK else model,
        )  # fmt: skip
    return finish(figure, axes)
