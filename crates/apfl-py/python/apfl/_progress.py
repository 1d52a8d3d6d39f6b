"""A progress bar: tqdm's if it is installed, also in notebooks; else a line per tenth."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any


class Progress:
    """Shows the progress of rounds, then of the finalization."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._total = 0
        self._at = 0

    def see(self, event: str, number: int, record: dict[str, Any] | None, directory: Path) -> None:
        """Shows an event of a run."""
        if event == "begun":
            text = (directory / "spec.toml").read_text(encoding="utf-8")
            for line in text.splitlines():
                if not line.startswith("# "):
                    break
                print(line[2:], file=sys.stderr)
            self._begin("rounds", tomllib.loads(text)["training"]["rounds"], number)
        elif event == "delivering":
            self._begin("finalization", number, 0)
        else:
            self._to(number, record)

    def close(self) -> None:
        """Closes the bar."""
        if hasattr(self._bar, "close"):
            self._bar.close()
        self._bar = None

    def _begin(self, name: str, total: int, at: int) -> None:
        self.close()
        self._total, self._at = total, at
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self._bar = name
        else:
            self._bar = tqdm(desc=name, total=total, initial=at)

    def _to(self, at: int, record: dict[str, Any] | None) -> None:
        before, self._at = self._at, at
        loss = ((record or {}).get("personal") or {}).get("train", {}).get("loss")
        if not isinstance(self._bar, str):
            if loss is not None:
                self._bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
            self._bar.update(at - before)
            return
        tenth = max(1, self._total // 10)
        if at // tenth > before // tenth or at == self._total:
            shown = "" if loss is None else f", loss {loss:.4f}"
            print(f"{self._bar}: {at} of {self._total}{shown}", file=sys.stderr)
