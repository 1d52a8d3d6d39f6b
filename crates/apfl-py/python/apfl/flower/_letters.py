"""Letters as Flower's messages: bytes in an array, so that long ones travel in pieces."""

from __future__ import annotations

from typing import Any

import numpy
from flwr.app import ArrayRecord, RecordDict

HELLO = "query.hello"
LETTER = "train.letter"


def packed(letter: bytes) -> Any:
    """The content of a message."""
    array = numpy.frombuffer(letter, dtype=numpy.uint8)
    return RecordDict({"letter": ArrayRecord([array])})


def unpacked(content: Any) -> bytes:
    """The letter of a message's content."""
    [array] = content["letter"].values()
    found = array.numpy()
    if found.dtype != numpy.uint8 or found.ndim != 1 or not found.flags.c_contiguous:
        raise ValueError("a message that is no letter")
    return bytes(found.tobytes())
