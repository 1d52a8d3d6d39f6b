"""Conversion between bytes and Flower's messages: an array, so that long ones are sent in pieces."""

from __future__ import annotations

from typing import Any

import numpy
from flwr.app import ArrayRecord, RecordDict

HELLO = "query.hello"
REQUEST = "train.letter"  # the name is part of the protocol


def packed(message: bytes) -> Any:
    """Returns the content of a Flower message."""
    array = numpy.frombuffer(message, dtype=numpy.uint8)
    return RecordDict({"letter": ArrayRecord([array])})


def unpacked(content: Any) -> bytes:
    """Returns the bytes of a Flower message's content."""
    [array] = content["letter"].values()
    found = array.numpy()
    if found.dtype != numpy.uint8 or found.ndim != 1 or not found.flags.c_contiguous:
        raise ValueError("the content is not a contiguous array of bytes")
    return bytes(found.tobytes())
