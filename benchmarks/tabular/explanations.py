"""Why a table is among those on which the default model is behind LightGBM; shown on the page, filled in by hand."""

EXPLANATIONS: dict[str, str] = {}
