"""Data sets: public ones loaded and checked, generated stand-ins, and how rows are spread over workers."""

from fastldp.datasets.dataset import Dataset, Images
from fastldp.datasets.generated import PAPER_ROWS, synthetic

__all__ = ["PAPER_ROWS", "Dataset", "Images", "synthetic"]
