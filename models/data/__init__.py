"""Click data: readers for public formats and a generator. NumPy only, no PyTorch."""

from .avazu import avazu_rows
from .criteo import criteo_rows, log_transform
from .dataset import Dataset
from .encoding import Encoder, Progress
from .load import FORMATS, load
from .movielens import fetch_movielens, movielens_files, read_movielens
from .synthetic import CRITEO_VOCABULARIES, generate
from .text import RawRows

__all__ = [
    "CRITEO_VOCABULARIES",
    "FORMATS",
    "Dataset",
    "Encoder",
    "Progress",
    "RawRows",
    "avazu_rows",
    "criteo_rows",
    "fetch_movielens",
    "generate",
    "load",
    "log_transform",
    "movielens_files",
    "read_movielens",
]
