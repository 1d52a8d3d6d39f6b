"""A site's component: passes requests to the site's node and returns its responses.

The site's operator gives the name of the site, its table and its state directory:
`flower-supernode --node-config 'client="north" data="/data/north.csv" state="/var/lib/apfl"'`.
"""

from __future__ import annotations

import logging
import traceback
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from .._apfl import answer, quoted, refusal
from ._messages import packed, unpacked

log = logging.getLogger("apfl.flower")
app = ClientApp()


@app.query("hello")
def hello(message: Any, context: Any) -> Any:
    """Reports the site's name to a server that does not know it from the node's registration."""
    name = str(context.node_config.get("client", ""))
    content = RecordDict({"site": ConfigRecord({"name": name})})
    return Message(content, reply_to=message)


@app.train("letter")
def respond(message: Any, context: Any) -> Any:
    """Responds to a request. Errors stay at the site: the response has only a code."""
    config = context.node_config
    missing = [key for key in ("client", "data", "state") if not config.get(key)]
    if missing:
        log.error("--node-config lacks %s; see docs/FEDERATION.md", ", ".join(missing))
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
    except BaseException as error:  # such as Rust's panics, whose text Flower would send
        places = "".join(traceback.format_tb(error.__traceback__))
        why = quoted(f"{type(error).__name__}: {error}")
        log.error("the request could not be handled: %s\n%s", why, places)
        bytes_ = refusal(received)
    return Message(packed(bytes_), reply_to=message)
