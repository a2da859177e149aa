"""The public sets that `load` knows: their files, where these are served, and the sha256 of each when unpacked."""

from __future__ import annotations

from dataclasses import dataclass

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
MNIST = "https://ossci-datasets.s3.amazonaws.com/"


@dataclass(frozen=True)
class File:
    """A public file: its path below a server or mirror, and what it is when unpacked."""

    served: str
    server: str
    sha256: str

    @property
    def plain(self) -> str:
        """The path without the packer's ending: where a cache has it.

        >>> FILES["ijcnn1"].plain
        'ijcnn1'
        """
        return self.served.removesuffix(".bz2").removesuffix(".gz")


FILES = {
    "a6a": File("a6a", LIBSVM, "6023becedbd392fdc6a62ad94b60c9363149370d4c57ef13949fcc765842a031"),
    "a6a.t": File("a6a.t", LIBSVM, "d102a5e431d0af29484f21a47425efb99a0f25d4fbd9d6738d38e9516819991b"),
    "a9a": File("a9a", LIBSVM, "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
    "a9a.t": File("a9a.t", LIBSVM, "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"),
    "ijcnn1": File("ijcnn1.bz2", LIBSVM, "16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f"),
    "mushrooms": File("mushrooms", LIBSVM, "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"),
    "w8a": File("w8a", LIBSVM, "6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2"),
}

# Rows and features, as the publishers count them.
SHAPES = {
    "a6a": (11_220, 122),
    "a6a.t": (21_341, 123),
    "a9a": (32_561, 123),
    "a9a.t": (16_281, 122),
    "ijcnn1": (49_990, 22),
    "mushrooms": (8_124, 112),
    "w8a": (49_749, 300),
    "mnist": (70_000, 784),
}

# The images and the labels of each part.
TRAIN = (
    File("mnist/train-images-idx3-ubyte.gz", MNIST, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    File("mnist/train-labels-idx1-ubyte.gz", MNIST, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
)
TEST = (
    File("mnist/t10k-images-idx3-ubyte.gz", MNIST, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    File("mnist/t10k-labels-idx1-ubyte.gz", MNIST, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)
MNIST_FILES = {"train": TRAIN, "test": TEST}


def files_of(name: str) -> tuple[File, ...]:
    """All files of a set.

    >>> len(files_of("a6a")), len(files_of("mnist"))
    (1, 4)
    """
    return tuple(file for part in MNIST_FILES.values() for file in part) if name == "mnist" else (FILES[name],)
