"""Fit a kernel classifier on handwritten digits, see what was chosen, save it, and predict with what was saved.

Run `python examples/first_classifier.py --model out/digits.safetensors`.
"""

from pathlib import Path

from jsonargparse import auto_cli
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import bochner
from bochner import KernelClassifier


def main(*, model: Path = Path("digits.safetensors"), preset: str = "default") -> None:
    """Args:
    model: Path of the saved model.
    preset: How thorough the search is: fast, default or best.
    """
    X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    classifier = KernelClassifier(preset=preset, random_state=0).fit(X_train, y_train)
    print(classifier.summary())
    bochner.save(classifier, model)
    loaded = bochner.load(model)
    print(f"test accuracy {loaded.score(X_test, y_test):.4f} of the model in {model}")
    print(f"first images: {loaded.predict(X_test[:5])}, true classes {y_test[:5]}")


if __name__ == "__main__":
    auto_cli(main)
