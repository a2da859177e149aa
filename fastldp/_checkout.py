"""Importing fastldp from a checkout: there the kernels lie beside the package, installed they lie inside it."""

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

if find_spec("fastldp.kernels") is None:
    folder = Path(__file__).parent.parent / "kernels"
    spec = spec_from_file_location("fastldp.kernels", folder / "__init__.py", submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise ImportError(f"fastldp is not whole: there are no kernels in {folder}; install it again")
    sys.modules["fastldp.kernels"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["fastldp.kernels"])
    vars(sys.modules["fastldp"])["kernels"] = sys.modules["fastldp.kernels"]
