"""ONNX Runtime's error texts, cut down to what a reader can use."""

from __future__ import annotations

import re

_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_NODE = re.compile(r"Non-zero status code returned while running (\w+) node\. Name:'([^']*)' Status Message: (.*)")
_SOURCE = re.compile(r"/\S+\.(?:cc|h|cpp|cu):\d+ .*? was false\. ?")
_LONGEST = 300


def one_line(error: BaseException) -> str:
    """The error in one line of at most 300 characters: for a failed node its type, its name and what it says."""
    text = _PREFIX.sub("", " ".join(str(error).split())) or type(error).__name__
    if node := _NODE.search(text):
        text = f"{node[1]} node '{node[2]}': {node[3]}"
    text = _SOURCE.sub("", text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
