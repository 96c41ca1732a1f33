"""Explanations, written by hand, of the tables on which the default model is behind LightGBM; shown on the page."""

EXPLANATIONS: dict[str, str] = {
    "connect4": (
        "54,045 rows are more than one exact solve takes on a CPU: they are fitted in parts, which costs 3 points. On "
        "a GPU all rows are one solve, with 86.0 % on the same split."
    ),
    "gss_wages": (
        "Heavy-tailed incomes. The occupation code has 528 levels, of which the kernel model sees a target statistic "
        "and a count; LightGBM splits the levels themselves. CatBoost and XGBoost are further behind."
    ),
    "kr_vs_k": (
        "A chess endgame: the depth of win is a function of the board without noise, which depends on all six columns "
        "at once and changes from square to square. No kernel that was tried, with all rows in one exact solve, has "
        "more than 83 %."
    ),
}
