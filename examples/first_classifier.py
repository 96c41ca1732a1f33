"""Fit a kernel classifier on handwritten digits, look at its learning curve, save it, and predict with what was saved.

Run `python examples/first_classifier.py --model out/digits.safetensors`.
"""

from pathlib import Path

from jsonargparse import auto_cli
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import bochner
from bochner import KernelClassifier


def main(*, model: Path = Path("digits.safetensors")) -> None:
    """Args:
    model: Path of the saved model.
    """
    X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    classifier = KernelClassifier(
        solver="sgd", n_components=2048, validation_fraction=0.2, random_state=0, solver_params={"batch_size": 128}
    )
    classifier.fit(X_train, y_train)
    for record in classifier.history_[::5]:
        print(f"epoch {record['epoch']:2}   validation cross-entropy {record['ce']:.4f}   error {record['err']:.4f}")
    bochner.save(classifier, model)
    loaded = bochner.load(model)
    print(f"test accuracy {loaded.score(X_test, y_test):.4f} of the model in {model}")
    print(f"first images: {loaded.predict(X_test[:5])}, true classes {y_test[:5]}")


if __name__ == "__main__":
    auto_cli(main)
