"""Estimators for scikit-learn: locally private linear models, and a search over their parameters that is accounted.

`pip install 'fastldp[sklearn]'`; nothing else of fastldp imports scikit-learn.
"""

from fastldp.errors import MissingExtraError

try:
    import sklearn as _sklearn  # noqa: F401 - the library, whose name this package has inside its own
except ImportError as error:
    raise MissingExtraError("scikit-learn", "sklearn", "fastldp.solve works without it") from error

from fastldp.privacy.account import PrivacyAccount
from fastldp.sklearn.classifier import LDPClassifier
from fastldp.sklearn.regressor import LDPRegressor
from fastldp.sklearn.search import LDPSearch

__all__ = ["LDPClassifier", "LDPRegressor", "LDPSearch", "PrivacyAccount"]
