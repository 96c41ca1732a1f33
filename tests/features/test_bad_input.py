"""Errors name the argument, its value and what is allowed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from bochner.features import (
    ArcCosineMap,
    EnsembleNystromMap,
    FourierMap,
    NystromMap,
    TensorSketchMap,
    choose_landmarks,
)
from bochner.features.landmarks import kmeans_centers
from bochner.features.projections import (
    CirculantProjection,
    DenseProjection,
    FastfoodProjection,
    HadamardProjection,
    SparseProjection,
)
from bochner.kernels import ArcCosine, Gaussian, Laplacian, Polynomial, SparseGaussian
from tests.features.cases import CASES, generator, points

not_a_count = st.one_of(st.integers(max_value=0), st.floats(), st.none(), st.text(max_size=3), st.booleans())


@given(not_a_count)
def test_num_features_is_a_positive_integer(value: object) -> None:
    for cls, kernel in ((FourierMap, Gaussian()), (ArcCosineMap, ArcCosine()), (TensorSketchMap, Polynomial())):
        with pytest.raises(ValueError, match="num_features must be an integer") as caught:
            cls.draw(kernel, num_inputs=3, num_features=value, generator=generator())
        assert repr(value) in str(caught.value)


@given(not_a_count)
def test_num_landmarks_is_a_positive_integer(value: object) -> None:
    with pytest.raises(ValueError, match="num_landmarks must be an integer"):
        NystromMap.fit(Gaussian(), points(), num_landmarks=value, generator=generator())


@given(st.integers(0, 50).map(lambda n: 2 * n + 1))
def test_paired_features_are_even(count: int) -> None:
    with pytest.raises(ValueError, match=f"num_features must be even when form='paired', got {count}"):
        FourierMap.draw(Gaussian(), num_inputs=3, num_features=count, generator=generator())


@given(st.integers(41, 1000), st.sampled_from(["uniform", "kmeans", "leverage", "pivoted-cholesky"]))
def test_more_landmarks_than_points(count: int, rule: str) -> None:
    with pytest.raises(ValueError, match=f"num_landmarks must be at most the number of points, 40, got {count}"):
        choose_landmarks(rule, Gaussian(), points(40), count, generator=generator())


def test_more_centers_than_points() -> None:
    with pytest.raises(ValueError, match="num_centers must be at most the number of points, 5, got 6"):
        kmeans_centers(points(5), 6, generator=generator())
    assert len(kmeans_centers(points(5), 5, generator=generator())) == 5


def test_more_features_than_landmarks() -> None:
    with pytest.raises(ValueError, match="num_features must be at most num_landmarks, 5, got 6"):
        NystromMap.fit(Gaussian(), points(), num_landmarks=5, num_features=6, generator=generator())


@given(st.integers(4, 30), st.integers(1, 3))
def test_more_nonzeros_than_inputs(subset_size: int, num_inputs: int) -> None:
    message = f"subset_size must be at most the number of inputs, {num_inputs}, got {subset_size}"
    for projection in ("sparse", "iid", "sobol"):
        with pytest.raises(ValueError, match=message):
            FourierMap.draw(
                SparseGaussian(subset_size=subset_size),
                num_inputs=num_inputs,
                num_features=8,
                projection=projection,
                generator=generator(),
            )


@pytest.mark.parametrize("projection", ["orthogonal", "hadamard1", "hadamard3", "fastfood", "circulant"])
def test_projections_that_need_isotropy(projection: str) -> None:
    for kernel in (Laplacian(), Gaussian() * Laplacian(), Gaussian(scale=torch.ones(3)) + Gaussian()):
        with pytest.raises(ValueError, match=f"projection='{projection}' needs an isotropic kernel"):
            FourierMap.draw(kernel, num_inputs=3, num_features=8, projection=projection, generator=generator())


@pytest.mark.parametrize("kernel", [Polynomial(), ArcCosine(), Gaussian() + Polynomial(), Gaussian() * ArcCosine()])
def test_kernels_without_spectrum(kernel) -> None:
    with pytest.raises(ValueError, match="kernel must have a spectral sampler"):
        FourierMap.draw(kernel, num_inputs=3, num_features=8, generator=generator())


def test_wrong_names() -> None:
    arguments = {"num_inputs": 3, "num_features": 8, "generator": generator()}
    with pytest.raises(ValueError, match=r"projection must be one of .*'orthogonal'.*, got 'rotated'"):
        FourierMap.draw(Gaussian(), projection="rotated", **arguments)
    with pytest.raises(ValueError, match=r"form must be one of \['paired', 'cosine'\], got 'sine'"):
        FourierMap.draw(Gaussian(), form="sine", **arguments)
    with pytest.raises(ValueError, match="projection='sparse' needs a SparseGaussian kernel"):
        FourierMap.draw(Gaussian(), projection="sparse", **arguments)
    with pytest.raises(ValueError, match=r"landmarks must be one of .*, got 'random'"):
        NystromMap.fit(Gaussian(), points(), num_landmarks=3, landmarks="random", generator=generator())
    with pytest.raises(ValueError, match=r"weighting must be one of .*, got 'best'"):
        EnsembleNystromMap.fit(Gaussian(), points(), num_landmarks=4, weighting="best", generator=generator())
    with pytest.raises(ValueError, match="num_landmarks must be a multiple of num_experts, 4, got 6"):
        EnsembleNystromMap.fit(Gaussian(), points(), num_landmarks=6, generator=generator())


def test_sobol_has_a_largest_dimension() -> None:
    with pytest.raises(ValueError, match="projection='sobol' takes at most 21201 dimensions, this kernel needs 30000"):
        FourierMap.draw(Gaussian(), num_inputs=30_000, num_features=8, projection="sobol", generator=generator())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_inputs_of_the_wrong_shape_or_type(case) -> None:
    z = case.make(case.kernel, points(), 8, generator())
    with pytest.raises(ValueError, match="X must have 11 columns, got 10"):
        z(points()[:, :10])
    with pytest.raises(ValueError, match=r"X must have shape \[rows, inputs\], got \(11,\)"):
        z(points()[0])
    with pytest.raises(TypeError, match=r"X must be a torch.Tensor, got ndarray"):
        z(points().numpy())
    with pytest.raises(TypeError, match=r"X must hold floats, got dtype torch.int64"):
        z(points().long())
    with pytest.raises(TypeError, match=r"X must hold floats, got dtype torch.complex128"):
        z(points().to(torch.complex128))


def test_constructors_check_what_files_bring() -> None:
    ones = torch.ones(2, 4)
    with pytest.raises(ValueError, match="frequencies"):
        DenseProjection(torch.ones(3))
    with pytest.raises(ValueError, match=r"places must lie in 0\.\.3"):
        SparseProjection(4, torch.full((2, 4), 4), ones)
    with pytest.raises(ValueError, match="places and values"):
        SparseProjection(4, torch.zeros(2, 3, dtype=torch.int32), ones)
    with pytest.raises(ValueError, match="diagonals must be"):
        HadamardProjection(5, torch.ones(3, 1, 4), torch.ones(4))
    with pytest.raises(ValueError, match="radii must be"):
        HadamardProjection(4, torch.ones(3, 1, 4), torch.ones(5))
    with pytest.raises(ValueError, match="permutations must hold each"):
        FastfoodProjection(4, ones, torch.zeros(2, 4, dtype=torch.int32), ones, torch.ones(8))
    with pytest.raises(ValueError, match="normals and signs"):
        CirculantProjection(ones, torch.ones(2, 3), torch.ones(8))
    with pytest.raises(ValueError, match=r"radii must be \[P\] with P in 1\.\.8"):
        CirculantProjection(ones, ones, torch.ones(9))
    with pytest.raises(ValueError, match=r"signs must be \[blocks, 4\] .* got \(2, 4\) and \(9,\)"):
        FastfoodProjection(4, ones, torch.zeros(2, 4, dtype=torch.int32), ones, torch.ones(9))
    with pytest.raises(ValueError, match="permutations and normals must have the shape of signs"):
        FastfoodProjection(4, ones, torch.zeros(2, 4, dtype=torch.int32), torch.ones(1, 4), torch.ones(8))
    with pytest.raises(ValueError, match=r"places and signs must both be \[3, d \+ 1\], got \(2, 4\) and \(2, 4\)"):
        TensorSketchMap(Polynomial(degree=3), torch.zeros(2, 4, dtype=torch.int64), ones, 8)
    with pytest.raises(ValueError, match=r"phases must have shape \(4,\)"):
        FourierMap(Gaussian(), DenseProjection(ones), torch.ones(3))
    with pytest.raises(ValueError, match="weights must have one matrix per layer, 2"):
        ArcCosineMap(ArcCosine(depth=2), [ones])
    with pytest.raises(ValueError, match="weights do not chain"):
        ArcCosineMap(ArcCosine(depth=2), [ones, ones])
    with pytest.raises(ValueError, match=r"places must lie in 0\.\.7"):
        TensorSketchMap(Polynomial(degree=2), torch.full((2, 4), 9), ones, 8)
    with pytest.raises(ValueError, match="landmarks must be"):
        NystromMap(Gaussian(), ones, torch.ones(3, 3))
    with pytest.raises(ValueError, match="weights must be one non-negative number per expert"):
        EnsembleNystromMap([NystromMap(Gaussian(), ones, torch.ones(2, 2))], torch.tensor([-1.0]))


def test_a_map_of_the_wrong_kernel() -> None:
    arguments = {"num_inputs": 3, "num_features": 8, "generator": Generator()}
    with pytest.raises(ValueError, match="kernel must be an ArcCosine kernel"):
        ArcCosineMap.draw(Gaussian(), **arguments)
    with pytest.raises(ValueError, match="kernel must be a Polynomial kernel"):
        TensorSketchMap.draw(Gaussian(), **arguments)


def test_parts_of_nystrom_maps() -> None:
    with pytest.raises(TypeError, match="kernel must be a Kernel, got 'gaussian'"):
        NystromMap("gaussian", points(5), torch.eye(5))  # type: ignore[arg-type]
    experts = [
        NystromMap.fit(Gaussian(), points(20)[:, :count], num_landmarks=4, generator=generator()) for count in (2, 3)
    ]
    with pytest.raises(ValueError, match="experts must all take the same number of inputs"):
        EnsembleNystromMap(experts, torch.ones(2))
    with pytest.raises(ValueError, match="num_landmarks must be at most the number of points, 20, got 24"):
        EnsembleNystromMap.fit(Gaussian(), points(20), num_landmarks=24, generator=generator())
