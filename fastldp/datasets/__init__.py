"""Data sets: public ones loaded and checked, generated stand-ins, and how rows are spread over workers."""

from fastldp.datasets.dataset import Dataset, Images
from fastldp.datasets.files import read_file
from fastldp.datasets.generated import PAPER_ROWS, synthetic
from fastldp.datasets.idx import read_idx, read_images
from fastldp.datasets.libsvm import read_libsvm
from fastldp.datasets.loading import load
from fastldp.datasets.partitioning import Sample, partition, sample
from fastldp.datasets.testing import HeldOut, hold_out

__all__ = [
    "PAPER_ROWS",
    "Dataset",
    "HeldOut",
    "Images",
    "Sample",
    "hold_out",
    "load",
    "partition",
    "read_file",
    "read_idx",
    "read_images",
    "read_libsvm",
    "sample",
    "synthetic",
]
