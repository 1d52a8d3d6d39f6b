"""The server's component: carries letters over Flower's grid while Rust trains."""

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
from ._letters import HELLO, LETTER, packed, unpacked

log = logging.getLogger("flwr")
app = ServerApp()

PAUSE = 0.5
"""Seconds between two looks for answers."""


class Post:
    """Carries letters to sites: over the node that was registered under a site's name, or that
    says it is the site where nodes have no names."""

    def __init__(self, grid: Any, sites: list[str], deadline: float) -> None:
        self.grid = grid
        self.sites = sites
        self.deadline = deadline
        self.nodes: dict[str, int] = {}
        self.asked: dict[int, str] = {}
        self.named: set[str] = set()
        self.exchanges = 0

    def meet(self) -> None:
        """Finds out which nodes are which sites."""
        here = list(self.grid.get_nodes())
        registered = {node.node_id: getattr(node, "name", "") for node in here}
        ids = set(registered)
        self.nodes = {site: node for site, node in self.nodes.items() if node in ids}
        for node in sorted(here, key=lambda node: int(node.node_id)):
            name = getattr(node, "name", "")
            if name in self.sites:
                # What is registered counts more than what a node says.
                self.named.add(name)
                if registered.get(self.nodes.get(name, -1)) != name:
                    self.nodes[name] = node.node_id
            elif not name and node.node_id not in self.asked:
                hello = Message(RecordDict(), node.node_id, HELLO, ttl=self.deadline)
                [self.asked[node.node_id]] = self.grid.push_messages([hello])
        waiting = [id for node, id in self.asked.items() if node in ids and id]
        for reply in self.grid.pull_messages(waiting) if waiting else []:
            node = reply.metadata.src_node_id
            self.asked[node] = ""
            if not reply.has_content():
                del self.asked[node]  # it is asked again
                continue
            try:
                name = str(reply.content["site"]["name"])
            except Exception:
                log.warning("node %s does not say who it is", node)
                continue
            if name in self.named and self.nodes.get(name) != node:
                log.warning("node %s says that it is site '%s', which has another", node, name)
            elif name in self.sites and self.nodes.setdefault(name, node) != node:
                log.warning("two nodes say that they are site '%s'; one is ignored", name)

    def ask(self, letters: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """Carries letters; returns the answers that came in time. A site whose node changes
        gets its letter again, which gives the same answer."""
        self.exchanges += 1
        until = time.monotonic() + self.deadline
        waiting = dict(letters)
        sent: dict[str, int] = {}
        messages: dict[str, str] = {}
        answers: list[tuple[str, bytes]] = []
        while waiting and time.monotonic() < until:
            if any(site not in self.nodes for site in waiting) or not sent:
                self.meet()
            for site, letter in waiting.items():
                node = self.nodes.get(site)
                if node is not None and sent.get(site) != node:
                    message = Message(packed(letter), node, LETTER, ttl=self.deadline)
                    for id in self.grid.push_messages([message]):
                        if id:
                            sent[site] = node
                            messages[id] = site
            for reply in self.grid.pull_messages(list(messages)) if messages else []:
                site = messages.pop(reply.metadata.reply_to_message_id, "")
                if not reply.has_content():
                    # Flower's own error, such as a process that died: the letter goes again.
                    log.warning("site '%s': its node failed (Flower's code %s)", site, reply.error.code)
                    sent.pop(site, None)
                    time.sleep(PAUSE)
                elif site in waiting:
                    del waiting[site]
                    try:
                        answers.append((site, unpacked(reply.content)))
                    except Exception:
                        log.warning("site '%s' has sent what is no letter", site)
            if waiting:
                time.sleep(PAUSE)
                self.meet()
        for site in waiting:
            log.warning("site '%s' has not answered within %g s", site, self.deadline)
        return answers


def watching(rounds: list[float]) -> Callable[[str, int, str | None], None]:
    """Tells the log how far a run is."""

    def watch(event: str, number: int, text: str | None) -> None:
        if event == "round" and text is not None:
            record = json.loads(text)
            rounds.append(time.monotonic())
            personal = record.get("personal", {}).get("valid", {})
            words = "".join(f", {k} {v:.4f}" for k, v in personal.items() if v is not None)
            absent = record.get("skipped", [])
            missing = f"; without {', '.join(absent)}" if absent else ""
            log.info("round %d: %d sites%s%s", number, record["cohort"], words, missing)
        elif event == "delivering":
            log.info("delivery to %d sites", number)

    return watch


@app.main()
def main(grid: Any, context: Any) -> None:
    """Trains until the report is written. The last line of the log is `federation <fingerprint>`:
    Flower's own exit status says nothing."""
    config = context.run_config
    spec, out = str(config["spec"]), str(config["out"])
    if not Path(out).is_absolute():
        raise ValueError(f"out = {out!r}: the run directory must be an absolute path")
    hash, sites, deadline = terms(spec)
    log.info("terms %s for %s", hash, ", ".join(sites))
    post = Post(grid, sites, float(deadline))
    resume = bool(config.get("resume", False))
    finished, rounds, fingerprint = serve(spec, out, resume, post.ask, log.info, watching([]))
    if finished:
        page = str(Path(out) / "report.html")
        report([out], page)
        log.info("%d rounds in %d exchanges; %s", rounds, post.exchanges, page)
        log.info("federation %s", fingerprint)
