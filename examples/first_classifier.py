# %% [markdown]
# # Your first classifier
#
# Fit a kernel classifier on handwritten digits, see what was chosen, save it and predict with the loaded model.

# %%
import tempfile
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import bochner
from bochner import KernelClassifier

X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
classifier = KernelClassifier(preset="fast", random_state=0).fit(X_train, y_train)  # without preset: slower, better
print(classifier.summary())

# %%
with tempfile.TemporaryDirectory() as directory:
    path = Path(directory, "digits.safetensors")
    bochner.save(classifier, path)
    loaded = bochner.load(path)
print(f"test accuracy {loaded.score(X_test, y_test):.4f}")
print(f"first images: {loaded.predict(X_test[:5])}, true classes {y_test[:5]}")
