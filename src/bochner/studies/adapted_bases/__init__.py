"""Random against adapted bases: Table 1 and Figures 1 to 4 of Alber et al. 2017."""
