"""`bochner asr list`: the recipes that come with bochner."""

from __future__ import annotations


def list_recipes() -> None:
    """Name the recipes, each with a line on what it is for.

    Example:

        bochner asr list
    """
    from bochner.acoustic.recipe import recipe_lines

    for name, about in recipe_lines().items():
        print(f"{name:<16} {about}")
