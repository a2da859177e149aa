"""Data sets: public ones loaded and checked, generated stand-ins, and how rows are spread over workers."""

from fastldp.datasets.dataset import Dataset, Images
from fastldp.datasets.generated import PAPER_ROWS, synthetic
from fastldp.datasets.libsvm import read_libsvm

__all__ = ["PAPER_ROWS", "Dataset", "Images", "read_libsvm", "synthetic"]
