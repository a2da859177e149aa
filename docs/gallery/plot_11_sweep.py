"""
A sweep, its file, and a picture
================================

All combinations of some settings, into a file that survives being killed. The same call again makes what is missing.
"""

import tempfile
from pathlib import Path

import fastldp as fl

SPEC = """
rounds = {from = 1200, to = 4800, by = 1200}
repetitions = 8
[data]
synthetic = "ijcnn1"
[problem]
workers = 20
l2 = 0.1
[budget]
epsilon = [0.5, 1.0, 2.0]
delta = 1e-4
[[method]]
name = "PrimalDual"
step = "planned"
allocation = "planned"
[record]
final = true
"""
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "first.h5"
report = fl.sweep(SPEC, path, progress=False)
again = fl.sweep(SPEC, path, progress=False)
print(report.completed, "runs made, then", again.completed, "for", again.found, "were there")

# %%
found = fl.results(path)
print(found.where(epsilon=1.0).summary())
ax = found.plot(x="rounds")

# %%
# As a data frame, for pandas:
print(found.to_pandas().groupby("epsilon")["optimality"].describe())
folder.cleanup()
