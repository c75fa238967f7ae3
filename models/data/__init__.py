"""Click data: readers for public formats and a generator. NumPy only, no PyTorch."""

from .avazu import avazu_rows
from .criteo import criteo_rows
from .dataset import Dataset
from .encoding import Encoder, Progress
from .load import FORMATS, load
from .movielens import fetch_movielens, movielens_files, read_movielens
from .synthetic import CRITEO_VOCABULARIES, generate

__all__ = [
    "CRITEO_VOCABULARIES",
    "FORMATS",
    "Dataset",
    "Encoder",
    "Progress",
    "avazu_rows",
    "criteo_rows",
    "fetch_movielens",
    "generate",
    "load",
    "movielens_files",
    "read_movielens",
]
