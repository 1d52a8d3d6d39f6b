"""A site's component: hands letters to the site's node and its answers back.

Where the table lies, what the site is called and where its state is kept, its own operator says:
`flower-supernode --node-config 'client="north" data="/data/north.csv" state="/var/lib/apfl"'`.
"""

from __future__ import annotations

import logging
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from .._apfl import answer, refusal
from ._letters import packed, unpacked

log = logging.getLogger("apfl.flower")
app = ClientApp()


@app.query("hello")
def hello(message: Any, context: Any) -> Any:
    """Who this is, for a server that was not told by the node's registration."""
    name = str(context.node_config.get("client", ""))
    content = RecordDict({"site": ConfigRecord({"name": name})})
    return Message(content, reply_to=message)


@app.train("letter")
def letter(message: Any, context: Any) -> Any:
    """Answers a letter. Errors stay here: the answer has a code alone."""
    config = context.node_config
    missing = [key for key in ("client", "data", "state") if not config.get(key)]
    if missing:
        log.error("--node-config has no %s; see docs/FEDERATION.md", ", ".join(missing))
    received = b""
    try:
        received = unpacked(message.content)
        bytes_, error = answer(
            str(config.get("client", "")),
            str(config.get("data", "")),
            str(config.get("state", "apfl-state")),
            str(config.get("accept", "operator")),
            received,
        )
        if error is not None:
            log.error("%s", error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # Rust's panics are such: Flower would send their text
        log.exception("a letter could not be answered")
        bytes_ = refusal(received)
    return Message(packed(bytes_), reply_to=message)
