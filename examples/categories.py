# %% [markdown]
# # A table with categories, dates and missing values
#
# `fit` accepts frames of pandas, polars and Arrow; no encoder and no imputation are needed.

# %%
import numpy as np
import pandas as pd

from bochner import KernelRegressor

rng = np.random.default_rng(0)
N = 600
jobs = rng.choice(["clerk", "nurse", "pilot"], N)
towns = rng.integers(0, 40, N)
age = rng.integers(20, 65, N).astype(float)
joined = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, N), unit="D")
years = (pd.Timestamp("2024-01-01") - joined).days / 365
base = {"clerk": 30, "nurse": 35, "pilot": 70}
salary = np.array([base[job] for job in jobs]) + 0.2 * age + 1.5 * years + towns % 7 + rng.normal(size=N)
frame = pd.DataFrame(
    {"age": age, "job": jobs, "town": [f"town {number}" for number in towns], "joined": joined, "salary": salary}
)
frame.loc[rng.random(N) < 0.1, "age"] = np.nan
print(frame.head(3).to_string())

# %% [markdown]
# ## Fit and score
#
# `target` names the column to predict. `job` becomes one column per level, `town`, which has many levels, the shrunk
# mean of the target, and `joined` the number of days and the season.

# %%
train, test = frame[:450], frame[450:]
model = KernelRegressor(preset="fast", random_state=0).fit(train, target="salary")
truth = test["salary"].to_numpy()
print(model.summary())
print(f"R2 on {len(test)} test rows: {model.score(test.drop(columns='salary'), truth):.3f}")

# %% [markdown]
# ## Uncertainty
#
# Conformal intervals contain the given share of new targets.

# %%
lower, upper = model.predict_interval(test.drop(columns="salary"), coverage=0.9)
print(f"90 % intervals hold {np.mean((lower <= truth) & (truth <= upper)):.0%} of the test targets")
