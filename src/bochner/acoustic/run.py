"""A recipe from its corpus to the comparison of its models, read from top to bottom."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bochner.acoustic.contest import ACOUSTIC, Contest
from bochner.acoustic.opening import open_contest
from bochner.acoustic.recipe import AsrRecipe
from bochner.acoustic.results import SEQUENCED, Results, Row
from bochner.search.plan import resolve_device
from bochner.speech.manifest import PARTS
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus
from bochner.speech.pipeline.alignment import Execution
from bochner.storage import write_atomically


def run_recipe(
    recipe: AsrRecipe,
    output_dir: str | os.PathLike[str],
    *,
    device: str = "auto",
    workers: int = 1,
    progress: bool = False,
) -> Results:
    """Do all that the recipe asks for below `output_dir`, or find it done; gives what results.json then holds.

    Every model is trained once a seed and decoded on dev; of kernel models and of networks the one with the least mean
    error on dev is chosen, and only these, the GMM, and the two chosen ones combined, are decoded on test. The chosen
    models of the first seed then lie in models/kernel, models/network and, the better on dev, models/best.
    """
    root = Path(output_dir)
    root.mkdir(parents=True, exist_ok=True)
    write_atomically(root / "recipe.json", json.dumps(recipe.plain(), indent=1, ensure_ascii=False).encode())
    contest = open_contest(recipe, root, device=str(resolve_device(device)), work=Execution(workers, progress))
    aligned = contest.aligned
    rows = [contest.model(settings, seed) for settings in recipe.models.values() for seed in recipe.seeds]
    decoded = results_of(recipe, aligned, [*rows, contest.gmm()])
    if recipe.realign:
        second = [contest.realigned(row) for kind in ("kernel", "network") for row in decoded.chosen(kind)]
        decoded = results_of(recipe, aligned, [*decoded.rows, *second])
    if recipe.sequenced:
        further = [contest.sequence(row) for kind in recipe.sequenced for row in decoded.chosen(kind)]
        decoded = results_of(recipe, aligned, [*decoded.rows, *further])
    finished = results_of(recipe, aligned, compared(contest, decoded))
    finished.write(root)
    show_chosen(finished, root)
    return finished


def compared(contest: Contest, decoded: Results) -> list[Row]:
    """All rows, those of the chosen models, their combination and the GMM with the error on test."""
    chosen = {kind: decoded.chosen(kind) for kind in ("kernel", "network", *SEQUENCED.values(), "gmm")}
    rows = [contest.tested(row) if row in chosen[row.kind] else row for row in decoded.rows]
    if contest.recipe.combine and chosen["kernel"] and chosen["network"]:
        pairs = zip(chosen["kernel"], chosen["network"], strict=True)  # both have a row a seed
        rows += [contest.tested(contest.combination(pair)) for pair in pairs]
    return rows


def results_of(recipe: AsrRecipe, aligned: AlignedCorpus, rows: Sequence[Row]) -> Results:
    said = aligned.corpus.utterances
    minutes = {part: sum(one.duration for one in said if one.part == part) / 60 for part in PARTS}
    speech = ", ".join(f"{part} {time:.1f}" for part, time in minutes.items())
    return Results(
        recipe=recipe.plain(), protocol=aligned.protocol.name, synthetic=any(one.synthetic for one in said),
        corpus=f"{recipe.name} (minutes: {speech})", num_states=aligned.num_states, rows=rows,
    )  # fmt: skip


def show_chosen(results: Results, root: Path) -> None:
    """The chosen models of the first seed under names that do not change."""
    chosen = {kind: rows[0] for kind in ("kernel", "network") if (rows := results.chosen(kind))}
    best = min(chosen.values(), key=lambda row: row.dev["ter"])
    for name, row in {**chosen, "best": best}.items():
        target = root / "models" / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(root / row.folder / ACOUSTIC, target, copy_function=linked)


def linked(source: str, target: str) -> None:
    """The same file under another name where the disk can do that, else a copy."""
    with suppress(OSError):
        os.link(source, target)
        return
    shutil.copy2(source, target)
