#!/usr/bin/env python3
"""Kills, duplicates and damages runs of a built program, and checks that their results are right.

    scripts/attack.py [--program target/release/apfl] [--kills 500] [--pairs 100] [--damages 50]

kills     a run is killed at a chosen system call (strace's fault injection), in half of the cases
          again while it resumes; then it is resumed to its end
pairs     two processes resume one killed run at once, with client states in RAM and on disk
damages   one checkpoint file of a killed run is altered, cut or removed; then the run is resumed

Every run must end with the fingerprint and the records of an undisturbed run.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

CALLS = ["rename", "fsync", "write", "openat", "unlink"]
SPEC = """
[data]
clients = 12
features = 5
classes = 3
examples = 20
[federation]
participation = 0.5
[training]
rounds = 10
local_steps = 2
[evaluation]
every = 2
[checkpoint]
every = 2
[engine]
threads = 1
"""
DISK = 'engine={ memory = "disk", budget_mb = 1, threads = 1 }'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", default="target/release/apfl")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--damages", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random.seed(args.seed)
    program = str(pathlib.Path(args.program).resolve())
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(program, pathlib.Path(folder))
        failed = attack.kills(args.kills) if args.kills else 0
        failed += attack.pairs(args.pairs) if args.pairs else 0
        failed += attack.damages(args.damages) if args.damages else 0
    sys.exit(1 if failed else 0)


class Attack:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        (folder / "spec.toml").write_text(SPEC)
        self.whole = folder / "whole"
        self.call(self.begin(self.whole), check=True)
        self.expected = self.result(self.whole)

    def begin(self, out, home=None):
        more = ["--set", home] if home else []
        return [self.program, "run", str(self.folder / "spec.toml"), "--quiet", "--out", str(out), *more]

    def resume(self, out):
        # With the spec: a run that was killed before it wrote its own starts anew.
        return [*self.begin(out), "--resume"]

    def call(self, command, check=False):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if check and done.returncode:
            raise SystemExit(f"{command}: {done.stderr}")
        return done

    @staticmethod
    def result(out):
        records = [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]
        for record in records:
            record.pop("seconds")
        return json.loads((out / "summary.json").read_text())["fingerprint"], records

    def same(self, out):
        try:
            return self.result(out) == self.expected
        except (OSError, ValueError) as error:
            return error

    def counts(self):
        """Counts a run's calls, so that the kills are spread over it."""
        counts = {}
        for call in CALLS:
            out = self.folder / "counted"
            log = self.folder / "log"
            self.call(["strace", "-f", "-o", str(log), "-e", f"trace={call}", *self.begin(out)])
            counts[call] = sum(f"{call}(" in line for line in log.read_text().splitlines())
            shutil.rmtree(out)
        return counts

    def kills(self, number):
        if not shutil.which("strace"):
            print("kills: SKIPPED, strace is not installed")
            return 0
        counts, failed, hit = self.counts(), [], 0
        for k in range(number):
            out = self.folder / f"killed-{k}"
            call = CALLS[k % len(CALLS)]
            twice = k % 2 == 1
            for command in [self.begin(out), self.resume(out)][: 1 + twice]:
                when = random.randint(1, max(1, counts[call]))
                done = self.call(
                    ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}"]
                    + ["-e", f"inject={call}:signal=KILL:when={when}", *command]
                )
                hit += done.returncode != 0
            done = self.call(self.resume(out))
            if done.returncode or self.same(out) is not True:
                failed.append(f"{call} {'twice' if twice else 'once'}: {done.stderr.strip()[-300:]}")
            shutil.rmtree(out, ignore_errors=True)
        print(f"kills: {number} runs, {hit} kills at {counts}: {number - len(failed)} equal")
        return self.report(failed)

    def killed(self, out, home=None):
        """Makes an unfinished run with its checkpoints."""
        self.call(self.begin(out, home), check=True)
        (out / "summary.json").unlink()

    def pairs(self, number):
        failed, refused = [], 0
        for k in range(number):
            out = self.folder / "pair"
            self.killed(out, DISK if k % 2 else None)
            for name in ["checkpoint-10.manifest", "checkpoint-8.manifest"]:
                (out / "checkpoint" / name).unlink(missing_ok=k % 4 > 1)
            command = [self.program, "run", "--resume", "--quiet", "--out", str(out)]
            both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
            errors = [process.communicate(timeout=120)[1] for process in both]
            codes = sorted(process.returncode for process in both)
            in_use = sum("in use by process" in error for error in errors)
            refused += in_use
            # Both may succeed if one ended before the other began.
            well = codes == [0, 0] or (codes == [0, 1] and in_use == 1)
            if not well or self.same(out) is not True:
                failed.append(f"{codes}: {errors}")
            shutil.rmtree(out)
        print(f"pairs: {number}, {refused} refused: {number - len(failed)} right")
        return self.report(failed)

    def damages(self, number):
        failed = []
        for k in range(number):
            out = self.folder / "damaged"
            self.killed(out)
            files = sorted((out / "checkpoint").iterdir())
            file = files[k % len(files)]
            bytes_ = bytearray(file.read_bytes())
            what = ["altered", "cut", "removed", "emptied"][random.randrange(4)]
            if what == "altered":
                bytes_[random.randrange(len(bytes_))] ^= 1 << random.randrange(8)
            file.unlink()
            if what != "removed":
                cut = {"altered": len(bytes_), "cut": random.randrange(len(bytes_)), "emptied": 0}
                file.write_bytes(bytes_[: cut[what]])
            done = self.call([self.program, "run", "--resume", "--quiet", "--out", str(out)])
            if done.returncode or self.same(out) is not True:
                failed.append(f"{file.name} {what}: {done.stderr.strip()[-300:]}")
            shutil.rmtree(out)
        print(f"damages: {number}: {number - len(failed)} continued from an intact checkpoint")
        return self.report(failed)

    @staticmethod
    def report(failed):
        for message in failed[:10]:
            print("  failed:", message)
        return len(failed)


if __name__ == "__main__":
    main()
