"""The server's component: transports messages over Flower's grid while Rust trains."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

from .._apfl import report, serve, terms
from ._messages import HELLO, REQUEST, packed, unpacked

log = logging.getLogger("flwr")
app = ServerApp()

PAUSE = 0.5
"""Seconds between two polls for responses."""


class Transport:
    """Carries requests to sites: to the node that is registered under a site's name, or to the
    unnamed node that reports the name."""

    def __init__(self, grid: Any, sites: list[str], deadline: float) -> None:
        self.grid = grid
        self.sites = sites
        self.deadline = deadline
        self.nodes: dict[str, int] = {}
        self.hellos: dict[int, str] = {}
        self.named: set[str] = set()
        self.exchanges = 0

    def find_nodes(self) -> None:
        """Finds the node of each site."""
        here = list(self.grid.get_nodes())
        registered = {node.node_id: getattr(node, "name", "") for node in here}
        ids = set(registered)
        self.nodes = {site: node for site, node in self.nodes.items() if node in ids}
        for node in sorted(here, key=lambda node: int(node.node_id)):
            name = getattr(node, "name", "")
            if name in self.sites:
                # A registered name has precedence over a reported one.
                self.named.add(name)
                if registered.get(self.nodes.get(name, -1)) != name:
                    self.nodes[name] = node.node_id
            elif not name and node.node_id not in self.hellos:
                hello = Message(RecordDict(), node.node_id, HELLO, ttl=self.deadline)
                [self.hellos[node.node_id]] = self.grid.push_messages([hello])
        waiting = [id for node, id in self.hellos.items() if node in ids and id]
        for reply in self.grid.pull_messages(waiting) if waiting else []:
            node = reply.metadata.src_node_id
            self.hellos[node] = ""
            if not reply.has_content():
                del self.hellos[node]  # to be sent again
                continue
            try:
                name = str(reply.content["site"]["name"])
            except Exception:
                log.warning("node %s does not report its site", node)
                continue
            if name in self.named and self.nodes.get(name) != node:
                log.warning("node %s reports site '%s', which has another node; it is ignored", node, name)
            elif name in self.sites and self.nodes.setdefault(name, node) != node:
                log.warning("two nodes report site '%s'; one is ignored", name)

    def exchange(self, requests: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """Carries requests and returns the responses that arrived in time. A site whose node
        changes gets its request again and gives the same response."""
        self.exchanges += 1
        end = time.monotonic() + self.deadline
        waiting = dict(requests)
        sent: dict[str, int] = {}
        messages: dict[str, str] = {}
        responses: list[tuple[str, bytes]] = []
        while waiting and time.monotonic() < end:
            if any(site not in self.nodes for site in waiting) or not sent:
                self.find_nodes()
            for site, request in waiting.items():
                node = self.nodes.get(site)
                if node is not None and sent.get(site) != node:
                    message = Message(packed(request), node, REQUEST, ttl=self.deadline)
                    for id in self.grid.push_messages([message]):
                        if id:
                            sent[site] = node
                            messages[id] = site
            for reply in self.grid.pull_messages(list(messages)) if messages else []:
                site = messages.pop(reply.metadata.reply_to_message_id, "")
                if not reply.has_content():
                    # Flower's own error, such as a process that died: the request is sent again.
                    log.warning("site '%s': its node failed (Flower's code %s)", site, reply.error.code)
                    sent.pop(site, None)
                    time.sleep(PAUSE)
                elif site in waiting:
                    del waiting[site]
                    try:
                        responses.append((site, unpacked(reply.content)))
                    except Exception:
                        log.warning("the message of site '%s' is not a response", site)
            if waiting:
                time.sleep(PAUSE)
                self.find_nodes()
        for site in waiting:
            log.warning("site '%s' has not responded within %g s", site, self.deadline)
        return responses


def watching(rounds: list[float]) -> Callable[[str, int, str | None], None]:
    """Returns a callback that logs the progress of a run."""

    def watch(event: str, number: int, text: str | None) -> None:
        if event == "round" and text is not None:
            record = json.loads(text)
            rounds.append(time.monotonic())
            personal = record.get("personal", {}).get("valid", {})
            scores = "".join(f", {k} {v:.4f}" for k, v in personal.items() if v is not None)
            absent = record.get("skipped", [])
            missing = f"; without {', '.join(absent)}" if absent else ""
            log.info("round %d: %d sites%s%s", number, record["cohort"], scores, missing)
        elif event == "delivering":
            log.info("finalization at %d sites", number)

    return watch


@app.main()
def main(grid: Any, context: Any) -> None:
    """Trains and writes the report. The last line of a successful run's log is
    `federation <fingerprint>`: Flower's exit status does not show a failure."""
    config = context.run_config
    spec, out = str(config["spec"]), str(config["out"])
    if not Path(out).is_absolute():
        raise ValueError(f"out: found {out!r}, expected an absolute path of a run directory")
    hash, sites, deadline = terms(spec)
    log.info("terms %s for %s", hash, ", ".join(sites))
    transport = Transport(grid, sites, float(deadline))
    resume = bool(config.get("resume", False))
    finish = bool(config.get("finish", False))
    finished, rounds, fingerprint = serve(spec, out, resume, finish, transport.exchange, log.info, watching([]))
    if finished:
        page = str(Path(out) / "report.html")
        report([out], page)
        log.info("%d rounds in %d exchanges; %s", rounds, transport.exchanges, page)
        log.info("federation %s", fingerprint)
